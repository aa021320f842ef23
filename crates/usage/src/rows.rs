//! Rows of `usage` that count receipts, built here: a fan-out in SQL costs more than twice the CPU.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray, UInt8Array,
    UInt32Array,
};
use arrow_schema::{Field, Schema};
use blocks::Columns;
use uuid::Uuid;
use warehouse::WarehouseError;

use crate::Grain;
use crate::calendar::{HALF_HOUR_S, day_of};
use crate::counted_key::NewReceipt;

/// The inserted columns with their types, as `input()` takes them.
pub(crate) const STRUCTURE: &str = "grain String, publisher String, time UInt32, entry_id UUID, half_hour UInt8, \
    key FixedString(16), client_id UUID, purpose String, model_id String, client_name String, organization String, \
    client_version String, url String, operator String, key_fingerprint FixedString(32), verified Bool, \
    receipts Int64, first_ms Int64, last_ms Int64";

/// The sorting key of a row. Numbers come first, because most comparisons end there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey<'a> {
    grain: Grain,
    /// Index in the list of publishers, which is sorted by reversed names.
    publisher: usize,
    time: u32,
    entry_id: OrderedId,
    half_hour: u8,
    /// The hash, most significant byte first.
    key: u128,
    client_id: OrderedId,
    purpose: &'a str,
    model_id: &'a str,
    client_name: &'a str,
    organization: &'a str,
    client_version: &'a str,
    url: &'a str,
    operator: &'a str,
    key_fingerprint: &'a [u8],
    verified: bool,
}

/// The fingerprint of rows that have none.
const NO_KEY: &[u8] = &[0; 32];

/// An ID in ClickHouse's order: UUIDs are compared by their second half first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct OrderedId(u128);

impl OrderedId {
    fn new(bytes: &[u8]) -> Self {
        Self(Uuid::from_slice(bytes).unwrap_or_default().as_u128().rotate_left(64))
    }

    fn bytes(self) -> [u8; 16] {
        self.0.rotate_left(64).to_be_bytes()
    }
}

#[derive(Debug, Clone, Copy)]
struct RowSums {
    receipts: i64,
    first_ms: i64,
    last_ms: i64,
}

/// Rows that count these receipts, merged and sorted.
pub(crate) fn rows(batches: &[Columns], receipts: &[NewReceipt]) -> Result<RecordBatch, WarehouseError> {
    let mut rows: Vec<(RowKey<'_>, RowSums)> = Vec::with_capacity(receipts.len() * 5);
    // Counted rows have no publisher.
    let mut publishers = vec![""];
    publishers.extend(
        receipts
            .iter()
            .map(|receipt| batches[receipt.batch].publisher.value(receipt.row)),
    );
    publishers.sort_unstable();
    publishers.dedup();
    publishers.sort_unstable_by(|left, right| reversed(left).cmp(reversed(right)));
    for receipt in receipts {
        contribute(&batches[receipt.batch], receipt, &publishers, &mut rows);
    }
    #[allow(clippy::unnecessary_sort_by)] // By key, each comparison would copy two keys.
    rows.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    rows.dedup_by(|(later, more), (key, sums)| {
        let is_equal = later == key;
        if is_equal {
            sums.receipts += more.receipts;
            sums.first_ms = sums.first_ms.min(more.first_ms);
            sums.last_ms = sums.last_ms.max(more.last_ms);
        }
        is_equal
    });
    batch(&publishers, &rows).ok_or(WarehouseError::BadRows("rows of usage can't be encoded"))
}

/// A publisher as the primary key has it.
fn reversed(publisher: &str) -> impl Iterator<Item = u8> {
    publisher.bytes().rev()
}

/// Adds a receipt's rows, one of each grain.
fn contribute<'a>(
    columns: &'a Columns,
    receipt: &NewReceipt,
    publishers: &[&str],
    rows: &mut Vec<(RowKey<'a>, RowSums)>,
) {
    let row = receipt.row;
    let second = receipt.key.second;
    let day = day_of(second);
    let at_ms = columns.timestamp.value(row);
    let once = RowSums {
        receipts: 1,
        first_ms: at_ms,
        last_ms: at_ms,
    };
    let empty = RowKey {
        grain: Grain::Counted,
        publisher: 0,
        time: second,
        entry_id: OrderedId::default(),
        half_hour: 0,
        key: 0,
        client_id: OrderedId::default(),
        purpose: "",
        model_id: "",
        client_name: "",
        organization: "",
        client_version: "",
        url: "",
        operator: "",
        key_fingerprint: NO_KEY,
        verified: false,
    };
    let counted = RowKey {
        key: u128::from_be_bytes(receipt.key.hash),
        ..empty
    };
    let no_times = RowSums {
        first_ms: 0,
        last_ms: 0,
        ..once
    };
    let of_publisher = RowKey {
        publisher: publishers
            .binary_search_by(|one| reversed(one).cmp(reversed(columns.publisher.value(row))))
            .unwrap_or_default(),
        time: day,
        operator: columns.operator.value(row),
        verified: columns.publisher_verified.value(row),
        ..empty
    };
    let (entry_id, client_id) = (
        OrderedId::new(columns.entry_id.value(row)),
        OrderedId::new(columns.client_id.value(row)),
    );
    let (purpose, model_id) = (columns.purpose.value(row), columns.model_id.value(row));
    let key_fingerprint = columns.key_fingerprint.value(row);
    let all = RowKey {
        grain: Grain::All,
        entry_id,
        half_hour: u8::try_from((second - day) / HALF_HOUR_S).unwrap_or(0),
        client_id,
        purpose,
        model_id,
        key_fingerprint,
        ..of_publisher
    };
    let by_purpose = RowKey {
        grain: Grain::Purpose,
        time: second - second % HALF_HOUR_S,
        purpose,
        ..of_publisher
    };
    let by_client = RowKey {
        grain: Grain::Client,
        client_id,
        purpose,
        model_id,
        client_name: columns.client_name.value(row),
        organization: columns.organization.value(row),
        client_version: columns.client_version.value(row),
        key_fingerprint,
        ..of_publisher
    };
    let by_entry = RowKey {
        grain: Grain::Entry,
        entry_id,
        url: columns.url.value(row),
        ..of_publisher
    };
    rows.push((counted, no_times));
    rows.extend([all, by_purpose, by_client, by_entry].map(|key| (key, once)));
}

/// The rows as a batch of the columns in [`STRUCTURE`].
fn batch(publishers: &[&str], rows: &[(RowKey<'_>, RowSums)]) -> Option<RecordBatch> {
    let text = |value: for<'a> fn(&RowKey<'a>) -> &'a str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(|(key, _)| value(key))))
    };
    let fixed = |value: fn(&RowKey<'_>) -> [u8; 16]| -> Option<ArrayRef> {
        let bytes: Vec<u8> = rows.iter().flat_map(|(key, _)| value(key)).collect();
        Some(Arc::new(FixedSizeBinaryArray::try_new(16, bytes.into(), None).ok()?))
    };
    let sum = |value: fn(&RowSums) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, sums)| value(sums))))
    };
    let fingerprints: Vec<u8> = rows.iter().flat_map(|(key, _)| key.key_fingerprint).copied().collect();
    let fingerprints = FixedSizeBinaryArray::try_new(32, fingerprints.into(), None).ok()?;
    let verified: Vec<bool> = rows.iter().map(|(key, _)| key.verified).collect();
    let columns: [(&str, ArrayRef); 19] = [
        ("grain", text(|key| key.grain.name())),
        (
            "publisher",
            Arc::new(StringArray::from_iter_values(
                rows.iter().map(|(key, _)| publishers[key.publisher]),
            )),
        ),
        (
            "time",
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(key, _)| key.time))),
        ),
        ("entry_id", fixed(|key| key.entry_id.bytes())?),
        (
            "half_hour",
            Arc::new(UInt8Array::from_iter_values(rows.iter().map(|(key, _)| key.half_hour))),
        ),
        ("key", fixed(|key| key.key.to_be_bytes())?),
        ("client_id", fixed(|key| key.client_id.bytes())?),
        ("purpose", text(|key| key.purpose)),
        ("model_id", text(|key| key.model_id)),
        ("client_name", text(|key| key.client_name)),
        ("organization", text(|key| key.organization)),
        ("client_version", text(|key| key.client_version)),
        ("url", text(|key| key.url)),
        ("operator", text(|key| key.operator)),
        ("key_fingerprint", Arc::new(fingerprints)),
        ("verified", Arc::new(BooleanArray::from(verified))),
        ("receipts", sum(|sums| sums.receipts)),
        ("first_ms", sum(|sums| sums.first_ms)),
        ("last_ms", sum(|sums| sums.last_ms)),
    ];
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), false);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).ok()
}

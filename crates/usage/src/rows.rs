//! Rows of `usage` that count receipts, built here: a fan-out in SQL costs more than twice the CPU.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;
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

/// The sorting key of a row, with texts by their numbers in [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    grain: Grain,
    publisher: u32,
    time: u32,
    entry_id: OrderedId,
    half_hour: u8,
    /// The hash, most significant byte first.
    key: u128,
    client_id: OrderedId,
    purpose: u32,
    model_id: u32,
    client_name: u32,
    organization: u32,
    client_version: u32,
    url: u32,
    operator: u32,
    key_fingerprint: u32,
    verified: bool,
}

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

/// The number of the empty text and of the zero fingerprint, which rows of some grains have: they
/// are first in every order.
const ABSENT: u32 = 0;

/// Values that rows have numbers for: comparing two numbers compares the values.
struct Numbered<T> {
    /// Distinct values, by number.
    sorted: Vec<T>,
    /// The given values' numbers.
    numbers: Vec<u32>,
}

impl<T: Copy + Eq + Hash> Numbered<T> {
    /// `absent` is first in the order.
    fn new(absent: T, values: impl Iterator<Item = T>, order: impl Fn(T, T) -> Ordering) -> Self {
        let mut distinct = vec![absent];
        let mut indexes = HashMap::from([(absent, 0)]);
        let index = |value| {
            *indexes.entry(value).or_insert_with(|| {
                distinct.push(value);
                distinct.len() - 1
            })
        };
        let indexes: Vec<usize> = values.map(index).collect();
        let mut in_order: Vec<usize> = (0..distinct.len()).collect();
        in_order.sort_unstable_by(|&left, &right| order(distinct[left], distinct[right]));
        let mut numbers = vec![ABSENT; distinct.len()];
        for (number, &index) in (0..).zip(&in_order) {
            numbers[index] = number;
        }
        Self {
            sorted: in_order.into_iter().map(|index| distinct[index]).collect(),
            numbers: indexes.into_iter().map(|index| numbers[index]).collect(),
        }
    }

    fn value(&self, number: u32) -> T {
        self.sorted[number as usize]
    }
}

/// Texts of a receipt beside publisher and fingerprint.
const OTHERS: usize = 7;

/// The texts of the receipts' rows.
struct Texts<'a> {
    /// By reversed names, as the primary key has them.
    publishers: Numbered<&'a str>,
    fingerprints: Numbered<&'a [u8]>,
    /// Of each receipt so many.
    others: Numbered<&'a str>,
}

impl<'a> Texts<'a> {
    fn new(batches: &'a [Columns], receipts: &[NewReceipt]) -> Self {
        let rows = || receipts.iter().map(|receipt| (&batches[receipt.batch], receipt.row));
        let publishers = rows().map(|(columns, row)| columns.publisher.value(row));
        let fingerprints = rows().map(|(columns, row)| columns.key_fingerprint.value(row));
        let others = rows().flat_map(|(columns, row)| -> [&str; OTHERS] {
            [
                columns.purpose.value(row),
                columns.model_id.value(row),
                columns.client_name.value(row),
                columns.organization.value(row),
                columns.client_version.value(row),
                columns.url.value(row),
                columns.operator.value(row),
            ]
        });
        let by_reversed = |left: &str, right: &str| left.bytes().rev().cmp(right.bytes().rev());
        Self {
            publishers: Numbered::new("", publishers, by_reversed),
            fingerprints: Numbered::new(&[0; 32], fingerprints, <[u8]>::cmp),
            others: Numbered::new("", others, str::cmp),
        }
    }
}

/// Rows that count these receipts, merged and sorted.
pub(crate) fn rows(batches: &[Columns], receipts: &[NewReceipt]) -> Result<RecordBatch, WarehouseError> {
    let texts = Texts::new(batches, receipts);
    let mut rows: Vec<(RowKey, RowSums)> = Vec::with_capacity(receipts.len() * Grain::ALL.len());
    for (index, receipt) in receipts.iter().enumerate() {
        contribute(&batches[receipt.batch], receipt, &texts, index, &mut rows);
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
    batch(&texts, &rows).ok_or(WarehouseError::BadRows("rows of usage can't be encoded"))
}

/// Bytes of a receipt's texts in its rows.
pub(crate) fn text_bytes_of(columns: &Columns, row: usize) -> usize {
    let names = [&columns.client_name, &columns.client_version, &columns.organization];
    let names: usize = names.iter().map(|column| column.value(row).len()).sum();
    names
        + columns.url.value(row).len()
        + 4 * columns.operator.value(row).len()
        + 2 * columns.model_id.value(row).len()
        + 4 * columns.publisher.value(row).len()
}

/// Adds the rows of the receipt with this index, one of each grain.
fn contribute(
    columns: &Columns,
    receipt: &NewReceipt,
    texts: &Texts<'_>,
    index: usize,
    rows: &mut Vec<(RowKey, RowSums)>,
) {
    let row = receipt.row;
    let others: [u32; OTHERS] = std::array::from_fn(|nth| texts.others.numbers[index * OTHERS + nth]);
    let [
        purpose,
        model_id,
        client_name,
        organization,
        client_version,
        url,
        operator,
    ] = others;
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
        publisher: ABSENT,
        time: second,
        entry_id: OrderedId::default(),
        half_hour: 0,
        key: 0,
        client_id: OrderedId::default(),
        purpose: ABSENT,
        model_id: ABSENT,
        client_name: ABSENT,
        organization: ABSENT,
        client_version: ABSENT,
        url: ABSENT,
        operator: ABSENT,
        key_fingerprint: ABSENT,
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
        publisher: texts.publishers.numbers[index],
        time: day,
        operator,
        verified: columns.publisher_verified.value(row),
        ..empty
    };
    let (entry_id, client_id) = (
        OrderedId::new(columns.entry_id.value(row)),
        OrderedId::new(columns.client_id.value(row)),
    );
    let key_fingerprint = texts.fingerprints.numbers[index];
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
        client_name,
        organization,
        client_version,
        key_fingerprint,
        ..of_publisher
    };
    let by_entry = RowKey {
        grain: Grain::Entry,
        entry_id,
        url,
        ..of_publisher
    };
    rows.push((counted, no_times));
    rows.extend([all, by_purpose, by_client, by_entry].map(|key| (key, once)));
}

fn strings<'a>(rows: &[(RowKey, RowSums)], value: impl Fn(&RowKey) -> &'a str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(|(key, _)| value(key))))
}

/// The rows as a batch of the inserted columns.
fn batch(texts: &Texts<'_>, rows: &[(RowKey, RowSums)]) -> Option<RecordBatch> {
    let text = |number: fn(&RowKey) -> u32| strings(rows, |key| texts.others.value(number(key)));
    let fixed = |value: fn(&RowKey) -> [u8; 16]| -> Option<ArrayRef> {
        let bytes: Vec<u8> = rows.iter().flat_map(|(key, _)| value(key)).collect();
        Some(Arc::new(FixedSizeBinaryArray::try_new(16, bytes.into(), None).ok()?))
    };
    let sum = |value: fn(&RowSums) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, sums)| value(sums))))
    };
    let fingerprint = |key: &RowKey| texts.fingerprints.value(key.key_fingerprint);
    let fingerprints: Vec<u8> = rows.iter().flat_map(|(key, _)| fingerprint(key)).copied().collect();
    let fingerprints = FixedSizeBinaryArray::try_new(32, fingerprints.into(), None).ok()?;
    let verified: Vec<bool> = rows.iter().map(|(key, _)| key.verified).collect();
    let columns: [(&str, ArrayRef); 19] = [
        ("grain", strings(rows, |key| key.grain.name())),
        ("publisher", strings(rows, |key| texts.publishers.value(key.publisher))),
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

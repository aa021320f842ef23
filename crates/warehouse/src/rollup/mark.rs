//! Marks: which hours of which publishers a run of records touches.

use std::collections::{BTreeMap, BTreeSet};

use crate::row::{put_length, put_string};
use crate::{Warehouse, WarehouseError};

/// Publishers of one hour that are named; more are all publishers.
const PUBLISHERS_MAX: usize = 64;

/// What one ledger line's accepted receipts touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkRow {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub first_offset: u64,
    /// The last offset, inclusive.
    pub last_offset: u64,
    /// What they touch. May name too much, never too little.
    pub touched: Touched,
}

/// Hours since the Unix epoch, each with its publishers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched(BTreeMap<u32, Publishers>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Publishers {
    Named(BTreeSet<String>),
    All,
}

/// The hour of an instant in milliseconds since the Unix epoch; 0 also for all before.
pub(crate) fn hour_of(timestamp_ms: i64) -> u32 {
    u32::try_from(timestamp_ms.max(0) / 3_600_000).unwrap_or(u32::MAX)
}

impl Touched {
    /// Adds a receipt.
    pub fn add(&mut self, timestamp_ms: i64, publisher: &str) {
        let of_hour = self.0.entry(hour_of(timestamp_ms));
        let publishers = of_hour.or_insert_with(|| Publishers::Named(BTreeSet::new()));
        let Publishers::Named(named) = publishers else { return };
        if named.contains(publisher) {
            return;
        }
        if named.len() == PUBLISHERS_MAX {
            *publishers = Publishers::All;
        } else {
            named.insert(publisher.to_owned());
        }
    }

    /// (hour, publisher); an empty publisher stands for all.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, &str)> {
        self.0.iter().flat_map(|(&hour, publishers)| {
            let (named, all) = match publishers {
                Publishers::Named(named) => (Some(named), None),
                Publishers::All => (None, Some("")),
            };
            let named = named.into_iter().flatten().map(String::as_str);
            named.chain(all).map(move |publisher| (hour, publisher))
        })
    }
}

impl MarkRow {
    /// The table.
    pub const TABLE: &'static str = "rollup_marks";
    /// The columns in the order of [`encode`](Self::encode).
    pub const COLUMNS: &'static str = "epoch, partition, first_offset, last_offset, touched";

    /// Appends the row in RowBinary.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.partition.to_le_bytes());
        out.extend_from_slice(&self.first_offset.to_le_bytes());
        out.extend_from_slice(&self.last_offset.to_le_bytes());
        put_length(out, self.touched.pairs().count());
        for (hour, publisher) in self.touched.pairs() {
            out.extend_from_slice(&hour.to_le_bytes());
            put_string(out, publisher.as_bytes());
        }
    }
}

impl Warehouse {
    /// Inserts marks; as [`insert_receipts`](Self::insert_receipts). They must stand before the log's commit of their records.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_marks(&self, rows: &[MarkRow]) -> Result<(), WarehouseError> {
        let mut bytes = Vec::with_capacity(rows.len() * 256);
        for row in rows {
            row.encode(&mut bytes);
        }
        self.insert(MarkRow::TABLE, MarkRow::COLUMNS, vec![bytes.into()], rows.len() as u64)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::{PUBLISHERS_MAX, Touched};

    #[test]
    fn many_publishers_of_an_hour_are_all_of_them() {
        let mut touched = Touched::default();
        for number in 0..=PUBLISHERS_MAX {
            touched.add(7_200_000, &format!("{number:03}.example"));
            touched.add(3_599_999, "a.example");
        }
        touched.add(-5, "b.example");
        touched.add(7_200_000, "a.example");
        let pairs: Vec<_> = touched.pairs().collect();
        assert_eq!(pairs, [(0, "a.example"), (0, "b.example"), (2, "")]);
    }
}

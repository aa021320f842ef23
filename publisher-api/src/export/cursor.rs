//! Position in an export, as the stores' queries take it.

use accounts::Cursor;
use cursors::{ExportPosition, PrecedingRow};
use warehouse::{ReceiptCursor, RejectedCursor};

/// Position behind a row of a collection, or at its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportCursor {
    pub(crate) collection: usize,
    pub(crate) after: StoreCursor,
}

/// Cursor of the store that has the collection: the row before the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreCursor {
    Nothing,
    Row(Cursor),
    Receipt(ReceiptCursor),
    Refusal(RejectedCursor),
}

impl ExportCursor {
    /// The beginning of a collection.
    pub(crate) fn begin(collection: usize) -> Self {
        Self {
            collection,
            after: StoreCursor::Nothing,
        }
    }

    /// Formats the position.
    pub(crate) fn to_text(&self) -> String {
        let names = super::names();
        let after = match self.after.clone() {
            StoreCursor::Nothing => PrecedingRow::Start,
            StoreCursor::Row(Cursor { created_at_ms, id }) => PrecedingRow::Row(created_at_ms, id),
            StoreCursor::Receipt(key) => PrecedingRow::Receipt(
                key.publisher,
                key.timestamp_ms,
                key.entry_id,
                key.receipt_id,
                key.payload_hash,
            ),
            StoreCursor::Refusal(key) => PrecedingRow::Refusal(key.publisher, key.received_at_ms, key.position),
        };
        ExportPosition {
            collection: names.get(self.collection).copied().unwrap_or_default().to_owned(),
            after,
        }
        .to_text()
    }

    /// Parses a position; `None` for any text that isn't one of a collection that there is.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let ExportPosition {
            collection: name,
            after,
        } = ExportPosition::parse(text)?;
        let after = match after {
            PrecedingRow::Start => StoreCursor::Nothing,
            PrecedingRow::Row(created_at_ms, id) => StoreCursor::Row(Cursor { created_at_ms, id }),
            PrecedingRow::Receipt(publisher, timestamp_ms, entry_id, receipt_id, payload_hash) => {
                StoreCursor::Receipt(ReceiptCursor {
                    publisher,
                    timestamp_ms,
                    entry_id,
                    receipt_id,
                    payload_hash,
                })
            }
            PrecedingRow::Refusal(publisher, received_at_ms, position) => StoreCursor::Refusal(RejectedCursor {
                publisher,
                received_at_ms,
                position,
            }),
        };
        let fits = match (&after, name.as_str()) {
            (StoreCursor::Nothing, _) => true,
            (StoreCursor::Receipt(_), super::RECEIPTS) | (StoreCursor::Refusal(_), super::REFUSALS) => true,
            (StoreCursor::Row(_), name) => name != super::RECEIPTS && name != super::REFUSALS,
            _ => false,
        };
        let collection = super::names().iter().position(|one| *one == name)?;
        fits.then_some(Self { collection, after })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use uuid::Uuid;

    use super::*;

    #[test]
    fn positions_are_parsed_as_they_were_formatted() {
        let row = Cursor {
            created_at_ms: i64::MAX,
            id: "90:example.com".to_owned(),
        };
        let receipt = ReceiptCursor {
            publisher: "example.com".to_owned(),
            timestamp_ms: 1_800_000_000_000,
            entry_id: Uuid::from_u128(1),
            receipt_id: Uuid::from_u128(2),
            payload_hash: [7; 32],
        };
        let refusal = RejectedCursor {
            publisher: "b\u{e9}\"\\".to_owned(),
            received_at_ms: 0,
            position: u128::MAX,
        };
        let names = super::super::names();
        let at = |name: &str| names.iter().position(|one| *one == name).unwrap();
        for (collection, after) in [
            (at("entries"), StoreCursor::Nothing),
            (at("trail"), StoreCursor::Row(row)),
            (at("receipts"), StoreCursor::Receipt(receipt)),
            (at("refusals"), StoreCursor::Refusal(refusal)),
        ] {
            let cursor = ExportCursor { collection, after };
            assert_eq!(ExportCursor::from_text(&cursor.to_text()), Some(cursor));
        }
    }

    #[test]
    fn positions_of_other_collections_are_refused() {
        let text = |collection: &str, after| {
            ExportPosition {
                collection: collection.to_owned(),
                after,
            }
            .to_text()
        };
        let row = || PrecedingRow::Row(0, "x".to_owned());
        assert!(ExportCursor::from_text(&text("trail", row())).is_some());
        assert_eq!(ExportCursor::from_text(&text("receipts", row())), None);
        assert_eq!(ExportCursor::from_text(&text("nothing", PrecedingRow::Start)), None);
        let refusal = PrecedingRow::Refusal("x".to_owned(), 0, 0);
        assert_eq!(ExportCursor::from_text(&text("entries", refusal)), None);
    }
}

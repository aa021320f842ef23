//! The parameter `cursor` of lists.

use cursors::{PayloadPosition, RankingListPosition, ReceiptListPosition, RejectionPosition};
use warehouse::{NewestCursor, PayloadCursor, RefusalCursor};
use web::params::{InvalidQuery, Params};

/// Position in a list, as the warehouse's queries take it.
pub(crate) trait ListCursor: Sized {
    /// Formats the position.
    fn to_text(&self) -> String;

    /// Parses a position; `None` for any text that isn't one of this list.
    fn parse(text: &str) -> Option<Self>;

    /// Reads the parameter `cursor`.
    ///
    /// # Errors
    /// The text isn't a cursor of this list.
    fn read(params: &Params) -> Result<Option<Self>, InvalidQuery> {
        let Some(text) = params.get("cursor") else {
            return Ok(None);
        };
        let invalid = || InvalidQuery::new("cursor", "not a cursor of this list: hand back one that came with it");
        Self::parse(text).map(Some).ok_or_else(invalid)
    }
}

impl ListCursor for NewestCursor {
    fn to_text(&self) -> String {
        ReceiptListPosition {
            timestamp_ms: self.timestamp_ms,
            receipt_id: self.receipt_id,
            payload_hash: self.payload_hash,
        }
        .to_text()
    }

    fn parse(text: &str) -> Option<Self> {
        let position = ReceiptListPosition::parse(text)?;
        Some(Self {
            timestamp_ms: position.timestamp_ms,
            receipt_id: position.receipt_id,
            payload_hash: position.payload_hash,
        })
    }
}

impl ListCursor for RefusalCursor {
    fn to_text(&self) -> String {
        RejectionPosition {
            received_at_ms: self.received_at_ms,
            position: self.position,
        }
        .to_text()
    }

    fn parse(text: &str) -> Option<Self> {
        let position = RejectionPosition::parse(text)?;
        Some(Self {
            received_at_ms: position.received_at_ms,
            position: position.position,
        })
    }
}

impl ListCursor for PayloadCursor {
    fn to_text(&self) -> String {
        PayloadPosition {
            is_unproven: self.is_unproven,
            first_position: self.first_position,
        }
        .to_text()
    }

    fn parse(text: &str) -> Option<Self> {
        let position = PayloadPosition::parse(text)?;
        Some(Self {
            is_unproven: position.is_unproven,
            first_position: position.first_position,
        })
    }
}

impl ListCursor for RankingListPosition {
    fn to_text(&self) -> String {
        self.to_text()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

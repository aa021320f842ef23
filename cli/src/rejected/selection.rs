//! Selection of rejected receipts, and the begin of a page.

use std::str::FromStr;

use accounts::Domain;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use receipt::RejectReason;
use receipt_log::ReceiptPosition;
use uuid::Uuid;
use warehouse::{RejectedCursor, RejectedFilter};

use crate::failure::CommandFailure;

/// The filters. All that are given must hold.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Selection {
    /// Only these reasons, as `list` shows them; may be given several times
    #[arg(long, value_name = "REASON", value_delimiter = ',', value_parser = reason)]
    reason: Vec<String>,
    /// Only receipts that name this publisher; may be given several times
    #[arg(long, value_name = "D", visible_alias = "publisher", value_delimiter = ',')]
    domain: Vec<Domain>,
    /// Only receipts of this client.id
    #[arg(long, value_name = "UUID")]
    client: Option<Uuid>,
    /// Only this receiptId
    #[arg(long, value_name = "UUID")]
    receipt_id: Option<Uuid>,
    /// Only the one at this position
    #[arg(long, value_name = "POSITION")]
    position: Option<ReceiptPosition>,
    /// Only received at or after: 2026-07-01T12:00:00Z, or 2026-07-01 (midnight UTC)
    #[arg(long, value_name = "TIME", value_parser = instant)]
    from: Option<i64>,
    /// Only received before
    #[arg(long, value_name = "TIME", value_parser = instant)]
    to: Option<i64>,
}

impl Selection {
    /// The filter.
    ///
    /// # Errors
    /// `--from` isn't before `--to`.
    pub fn filter(&self) -> Result<RejectedFilter, CommandFailure> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            return Err(CommandFailure::input("--from must be before --to"));
        }
        Ok(RejectedFilter {
            reasons: self.reason.clone(),
            publishers: self.domain.iter().map(ToString::to_string).collect(),
            below: Vec::new(),
            client_id: self.client,
            receipt_id: self.receipt_id,
            position: self.position.map(u128::from),
            from_ms: self.from,
            to_ms: self.to,
        })
    }
}

/// Parses a reason of the closed list.
fn reason(text: &str) -> Result<String, String> {
    if RejectReason::from_str(text).is_ok() {
        return Ok(text.to_owned());
    }
    let reasons: Vec<&str> = RejectReason::ALL.iter().map(|reason| reason.as_str()).collect();
    Err(format!("no such reason; there are {}", reasons.join(", ")))
}

/// An instant, in milliseconds since the Unix epoch.
pub(crate) fn instant(text: &str) -> Result<i64, String> {
    // A date with a time but no offset would be taken for its day.
    let day = text.len() == "2026-07-01".len();
    let at = if day {
        let midnight = text.parse::<Date>().and_then(|day| day.to_zoned(TimeZone::UTC));
        midnight.map(|midnight| midnight.timestamp())
    } else {
        text.parse()
    };
    at.map(Timestamp::as_millisecond)
        .map_err(|_| "must be like 2026-07-01T12:00:00Z or 2026-07-01".to_owned())
}

/// A position in the list, newest first: `<received, in milliseconds>@<position>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectedListCursor {
    received_at_ms: i64,
    position: ReceiptPosition,
}

impl RejectedListCursor {
    /// The position after a row.
    #[must_use]
    pub fn after(key: &RejectedCursor) -> Self {
        Self {
            received_at_ms: key.received_at_ms,
            position: key.position.into(),
        }
    }

    /// As the warehouse takes it.
    #[must_use]
    pub fn key(self) -> RejectedCursor {
        RejectedCursor {
            publisher: String::new(),
            received_at_ms: self.received_at_ms,
            position: self.position.into(),
        }
    }
}

impl std::fmt::Display for RejectedListCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.received_at_ms, self.position)
    }
}

impl FromStr for RejectedListCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('@').and_then(|(at, position)| {
            Some(Self {
                received_at_ms: at.parse().ok()?,
                position: position.parse().ok()?,
            })
        });
        parts.ok_or("no cursor: take it from the last line of the page before")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_times_or_days_in_utc() {
        assert_eq!(instant("1970-01-02"), Ok(86_400_000));
        assert_eq!(instant("1970-01-01T01:00:00.007+01:00"), Ok(7));
        for text in ["", "yesterday", "2026-13-01", "2026-07-01T12:00:00"] {
            assert!(instant(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cursors_are_read_as_they_are_written() {
        let cursor: RejectedListCursor = "1782907200007@7:0:41:3".parse().unwrap();
        assert_eq!(cursor.to_string(), "1782907200007@7:0:41:3");
        assert_eq!(RejectedListCursor::after(&cursor.key()), cursor);
        for text in ["", "7:0:41:3", "x@7:0:41:3", "1@7:0:41"] {
            assert!(text.parse::<RejectedListCursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn reasons_are_those_there_are() {
        assert!(reason("bad_signature").is_ok());
        assert!(reason("bad").unwrap_err().contains("bad_batch_signature"));
    }
}

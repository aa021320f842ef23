//! Traces of a block: which requests' receipts are in it, so that a trace ID finds its block in the
//! log lines.

use std::fmt;
use std::time::Duration;

use receipt_log::LoggedRecord;
use service::telemetry::is_slow;
use service::trace::{TraceId, TraceParent};
use tracing::field::DisplayValue;
use tracing::{debug, warn};

/// Trace IDs that a log line names: a block may have one per record.
const NAMED_MAX: usize = 5;

/// A block is slow when it takes this many times as long as a slow request: it holds many.
const SLOWER: u32 = 10;

/// The first distinct trace IDs of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traces {
    ids: [Option<TraceId>; NAMED_MAX],
}

impl Traces {
    /// Reads the trace IDs of a block's records. A topic may hold anybody's text; text that is no
    /// `traceparent` is left out.
    #[must_use]
    pub fn new<'a>(records: impl Iterator<Item = &'a LoggedRecord>) -> Self {
        let mut found = Self::default();
        let mut count = 0;
        for text in records.filter_map(|logged| logged.record.trace) {
            let Some(trace) = TraceParent::parse(text.as_str().as_bytes()) else {
                continue;
            };
            let id = Some(trace.trace_id());
            if found.ids.contains(&id) {
                continue;
            }
            found.ids[count] = id;
            count += 1;
            if count == NAMED_MAX {
                break;
            }
        }
        found
    }

    /// Logs that the block's verdicts are stored: at DEBUG, or at WARN if it took long.
    pub fn log_appended(self, records: u64, took: Duration) {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if is_slow(took / SLOWER) {
            warn!(
                records,
                took_ms,
                trace_ids = self.field(),
                "slow append of a block: receipts are counted late"
            );
        } else {
            debug!(records, took_ms, trace_ids = self.field(), "a block is appended");
        }
    }

    fn field(self) -> Option<DisplayValue<Self>> {
        self.ids[0].map(|_| tracing::field::display(self))
    }
}

impl fmt::Display for Traces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, id) in self.ids.iter().flatten().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{id}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use bytes::Bytes;
    use receipt_log::{Position, Record, RecordKind, TraceText};

    use super::*;

    fn logged(trace: Option<&str>) -> LoggedRecord {
        LoggedRecord {
            position: Position {
                epoch: 1,
                partition: 0,
                offset: 0,
            },
            appended_at_ms: 0,
            record: Record {
                kind: RecordKind::Receipt,
                body: Bytes::new(),
                request_signature: None,
                request_id: String::new(),
                received_at_ms: 0,
                client_address: None,
                trace: trace.map(|text| TraceText::new(text.as_bytes()).unwrap()),
            },
        }
    }

    fn traced(id: u128) -> LoggedRecord {
        logged(Some(&format!("00-{id:032x}-00f067aa0ba902b7-01")))
    }

    #[test]
    fn a_block_names_the_first_five_that_differ() {
        let none = Traces::new([logged(None), logged(Some(&"x".repeat(55)))].iter());
        assert!(none.field().is_none() && none.to_string().is_empty());
        let two = Traces::new([traced(7), logged(None), traced(7), traced(8)].iter());
        assert_eq!(two.to_string(), format!("{:032x},{:032x}", 7, 8));
        let many: Vec<_> = (1..100).map(traced).collect();
        let named: Vec<_> = (1..=5).map(|id: u128| format!("{id:032x}")).collect();
        assert_eq!(Traces::new(many.iter()).to_string(), named.join(","));
    }
}

//! Traces of a block: which requests' receipts are in it, so that whoever looks for one finds its block in the log lines.

use std::fmt;
use std::time::Duration;

use receipt_log::LoggedRecord;
use service::telemetry::is_slow;
use service::trace::{TraceId, TraceParent};
use tracing::field::DisplayValue;
use tracing::{Span, debug, warn, warn_span};

/// Named of a block: a block may hold as many as records.
const NAMED_MAX: usize = 5;

/// A block's write is slow when it takes this many times as long as a slow request: it holds many.
const SLOWER: u32 = 10;

/// The first trace ids of a block that differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traces {
    ids: [Option<TraceId>; NAMED_MAX],
}

impl Traces {
    /// Those of a block's records. What stands in a topic may be anyone's, so what is no `traceparent` is left out.
    #[must_use]
    pub fn of(records: &[LoggedRecord]) -> Self {
        let mut found = Self::default();
        let mut count = 0;
        for text in records.iter().filter_map(|logged| logged.record.trace) {
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

    /// Around the write of the block, so that what is said of it carries the ids; none without ids. At WARN, because a filter drops spans below
    /// its level, also from around lines that pass it.
    #[must_use]
    pub fn span(self) -> Span {
        match self.field() {
            Some(ids) => warn_span!("block", trace_ids = ids),
            None => Span::none(),
        }
    }

    /// Says that the block's rows are written: to whoever looks for a fault, or to everybody if it took long.
    pub fn tell_written(self, records: usize, took: Duration) {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if is_slow(took / SLOWER) {
            warn!(
                records,
                took_ms,
                trace_ids = self.field(),
                "slow write of a block: receipts are seen late"
            );
        } else {
            debug!(records, took_ms, trace_ids = self.field(), "a block is written");
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
        let none = Traces::of(&[logged(None), logged(Some(&"x".repeat(55)))]);
        assert!(none.field().is_none() && none.to_string().is_empty());
        let two = Traces::of(&[traced(7), logged(None), traced(7), traced(8)]);
        assert_eq!(two.to_string(), format!("{:032x},{:032x}", 7, 8));
        let many: Vec<_> = (1..100).map(traced).collect();
        let named: Vec<_> = (1..=5).map(|id: u128| format!("{id:032x}")).collect();
        assert_eq!(Traces::of(&many).to_string(), named.join(","));
    }
}

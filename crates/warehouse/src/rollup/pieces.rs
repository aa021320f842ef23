//! Pieces of a roll: some hours of some publishers, and the statements that make their rows.

use std::ops::Range;

use crate::client::Call;
use crate::queries::FINAL_SETTINGS;

/// Hours of all publishers, or single ones of some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    hours: Range<u32>,
    pairs: Option<Vec<(String, u32)>>,
}

/// The nice value of what nobody waits for: questions and inserts come first. Where the warehouse may not set it, it has no effect.
pub(super) const NICE: (&str, &str) = ("os_thread_priority", "10");

/// How rows are made: one thread, and memory that leaves room for inserts and queries. Groups that don't fit go to disk.
const MAKING: [(&str, &str); 7] = [
    NICE,
    ("max_threads", "1"),
    ("max_insert_threads", "1"),
    ("max_memory_usage", "300000000"),
    ("max_bytes_before_external_group_by", "67108864"),
    ("min_insert_block_size_rows", "131072"),
    ("min_insert_block_size_bytes", "33554432"),
];

impl Piece {
    pub(super) fn all(hours: Range<u32>) -> Self {
        Self { hours, pairs: None }
    }

    /// Of at least one pair.
    pub(super) fn of(pairs: Vec<(String, u32)>) -> Self {
        let hours = || pairs.iter().map(|(_, hour)| *hour);
        let (first, last) = (hours().min().unwrap_or(0), hours().max().unwrap_or(0));
        Self {
            hours: first..last + 1,
            pairs: Some(pairs),
        }
    }

    /// A condition over `receipts`, which [`bind`](Self::bind) fills.
    pub(super) fn condition(&self) -> String {
        let hours = "timestamp >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
                AND timestamp < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')";
        match self.pairs {
            None => hours.to_owned(),
            Some(_) => format!(
                "{hours} AND publisher IN {{publishers:Array(String)}} AND (publisher, toStartOfHour(timestamp)) IN
                    arrayZip({{publishers:Array(String)}},
                        arrayMap(hour -> toDateTime(hour * 3600, 'UTC'), {{hours:Array(UInt32)}}))"
            ),
        }
    }

    /// The same over the rolled rows.
    pub(super) fn rolled_condition(&self) -> String {
        let hours = "hour >= {from_hour:UInt32} AND hour < {to_hour:UInt32}";
        match self.pairs {
            None => hours.to_owned(),
            Some(_) => format!(
                "{hours} AND publisher IN {{publishers:Array(String)}} AND (publisher, hour) IN
                    arrayZip({{publishers:Array(String)}}, {{hours:Array(UInt32)}})"
            ),
        }
    }

    pub(super) fn bind(&self, call: Call) -> Call {
        let ms = |hour: u32| i64::from(hour) * 3_600_000;
        let call = call
            .with("from_ms", ms(self.hours.start))
            .with("to_ms", ms(self.hours.end))
            .with("from_hour", self.hours.start)
            .with("to_hour", self.hours.end);
        let Some(pairs) = &self.pairs else { return call };
        let (publishers, hours): (Vec<String>, Vec<u32>) = pairs.iter().cloned().unzip();
        call.with("publishers", publishers).with("hours", hours)
    }

    /// What makes its rows and then says of which roll they are.
    pub(super) fn statements(&self, number: u32) -> [Call; 3] {
        let making = |sql: String| {
            let call = self.bind(Call::new(sql)).slow();
            MAKING.iter().fold(call, |call, (name, value)| call.set(name, value))
        };
        let condition = self.condition();
        let by_client = format!(
            "INSERT INTO usage_by_client (publisher, hour, slot, version, client_id, purpose, model_id, receipts, first_ms,
                last_ms, name, organization, client_version)
             {}
             FROM receipts FINAL WHERE {condition}
             GROUP BY {CLIENT_KEY} {FINAL_SETTINGS}",
            client_columns(&number.to_string())
        );
        let by_entry = format!(
            "INSERT INTO usage_by_entry (publisher, entry_id, hour, version, client_id, purpose, model_id, receipts, first_ms,
                last_ms, url)
             {}
             FROM receipts FINAL WHERE {condition}
             GROUP BY {ENTRY_KEY} {FINAL_SETTINGS}",
            entry_columns(&number.to_string())
        );
        let buckets = match self.pairs {
            // Also those that are empty.
            Some(_) => format!(
                "INSERT INTO rollup_buckets (publisher, hour, version)
                 SELECT pair.1, pair.2, toUInt32({number}) FROM
                 (SELECT arrayJoin(arrayZip({{publishers:Array(String)}}, {{hours:Array(UInt32)}})) AS pair)"
            ),
            // Of the receipts: another replica might not have the rows yet that were just made.
            None => format!(
                "INSERT INTO rollup_buckets (publisher, hour, version)
                 SELECT DISTINCT publisher, toUInt32(intDiv(toUnixTimestamp64Milli(timestamp), 3600000)), toUInt32({number})
                 FROM receipts WHERE {condition}"
            ),
        };
        [by_client, by_entry, buckets].map(making)
    }
}

/// What one row of `usage_by_client` is about.
pub(super) const CLIENT_KEY: &str =
    "publisher, at, client_id, purpose, model_id, client_name, organization, client_version";

/// What one row of `usage_by_entry` is about.
pub(super) const ENTRY_KEY: &str = "publisher, at, entry_id, client_id, purpose, model_id, url";

/// Columns of `usage_by_client` over receipts, grouped by [`CLIENT_KEY`]. Those that aren't columns of the receipts are called as
/// there with `made_` before it.
pub(super) fn client_columns(version: &str) -> String {
    format!(
        "SELECT publisher, intDiv(at, 2) AS made_hour, toUInt32(intDiv(toUnixTimestamp64Milli(timestamp), 1800000)) AS at,
            toUInt32({version}), client_id, purpose, model_id, count() AS made_receipts,
            toUnixTimestamp64Milli(min(timestamp)) AS made_first_ms, toUnixTimestamp64Milli(max(timestamp)) AS made_last_ms,
            client_name, organization, client_version"
    )
}

/// Columns of `usage_by_entry` over receipts, grouped by [`ENTRY_KEY`].
pub(super) fn entry_columns(version: &str) -> String {
    format!(
        "SELECT publisher, entry_id, toUInt32(intDiv(toUnixTimestamp64Milli(timestamp), 3600000)) AS at,
            toUInt32({version}), client_id, purpose, model_id, count() AS made_receipts,
            toUnixTimestamp64Milli(min(timestamp)) AS made_first_ms, toUnixTimestamp64Milli(max(timestamp)) AS made_last_ms,
            url"
    )
}

//! Receipts made inside the engine: each a function of its number, in the order of time, as they
//! would have come in.

use std::ops::RangeInclusive;
use std::time::Instant;

use anyhow::Result;
use warehouse::FINAL_SETTINGS;

use super::Arguments;
use super::service::Service;
use crate::progress::Progress;
use crate::row::{Row, number};
use crate::sql;

/// The biggest has one receipt in so many.
const BIGGEST_SHARE: u64 = 5;
const BIGGEST_ENTRIES: u64 = 20_000;
const OTHER_ENTRIES: u64 = 2_000;
const CLIENTS: u64 = 50;
const MODELS: u64 = 5;
/// Ratio of receipts that repeat an earlier one.
const DUPLICATE_EVERY: u64 = 100;
/// So far back, in numbers.
const DUPLICATE_BACK: u64 = 77_777;
/// Ratio of receipts that arrive up to two days after their access.
const LATE_EVERY: u64 = 50;
const LATE_S_MAX: u64 = 172_800;
pub(super) const DAY_MS: i64 = 86_400_000;

/// A grain of the table `usage`.
pub(super) struct Grain {
    name: &'static str,
    /// Time of its rows.
    time: &'static str,
    /// Columns that only some grains have, and their values.
    columns: &'static str,
    values: &'static str,
}

const DAY: &str = "toUnixTimestamp(toStartOfDay(timestamp, 'UTC'))";
pub(super) const GRAINS: [Grain; 5] = [
    Grain {
        name: "counted",
        time: "toUnixTimestamp(timestamp)",
        columns: "key",
        values: "toFixedString(substring(payload_hash, 1, 16), 16)",
    },
    Grain {
        name: "all",
        time: DAY,
        columns: "publisher, entry_id, half_hour, client_id, purpose, model_id, operator, key_fingerprint, verified",
        values: "publisher, entry_id, intDiv(toUnixTimestamp(timestamp) % 86400, 1800), client_id, purpose, model_id,
            tupleElement(stamp, 2), key_fingerprint, tupleElement(stamp, 3)",
    },
    Grain {
        name: "purpose",
        time: "toUnixTimestamp(timestamp) - toUnixTimestamp(timestamp) % 1800",
        columns: "publisher, purpose, operator, verified",
        values: "publisher, purpose, tupleElement(stamp, 2), tupleElement(stamp, 3)",
    },
    Grain {
        name: "client",
        time: DAY,
        columns: "publisher, client_id, purpose, model_id, client_name, organization, client_version, operator,
            key_fingerprint, verified",
        values: "publisher, client_id, purpose, model_id, client_name, organization, client_version,
            tupleElement(stamp, 2), key_fingerprint, tupleElement(stamp, 3)",
    },
    Grain {
        name: "entry",
        time: DAY,
        columns: "publisher, entry_id, url, operator, verified",
        values: "publisher, entry_id, url, tupleElement(stamp, 2), tupleElement(stamp, 3)",
    },
];

impl Grain {
    /// Fills the grain for a UTC day, counted from the Unix epoch.
    pub(super) fn statement(&self, day: i64) -> String {
        let Self {
            name,
            time,
            columns,
            values,
        } = self;
        let (first_ms, last_ms) = match *name {
            "counted" => ("0", "0"),
            _ => (
                "toUnixTimestamp64Milli(min(timestamp))",
                "toUnixTimestamp64Milli(max(timestamp))",
            ),
        };
        let (from_ms, to_ms) = (day * DAY_MS, (day + 1) * DAY_MS);
        format!(
            "INSERT INTO usage (grain, time, {columns}, receipts, first_ms, last_ms)
            SELECT '{name}', {time}, {values}, count(), {first_ms}, {last_ms} FROM receipts FINAL
            WHERE timestamp >= fromUnixTimestamp64Milli(toInt64({from_ms}), 'UTC')
                AND timestamp < fromUnixTimestamp64Milli(toInt64({to_ms}), 'UTC')
            GROUP BY ALL {FINAL_SETTINGS}"
        )
    }
}

/// Rows, bytes on disk and parts of a table.
async fn stored(service: &Service, table: &str) -> Result<String> {
    let parts =
        format!("SELECT sum(rows), sum(bytes_on_disk), count() FROM system.parts WHERE active AND table = '{table}'");
    Ok(service.sql(&parts).await?.replace('\t', ", "))
}

/// Receipts to load, and their times.
#[derive(Debug, Clone)]
pub(super) struct Load {
    receipts: u64,
    publishers: u64,
    days: u64,
    chunk: u64,
    /// Milliseconds since the Unix epoch.
    from_ms: i64,
    to_ms: i64,
}

/// The name of a publisher; 0 is the biggest.
pub(super) fn publisher(number: u64) -> String {
    format!("p{number}.example")
}

impl Load {
    pub(super) fn of(arguments: &Arguments) -> Self {
        let to_ms = ::service::instant::now_ms();
        let days_ms = i64::try_from(arguments.days.saturating_mul(86_400_000)).unwrap_or(i64::MAX);
        Self {
            receipts: arguments.receipts,
            publishers: arguments.publishers,
            days: arguments.days,
            chunk: arguments.chunk,
            from_ms: to_ms.saturating_sub(days_ms),
            to_ms,
        }
    }

    pub(super) fn days(&self) -> u64 {
        self.days
    }

    pub(super) fn publishers(&self) -> u64 {
        self.publishers
    }

    pub(super) fn begin_ms(&self) -> i64 {
        self.from_ms
    }

    pub(super) fn end_ms(&self) -> i64 {
        self.to_ms
    }

    /// Description of the load, for the report.
    pub(super) fn notes(&self) -> Vec<String> {
        vec![format!(
            "{} receipts of {} publishers over {} days, 1 in {DUPLICATE_EVERY} a duplicate, 1 in {LATE_EVERY} up to {} hours late; \
             the biggest publisher has 1 in {BIGGEST_SHARE}, with {BIGGEST_ENTRIES} entries and {CLIENTS} clients, each by Zipf's \
             law, 3 purposes, {MODELS} models; the others follow Zipf's law with {OTHER_ENTRIES} entries each",
            number(self.receipts as f64),
            number(self.publishers as f64),
            self.days,
            LATE_S_MAX / 3_600,
        )]
    }

    /// Loads in chunks, counts what was loaded, and waits for the merges that were due.
    pub(super) async fn run(&self, service: &Service, progress: &Progress) -> Result<Vec<Row>> {
        let began = Instant::now();
        let cpu = service.cpu_seconds()?;
        let mut first = 0;
        while first < self.receipts {
            let count = self.chunk.min(self.receipts - first);
            sql::run(service.socket(), &self.statement(first, count)).await?;
            first += count;
            if first.is_multiple_of(self.chunk * 20) {
                progress.step("loading", &format!("{} receipts", number(first as f64)));
            }
        }
        let (seconds, inserted) = (began.elapsed().as_secs_f64(), service.cpu_seconds()? - cpu);
        let counted = self.count(service, progress).await?;
        while service.sql("SELECT count() FROM system.merges").await? != "0" {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        let stored = stored(service, "receipts").await?;
        let row = Row::alone(
            "load",
            "receipts made and inserted by the engine itself",
            "receipts/s",
            self.receipts as f64 / seconds,
        );
        let row = row.note(format!(
            "{} s of CPU; rows, bytes on disk, parts: {stored}",
            number(inserted)
        ));
        Ok(vec![row, counted])
    }

    /// Counts what was loaded, as the writer counts receipts that come in.
    async fn count(&self, service: &Service, progress: &Progress) -> Result<Row> {
        let (began, cpu) = (Instant::now(), service.cpu_seconds()?);
        for day in self.counted_days() {
            progress.step("counting", &format!("day {day}"));
            for grain in GRAINS {
                sql::run(service.socket(), &grain.statement(day)).await?;
            }
        }
        let cpu = service.cpu_seconds()? - cpu;
        let stored = stored(service, "usage").await?;
        let row = Row::alone(
            "usage-load",
            "CPU of counting a million receipts in SQL",
            "s",
            cpu * 1e6 / self.receipts as f64,
        );
        Ok(row.note(format!(
            "{} s; rows, bytes on disk, parts of usage: {stored}",
            number(began.elapsed().as_secs_f64())
        )))
    }

    /// UTC days of all timestamps, counted from the Unix epoch: those of late receipts begin before
    /// the first.
    pub(super) fn counted_days(&self) -> RangeInclusive<i64> {
        let first_ms = self.from_ms - LATE_S_MAX.cast_signed() * 1_000;
        first_ms.div_euclid(DAY_MS)..=self.to_ms.div_euclid(DAY_MS)
    }

    pub(super) fn statement(&self, first: u64, count: u64) -> String {
        let Self {
            receipts,
            publishers,
            from_ms,
            to_ms,
            ..
        } = *self;
        let span_ms = to_ms - from_ms;
        // A log-uniform number is one by Zipf's law: below k with the probability log(k) / log(n).
        format!(
            "INSERT INTO receipts (publisher, timestamp, entry_id, receipt_id, payload_hash, positions, received_at, url, content_hash,
                client_id, client_name, client_version, organization, key_fingerprint, stamp, algorithm, purpose, context, dataset_id, model_id,
                query_id, session_id, study_id, researcher_id)
            WITH
                number + {first} AS n,
                if(n % {DUPLICATE_EVERY} = 0 AND n > {DUPLICATE_BACK}, toUInt64(n - {DUPLICATE_BACK}), n) AS m,
                cityHash64(m, 'publisher') AS p_hash,
                if(p_hash % {BIGGEST_SHARE} = 0, 0, toUInt64(least({publishers} - 1, floor(exp((intDiv(p_hash, 1048576) % 1000003) / 1000003.0 * log({publishers})))))) AS p,
                cityHash64(m, 'entry') AS e_hash,
                toUInt64(floor(exp((e_hash % 1000003) / 1000003.0 * log(if(p = 0, {BIGGEST_ENTRIES}, {OTHER_ENTRIES}) + 1)))) AS e,
                toUInt64(floor(exp((cityHash64(m, 'client') % 1000003) / 1000003.0 * log({CLIENTS} + 1)))) AS c,
                toUInt64({from_ms} + intDiv(toInt128({span_ms}) * n, {receipts})) AS received_ms,
                toUInt64({from_ms} + intDiv(toInt128({span_ms}) * m, {receipts})
                    - if(cityHash64(m, 'late') % {LATE_EVERY} = 0, cityHash64(m, 'by') % ({LATE_S_MAX} * 1000), cityHash64(m, 'by') % 5000)) AS accessed_ms,
                ['inference', 'inference', 'inference', 'training', 'training', 'research'][cityHash64(m, 'purpose') % 6 + 1] AS why
            SELECT concat('p', toString(p), '.example'), fromUnixTimestamp64Milli(toInt64(accessed_ms), 'UTC'),
                reinterpretAsUUID(sipHash128('entry', p, e)), reinterpretAsUUID(sipHash128('receipt', m)),
                toFixedString(concat(sipHash128('payload', m), sipHash128('and', m)), 32),
                [toUInt128(n)], fromUnixTimestamp64Milli(toInt64(received_ms), 'UTC'),
                concat('https://p', toString(p), '.example/2026/articles/', toString(e), '?section=science'),
                toFixedString(concat(sipHash128('content', p, e), sipHash128('and', p, e)), 32),
                reinterpretAsUUID(sipHash128('client', c)), concat('Reader ', toString(c)), concat('4.', toString(cityHash64(m, 'version') % 3)),
                concat('Operator ', toString(c % 10)), toFixedString(concat(sipHash128('key', c), sipHash128('and', c)), 32),
                (fromUnixTimestamp64Milli(toInt64(received_ms), 'UTC'), '', true), 'Ed25519', why,
                'answering a question of a reader', '', if(why = 'research', '', concat('m-', toString(cityHash64(m, 'model') % {MODELS}))),
                if(why = 'inference', concat('q-', toString(m)), ''), if(why = 'inference', concat('s-', toString(intDiv(m, 10))), ''), '', ''
            FROM numbers({count})"
        )
    }
}

//! Receipts made inside the engine: each a function of its number, in the order of time, as they would have come in.

use std::time::Instant;

use anyhow::Result;

use super::service::Service;
use super::{Arguments, sql};
use crate::progress::Progress;
use crate::row::{Row, number};

/// The biggest has one receipt in so many.
const BIGGEST_SHARE: u64 = 5;
const BIGGEST_ENTRIES: u64 = 20_000;
const OTHER_ENTRIES: u64 = 2_000;
const CLIENTS: u64 = 50;
const MODELS: u64 = 5;
/// One receipt in so many repeats an earlier one.
const DUPLICATE_EVERY: u64 = 100;
/// So far back, in numbers.
const DUPLICATE_BACK: u64 = 77_777;
/// One in so many comes up to two days after its access.
const LATE_EVERY: u64 = 50;
const LATE_S_MAX: u64 = 172_800;

/// What is loaded, and from when on.
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

    pub(super) fn receipts(&self) -> u64 {
        self.receipts
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

    /// What was loaded, for the report.
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

    /// Loads in chunks, and waits for the merges that were due.
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
        let seconds = began.elapsed().as_secs_f64();
        let inserted = service.cpu_seconds()? - cpu;
        while service.sql("SELECT count() FROM system.merges").await? != "0" {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        let stored =
            "SELECT sum(rows), sum(bytes_on_disk), count() FROM system.parts WHERE active AND table = 'receipts'";
        let stored = service.sql(stored).await?.replace('\t', ", ");
        let row = Row::alone(
            "load",
            "receipts made and inserted by the engine itself",
            "receipts/s",
            self.receipts as f64 / seconds,
        );
        Ok(vec![row.note(format!(
            "{} s of CPU; rows, bytes on disk, parts: {stored}",
            number(inserted)
        ))])
    }

    fn statement(&self, first: u64, count: u64) -> String {
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
                client_id, client_name, client_version, organization, key_fingerprint, algorithm, purpose, context, dataset_id, model_id,
                query_id, session_id, study_id, researcher_id)
            WITH
                number + {first} AS n,
                if(n % {DUPLICATE_EVERY} = 0 AND n > {DUPLICATE_BACK}, n - {DUPLICATE_BACK}, n) AS m,
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
                concat('Operator ', toString(c % 10)), toFixedString(concat(sipHash128('key', c), sipHash128('and', c)), 32), 'Ed25519', why,
                'answering a question of a reader', '', if(why = 'research', '', concat('m-', toString(cityHash64(m, 'model') % {MODELS}))),
                if(why = 'inference', concat('q-', toString(m)), ''), if(why = 'inference', concat('s-', toString(intDiv(m, 10))), ''), '', ''
            FROM numbers({count})"
        )
    }
}

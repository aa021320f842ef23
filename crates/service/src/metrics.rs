//! The list of metrics. A metric is public interface: whatever a crate records is listed here, with
//! its kind, unit and help, and a test compares the list with the code and the documents.
//!
//! To add one: record it with the `metrics` crate under `receipts_<area>_<what>_<unit|total>`, add
//! its row here and its labels' values in [`labels`], and write the document again:
//! `UPDATE_EXPECT=1 cargo test -p service --test documents`.

pub mod labels;

use labels::{Values, values_of};
use metrics::{Label, Unit};

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution in buckets.
    Histogram,
}

/// A row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricDoc {
    /// Name, without the suffixes that Prometheus adds to histograms.
    pub name: &'static str,
    /// Kind of the metric.
    pub kind: MetricKind,
    /// Unit: `seconds`, `bytes`, `receipts`, ...
    pub unit: &'static str,
    /// Labels.
    pub labels: &'static [&'static str],
    /// Description for an operator.
    pub help: &'static str,
}

impl MetricDoc {
    /// The row of a series as Prometheus names it: a histogram has three, and none of its bare
    /// name.
    #[must_use]
    pub fn of_series(series: &str) -> Option<&'static Self> {
        METRICS
            .iter()
            .find(|row| match (row.kind, series.strip_prefix(row.name)) {
                (MetricKind::Histogram, Some(rest)) => matches!(rest, "_bucket" | "_sum" | "_count"),
                (_, rest) => rest == Some(""),
            })
    }

    /// Area of the metric: the second word of its name.
    #[must_use]
    pub fn area(&self) -> &'static str {
        self.name.split('_').nth(1).unwrap_or_default()
    }

    /// Every combination of the labels' values; none if a label has no list of them.
    fn label_sets(&self) -> Vec<Vec<Label>> {
        self.labels.iter().fold(vec![Vec::new()], |sets, label| {
            let Some(Values::OneOf(values)) = values_of(self.name, label) else {
                return Vec::new();
            };
            let with = |set: Vec<Label>| {
                let one = |value: &&'static str| [&set[..], &[Label::new(*label, *value)]].concat();
                values.iter().map(one).collect::<Vec<_>>()
            };
            sets.into_iter().flat_map(with).collect()
        })
    }
}

/// Rows of the list, each in a line: kind, name, unit, labels, help.
macro_rules! rows {
    ($($kind:ident $name:literal $unit:literal [$($label:literal),*] $help:literal;)*) => {
        &[$(MetricDoc {
            name: $name,
            kind: MetricKind::$kind,
            unit: $unit,
            labels: &[$($label),*],
            help: $help,
        }),*]
    };
}

/// Every metric of every crate, by area.
pub const METRICS: &[MetricDoc] = rows! {
    // service
    Gauge "receipts_build_info" "1" ["version", "commit"] "Always 1; the labels are what runs.";
    Gauge "receipts_certificate_expiry_timestamp_seconds" "seconds" ["setting"] "When the first of a file's certificates ends, since the Unix epoch; of the files as they were at the start.";
    Gauge "receipts_component_ready" "1" ["component"] "1 while a part of `/readyz` is ready or degraded, 0 while it isn't.";
    Gauge "receipts_cpu_jobs" "jobs" ["pool"] "Jobs running and waiting on the pool.";
    Counter "receipts_cpu_panics_total" "jobs" ["pool"] "CPU jobs that panicked: a bug each.";
    Histogram "receipts_cpu_queue_wait_seconds" "seconds" ["pool"] "Time a CPU job waited for a thread.";
    Counter "receipts_cpu_refused_total" "jobs" ["pool"] "CPU jobs refused because the queue was full.";
    Histogram "receipts_cpu_run_seconds" "seconds" ["pool"] "Time a CPU job ran.";
    Gauge "receipts_limiter_degraded" "1" [] "1 while the limiter counts in this process alone because Redis is away, else 0.";
    Counter "receipts_limiter_fallback_total" "requests" ["reason"] "Requests counted in this process alone: Redis was away, timed_out, refused, or too many were waiting (busy).";
    Histogram "receipts_limiter_redis_seconds" "seconds" [] "Time of the limiter's question to Redis, answered ones only.";
    Counter "receipts_outbound_requests_total" "requests" ["kind", "outcome"] "Requests to addresses that others named (get, post) and questions to the DNS (txt), by what came of them: answered, or why not.";
    Gauge "receipts_mails_accounts_failing" "accounts" [] "Accounts whose mails about numbers failed in this replica's last round; the next one tries again.";
    Gauge "receipts_mails_round_good_timestamp_seconds" "seconds" [] "When a round of mails about numbers last ended without a failing account, since the Unix epoch; at first the start of the process.";
    Histogram "receipts_mails_round_seconds" "seconds" [] "Time of a round of mails about numbers over all accounts with subscriptions.";
    Counter "receipts_mails_total" "mails" ["outcome"] "Mails of every kind (domains, erasures, invitations, numbers), by outcome: sent, failed (tried again), or refused by the server permanently.";
    Gauge "receipts_mails_waiting" "mails" [] "Mails of every kind, queued and not sent yet.";
    Gauge "receipts_live_streams" "streams" [] "Live streams (server-sent events) that are open.";
    Gauge "receipts_live_scopes" "scopes" [] "Publishers and days that live streams are open for: each is queried once, however many listen.";
    Counter "receipts_live_refused_total" "streams" ["reason"] "Live streams refused: the account or the key had as many as it may (account, key), or all together had (full).";
    Counter "receipts_live_left_out_total" "receipts" [] "Receipts of which live streams got the number only, because their listener didn't keep up.";
    Gauge "receipts_rate_limit_keys" "keys" [] "Keys whose requests the in-process limiter counts now.";
    Counter "receipts_rate_limit_overflow_total" "requests" [] "Requests counted in the one shared bucket because the limiter was full.";
    Counter "receipts_rate_limit_refused_total" "requests" ["window"] "Requests over the quota of a minute or a day.";
    Counter "receipts_telemetry_lines_suppressed_total" "lines" ["what"] "Log lines left out because the same one had just been written.";
    // accounts
    Counter "receipts_accounts_authentications_total" "requests" ["outcome"] "API keys checked: ok, malformed, unknown, expired, revoked, unavailable.";
    Counter "receipts_accounts_cache_hits_total" "requests" [] "API keys found in the cache, without SQL.";
    Histogram "receipts_accounts_query_seconds" "seconds" ["query"] "Time of a query of the account store.";
    Gauge "receipts_registry_age_seconds" "seconds" [] "Age of the cached client keys and entries: time since the account store last said whether any have changed.";
    Counter "receipts_registry_lookups_total" "lookups" ["subject", "outcome"] "Client keys and entries read for `[policy]`: cached, read from the account store, or failed.";
    Gauge "receipts_shard_map_version" "1" [] "Version of the shard map that the verifier uses: the number of its entries.";
    // publisher
    Counter "receipts_publisher_tokens_total" "requests" ["outcome"] "JWTs checked: ok, expired, bad_signature, unknown_key, refused, unavailable.";
    Counter "receipts_publisher_jwks_fetches_total" "fetches" ["outcome"] "Times the identity provider's keys were asked for: ok, failed.";
    Counter "receipts_publisher_directory_fetches_total" "fetches" ["outcome"] "Fetches of operators' key directories: fetched, unchanged (304), failed.";
    Gauge "receipts_publisher_task_good_timestamp_seconds" "seconds" ["task"] "When this replica last came to the end of a round of looking for verifications that end, of erasures, of key directories, or of checking published proofs of domains, since the Unix epoch.";
    Gauge "receipts_publisher_erasures_failing" "erasures" [] "Erasures that didn't continue in the last round.";
    // api
    Histogram "receipts_api_request_seconds" "seconds" ["api", "route"] "Time from a request's head to its answer.";
    Counter "receipts_api_requests_total" "requests" ["api", "route", "status"] "Requests answered; the route is the address's pattern, `none` for an unknown one.";
    // gateway
    Counter "receipts_gateway_body_bytes_total" "bytes" [] "Bytes of request bodies, as received.";
    Gauge "receipts_gateway_clock_offset_seconds" "seconds" [] "How far the clock was ahead of the log's when a record was appended last; negative: behind.";
    Counter "receipts_gateway_clock_steps_total" "steps" [] "Jumps of the system's clock against monotonic time, by more than 5 s.";
    Gauge "receipts_gateway_connections" "connections" [] "Open connections.";
    Counter "receipts_gateway_connections_refused_total" "connections" [] "Connections turned away because as many as allowed were open.";
    Gauge "receipts_gateway_inflight_bytes" "bytes" [] "Bytes of bodies in memory that the log hasn't acknowledged.";
    Counter "receipts_gateway_receipts_total" "receipts" ["kind"] "Receipts acknowledged, single and in batches.";
    Counter "receipts_gateway_refused_total" "requests" ["code"] "Requests refused, by the code of the answer.";
    Histogram "receipts_gateway_request_seconds" "seconds" ["route"] "Time from a request's head to its answer.";
    Counter "receipts_gateway_requests_total" "requests" ["route", "status"] "Requests answered.";
    // log
    Counter "receipts_log_append_bytes_total" "bytes" ["log"] "Bytes of records made durable.";
    Counter "receipts_log_appends_total" "records" ["log"] "Records made durable.";
    Gauge "receipts_log_disk_bytes" "bytes" ["log"] "Bytes of segments on disk.";
    Gauge "receipts_log_disk_free_bytes" "bytes" ["log"] "Bytes free on the disk of an embedded log; below `min_free_bytes` it takes no records.";
    Gauge "receipts_log_end_offset" "records" ["log"] "The offset that the next record gets.";
    Histogram "receipts_log_group_records" "records" ["log"] "Records made durable by one sync.";
    Gauge "receipts_log_queue_bytes" "bytes" ["log"] "Bytes of records that wait to be written.";
    Histogram "receipts_log_sync_seconds" "seconds" ["log"] "Time of writing and syncing a group of records.";
    Gauge "receipts_log_writable" "1" ["log"] "1 if the log takes records, 0 if not: a full or failing disk, brokers away or too few in sync.";
    // log on Kafka
    Gauge "receipts_kafka_assigned_partitions" "partitions" ["log"] "Partitions that this process owns: of `receipts` a verifier, of `verdicts` a writer.";
    Gauge "receipts_kafka_broker_rtt_seconds" "seconds" ["client", "log", "broker"] "Time of a request to a broker, 99th percentile of the last statistics interval.";
    Counter "receipts_kafka_delivery_failures_total" "records" ["log"] "Records that no broker acknowledged in time, or at all.";
    Histogram "receipts_kafka_delivery_seconds" "seconds" ["log"] "Time from an append to its acknowledgement.";
    Gauge "receipts_kafka_fetch_queue_bytes" "bytes" ["log"] "Bytes of records fetched ahead of what the consumer has polled.";
    Gauge "receipts_kafka_lag_records" "records" ["log"] "Records of the owned partitions that the consumer hasn't polled yet.";
    Gauge "receipts_kafka_queue_records" "records" ["log"] "Records that wait for an acknowledgement.";
    Counter "receipts_kafka_rebalanced_total" "partitions" ["log", "what"] "Partitions assigned to this process, revoked in order, and lost because the group continued without it.";
    Counter "receipts_kafka_request_errors_total" "requests" ["client", "log"] "Requests to brokers that could not be sent or whose answer could not be read.";
    Counter "receipts_kafka_request_timeouts_total" "requests" ["client", "log"] "Requests that brokers didn't answer in time.";
    Histogram "receipts_kafka_transaction_seconds" "seconds" [] "Time of a verifier's transaction, from its begin to its end.";
    Counter "receipts_kafka_transactions_total" "transactions" ["outcome"] "Transactions of verifiers: committed, aborted, or with an unknown outcome.";
    // verifier
    Histogram "receipts_verifier_block_receipts" "receipts" [] "Receipts in a block.";
    Histogram "receipts_verifier_block_seconds" "seconds" [] "Time from a block's first record to its commit in the log `verdicts`.";
    Counter "receipts_verifier_clients_mostly_rejected_total" "clients" [] "Clients most of whose receipts were rejected within five minutes, each counted once in that time; the log names them.";
    Counter "receipts_verifier_fenced_total" "commits" [] "Transactions refused because another verifier owns the partition.";
    Counter "receipts_verifier_positions_behind_total" "assignments" [] "Partitions whose committed position was behind the verdicts in the log: lost or set back.";
    Counter "receipts_verifier_poll_failures_total" "polls" [] "Reads of the log that failed and were tried again.";
    Counter "receipts_verifier_receipts_total" "receipts" ["outcome"] "Receipts with an outcome: accepted or rejected.";
    Counter "receipts_verifier_records_total" "records" [] "Records of the log `receipts` whose verdicts were appended; the lag over its rate is the time to drain.";
    Counter "receipts_verifier_rejected_total" "receipts" ["reason"] "Rejected receipts by reason.";
    Histogram "receipts_verifier_stage_seconds" "seconds" ["stage"] "Time of a block in a stage: judge, encode, append.";
    // writer
    Histogram "receipts_writer_batch_receipts" "receipts" [] "Receipts in an inserted batch.";
    Histogram "receipts_writer_batch_seconds" "seconds" [] "Time from a batch's first record to its published progress.";
    Gauge "receipts_writer_epoch" "1" ["shard"] "The epoch with which this process last inserted into a shard; the writer with the highest one owns it.";
    Gauge "receipts_writer_horizon_timestamp_seconds" "seconds" ["group", "shard"] "When the log may delete verdicts that this process hasn't stored yet, since the Unix epoch: the append of the last stored ones, and the log's retention.";
    Counter "receipts_writer_insert_failures_total" "batches" [] "Attempts to insert a batch that ClickHouse refused or whose result is unknown, repeated.";
    Counter "receipts_writer_rebuilds_total" "days" [] "Days of a publisher whose aggregates of usage were compared with the receipts and corrected, on request.";
    Counter "receipts_writer_receipts_total" "receipts" ["outcome"] "Receipts that are stored, by outcome.";
    Counter "receipts_writer_splits_total" "inserts" [] "Inserts that ClickHouse refused for what their rows hold, halved to find the rows.";
    Histogram "receipts_writer_stage_seconds" "seconds" ["stage"] "Time of a batch in a stage: insert.";
    Counter "receipts_writer_superseded_total" "shards" [] "Shards that another process took from this one.";
    // analytics
    Counter "receipts_analytics_unlabelled_total" "answers" [] "Answers without the titles of their entries or the claims of client IDs, because the account store didn't tell them.";
    // completeness, by whoever runs the analytics API
    Histogram "receipts_watermark_age_seconds" "seconds" [] "How old `completeThrough` was, each time it was checked; while it can't be read, how old the last one is.";
    Gauge "receipts_watermark_timestamp_seconds" "seconds" [] "The last `completeThrough` that was read, since the Unix epoch.";
    // audit, by whoever runs the analytics API
    Counter "receipts_audit_checks_total" "checks" [] "Checks of the ledger against the tables that came to an end.";
    Gauge "receipts_audit_findings" "findings" [] "Differences that the last check found; each hides receipts, so alert above 0.";
    Gauge "receipts_audit_last_good_timestamp_seconds" "seconds" [] "When a check last found nothing, since the Unix epoch.";
    Gauge "receipts_audit_off_by_receipts" "receipts" [] "By how many receipts the tables differ from the ledger, and records that it doesn't count.";
    Counter "receipts_audit_passes_total" "passes" [] "Passes of the running audit over all receipts that came to an end.";
    Histogram "receipts_audit_seconds" "seconds" [] "Time a check took.";
    Counter "receipts_usage_checks_total" "days" [] "Days whose aggregates of usage were compared with the receipts.";
    Gauge "receipts_usage_mismatches" "days" [] "Days on which the last comparison of aggregates of usage with the receipts found a difference.";
    // warehouse
    Gauge "receipts_warehouse_broken_parts" "parts" [] "Damaged parts that ClickHouse has set aside.";
    Counter "receipts_warehouse_errors_total" "requests" ["kind"] "Failed questions and inserts, by kind.";
    Counter "receipts_warehouse_insert_rows_total" "rows" ["table"] "Rows inserted.";
    Histogram "receipts_warehouse_insert_seconds" "seconds" ["table"] "Time of an insert.";
    Histogram "receipts_warehouse_query_seconds" "seconds" ["query"] "Time of a question.";
};

/// Publishes the counters of `areas`, the second words of their names, at 0. Of a counter that
/// begins with its first event, no rate shows that event. Counters with a label that isn't a list
/// of [`labels`] begin with their events.
pub fn start_at_zero(areas: &[&str]) {
    let is_wanted = |row: &&MetricDoc| row.kind == MetricKind::Counter && areas.contains(&row.area());
    for row in METRICS.iter().filter(is_wanted) {
        for labels in row.label_sets() {
            metrics::counter!(row.name, labels).increment(0);
        }
    }
}

/// Tells the recorder help and unit of every metric. Called by
/// [`crate::telemetry::install_metrics`].
pub(crate) fn describe() {
    for row in METRICS {
        let unit = match row.unit {
            "seconds" => Unit::Seconds,
            "bytes" => Unit::Bytes,
            _ => Unit::Count,
        };
        match row.kind {
            MetricKind::Counter => metrics::describe_counter!(row.name, unit, row.help),
            MetricKind::Gauge => metrics::describe_gauge!(row.name, unit, row.help),
            MetricKind::Histogram => metrics::describe_histogram!(row.name, unit, row.help),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

    /// Units that aren't the base ones (Prometheus, "Metric and label naming").
    const SCALED: &[&str] = &[
        "_ms",
        "milliseconds",
        "microseconds",
        "_us_",
        "nanoseconds",
        "minutes",
        "hours",
        "_days",
        "kilobytes",
        "megabytes",
        "_kb",
        "_mb",
        "kib",
        "mib",
        "percent",
    ];

    #[test]
    fn names_and_labels_follow_prometheus() {
        let plain = |text: &str| {
            text.starts_with(|first: char| first.is_ascii_lowercase())
                && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
                && !text.contains("__")
        };
        for row in METRICS {
            assert!(plain(row.name), "{}", row.name);
            for scaled in SCALED {
                assert!(!row.name.contains(scaled), "{}: {scaled} isn't a base unit", row.name);
            }
            // A measure with a dimension says it last; a counter says `total` behind it.
            let bare = row.name.strip_suffix("_total").unwrap_or(row.name);
            for unit in ["seconds", "bytes"] {
                let ends = bare.ends_with(&format!("_{unit}"));
                assert_eq!(row.unit == unit, ends, "{} in {}", row.name, row.unit);
            }
            for suffix in ["_bucket", "_sum", "_count"] {
                assert!(!row.name.ends_with(suffix), "{} is a histogram's series", row.name);
            }
            assert!(
                !row.unit.is_empty(),
                "{}: a number without a dimension counts in `1`",
                row.name
            );
            assert!(
                row.help.starts_with(char::is_uppercase) || row.help.starts_with('1'),
                "{}",
                row.name
            );
            for label in row.labels {
                assert!(plain(label), "{} {label}", row.name);
                // `job` and `instance` are the scraper's, `le` and `quantile` the format's; a name
                // doesn't repeat its label.
                assert!(
                    !["job", "instance", "le", "quantile"].contains(label),
                    "{} {label}",
                    row.name
                );
                assert!(!row.name.contains(&format!("_by_{label}")), "{} {label}", row.name);
                assert!(
                    labels::values_of(row.name, label).is_some(),
                    "{} {label}: add its values",
                    row.name
                );
            }
        }
    }

    #[test]
    fn counters_of_an_area_start_at_zero_where_their_labels_are_lists() {
        let metrics = crate::telemetry::install_metrics().unwrap();
        start_at_zero(&["mails", "registry", "gateway"]);
        let text = metrics.render();
        for series in [
            r#"receipts_mails_total{outcome="refused"} 0"#,
            r#"receipts_registry_lookups_total{subject="publishers",outcome="failed"} 0"#,
            "receipts_gateway_clock_steps_total 0",
        ] {
            assert!(text.contains(series), "{series}: {text}");
        }
        assert!(
            !text.contains("receipts_gateway_refused_total{"),
            "codes aren't a list: {text}"
        );
        assert!(
            !text.contains("receipts_outbound_requests_total{"),
            "another area: {text}"
        );
    }

    #[test]
    fn every_labels_values_are_of_a_metric() {
        for (metric, label, _) in labels::LABELS {
            let has = |row: &MetricDoc| (metric.is_empty() || row.name == *metric) && row.labels.contains(label);
            assert!(METRICS.iter().any(has), "{metric} {label}");
        }
    }

    #[test]
    fn names_are_unique_and_say_their_unit() {
        let mut seen = HashSet::new();
        for row in METRICS {
            assert!(seen.insert(row.name), "{} is listed twice", row.name);
            assert!(row.name.starts_with("receipts_"), "{}", row.name);
            assert!(row.help.ends_with('.'), "{}", row.name);
            assert_eq!(
                row.kind == MetricKind::Counter,
                row.name.ends_with("_total"),
                "{}",
                row.name
            );
            if row.kind == MetricKind::Histogram {
                assert!(row.name.ends_with(&format!("_{}", row.unit)), "{}", row.name);
            }
        }
    }
}

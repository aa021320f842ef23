//! Kafka's metrics, and librdkafka's statistics as metrics. Their names are public interface.

use std::collections::HashMap;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;
use rdkafka::Statistics;

use super::role::Role;
use crate::Topic;

/// Brokers distinguished.
const BROKERS_MAX: usize = 64;

/// Meters of the producer, for each record.
pub(super) struct WriterMeters {
    /// Records acknowledged.
    pub(super) appends: Counter,
    /// Bytes of the records.
    pub(super) append_bytes: Counter,
    /// Records given up.
    pub(super) failures: Counter,
    /// Seconds from an append to its acknowledgement.
    pub(super) delivery_seconds: Histogram,
    /// 1 if records are taken, 0 if not.
    pub(super) writable: Gauge,
}

impl WriterMeters {
    pub(super) fn new(topic: Topic) -> Self {
        let log = topic.name();
        Self {
            appends: counter!("receipts_log_appends_total", "log" => log),
            append_bytes: counter!("receipts_log_append_bytes_total", "log" => log),
            failures: counter!("receipts_kafka_delivery_failures_total", "log" => log),
            delivery_seconds: histogram!("receipts_kafka_delivery_seconds", "log" => log),
            writable: gauge!("receipts_log_writable", "log" => log),
        }
    }
}

/// Metrics of a processor's transactions.
pub(super) struct TransactionMeters {
    /// Records acknowledged.
    pub(super) appends: Counter,
    /// Bytes of acknowledged records.
    pub(super) append_bytes: Counter,
    /// Seconds from the begin of a transaction to its end.
    pub(super) seconds: Histogram,
    /// Transactions that were committed, that were not, and of which it is unknown.
    pub(super) committed: Counter,
    pub(super) aborted: Counter,
    pub(super) unknown: Counter,
}

impl TransactionMeters {
    pub(super) fn new(topic: Topic) -> Self {
        let log = topic.name();
        Self {
            appends: counter!("receipts_log_appends_total", "log" => log),
            append_bytes: counter!("receipts_log_append_bytes_total", "log" => log),
            seconds: histogram!("receipts_kafka_transaction_seconds"),
            committed: counter!("receipts_kafka_transactions_total", "outcome" => "committed"),
            aborted: counter!("receipts_kafka_transactions_total", "outcome" => "aborted"),
            unknown: counter!("receipts_kafka_transactions_total", "outcome" => "unknown"),
        }
    }
}

/// Meters of a member of a consumer group.
pub(super) struct MemberMeters {
    /// Partitions held.
    pub(super) partitions: Gauge,
    /// Partitions assigned, revoked in order, and lost.
    pub(super) assigned: Counter,
    pub(super) revoked: Counter,
    pub(super) lost: Counter,
}

impl MemberMeters {
    pub(super) fn new(topic: Topic) -> Self {
        let log = topic.name();
        Self {
            partitions: gauge!("receipts_kafka_assigned_partitions", "log" => log),
            assigned: counter!("receipts_kafka_rebalanced_total", "log" => log, "what" => "assigned"),
            revoked: counter!("receipts_kafka_rebalanced_total", "log" => log, "what" => "revoked"),
            lost: counter!("receipts_kafka_rebalanced_total", "log" => log, "what" => "lost"),
        }
    }
}

/// librdkafka's statistics of one client.
pub(super) struct ClientMeters {
    role: Role,
    errors: Counter,
    timeouts: Counter,
    latency: Mutex<HashMap<i32, Gauge>>,
}

impl ClientMeters {
    pub(super) fn new(role: Role) -> Self {
        let (client, log) = (role.client, role.topic.name());
        Self {
            role,
            errors: counter!("receipts_kafka_request_errors_total", "client" => client, "log" => log),
            timeouts: counter!("receipts_kafka_request_timeouts_total", "client" => client, "log" => log),
            latency: Mutex::default(),
        }
    }

    /// Brings the metrics up to date.
    #[allow(clippy::cast_precision_loss)] // gauges
    pub(super) fn take(&self, statistics: &Statistics) {
        let brokers = statistics.brokers.values();
        self.errors
            .absolute(brokers.clone().map(|broker| broker.txerrs + broker.rxerrs).sum());
        self.timeouts
            .absolute(brokers.clone().map(|broker| broker.req_timeouts).sum());
        let mut latency = self.latency.lock();
        for broker in brokers.filter(|broker| broker.nodeid >= 0) {
            let Some(rtt) = &broker.rtt else { continue };
            if !latency.contains_key(&broker.nodeid) && latency.len() == BROKERS_MAX {
                continue;
            }
            let (client, log) = (self.role.client, self.role.topic.name());
            let number = broker.nodeid;
            let handle = || gauge!("receipts_kafka_broker_rtt_seconds", "client" => client, "log" => log, "broker" => number.to_string());
            latency.entry(number).or_insert_with(handle).set(rtt.p99 as f64 / 1e6);
        }
        drop(latency);
        let partitions = || statistics.topics.values().flat_map(|topic| topic.partitions.values());
        let log = self.role.topic.name();
        match self.role.client {
            super::WRITER | super::PROCESSOR => {
                gauge!("receipts_log_queue_bytes", "log" => log).set(statistics.msg_size as f64);
                gauge!("receipts_kafka_queue_records", "log" => log).set(statistics.msg_cnt as f64);
            }
            super::MEMBER => {
                let fetched: u64 = partitions().map(|partition| partition.fetchq_size).sum();
                gauge!("receipts_kafka_fetch_queue_bytes", "log" => log).set(fetched as f64);
                let ours = partitions().filter(|partition| partition.fetch_state == "active");
                let lag: i64 = ours.map(|partition| partition.consumer_lag.max(0)).sum();
                gauge!("receipts_kafka_lag_records", "log" => log).set(lag as f64);
            }
            _ => {}
        }
    }
}

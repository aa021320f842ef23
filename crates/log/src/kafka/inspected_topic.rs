//! A topic as an inspector sees it: clients that belong to no group, and reading with them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    INSPECTOR,
    client::{self, Events},
    headers,
    log_topic::{Appends, LogTopic},
    role::Role,
};
use crate::{
    kafka_config::{KafkaConfig, KafkaOpenError},
    record::LoggedRecord,
    traits::InspectError,
};

pub(super) type InspectorClient = BaseConsumer<Events>;

pub(super) fn unavailable(detail: impl Into<String>) -> InspectError {
    InspectError::Unavailable(detail.into())
}

/// A topic as the threads of an inspector see it.
#[derive(Clone)]
pub(super) struct InspectedTopic {
    config: Arc<KafkaConfig>,
    topic: Arc<LogTopic>,
    epoch: Arc<AtomicU32>,
}

impl InspectedTopic {
    pub(super) fn new(config: Arc<KafkaConfig>, topic: Arc<LogTopic>, epoch: Arc<AtomicU32>) -> Self {
        Self { config, topic, epoch }
    }

    /// A client that reads what it is assigned and belongs to no group; `group` is whose commits it
    /// requests.
    pub(super) fn client(&self, group: &str, fetch_bytes_max: usize) -> Result<InspectorClient, KafkaOpenError> {
        let mut settings = client::base(&self.config, INSPECTOR);
        settings
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", self.topic.isolation_level())
            // At the end of a partition there may be only markers, which nobody gets.
            .set(
                "enable.partition.eof",
                (self.topic.appends == Appends::Transactional).to_string(),
            )
            .set("check.crcs", "true")
            .set("max.partition.fetch.bytes", fetch_bytes_max.to_string())
            .set(
                "queued.max.messages.kbytes",
                self.config.fetch_queue_bytes_max.div_ceil(1024).to_string(),
            )
            .set("fetch.queue.backoff.ms", "10")
            // A fetch at the end of a partition must not keep the next request waiting.
            .set("fetch.wait.max.ms", "10");
        let role = Role {
            client: INSPECTOR,
            topic: self.topic.topic,
        };
        let client = InspectorClient::from_config_and_context(&settings, Events::new(role));
        client.map_err(|error| KafkaOpenError::Client(error.to_string()))
    }

    pub(super) fn wait_max(&self) -> Duration {
        Duration::from_millis(self.config.request_wait_ms_max)
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic.name
    }

    pub(super) fn appends(&self) -> Appends {
        self.topic.appends
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Replaces the epoch and returns the one before.
    pub(super) fn set_epoch(&self, epoch: u32) -> u32 {
        self.epoch.swap(epoch, Ordering::Relaxed)
    }
}

/// The partitions that the topic has now.
pub(super) fn partitions_of(client: &InspectorClient, view: &InspectedTopic) -> Result<Vec<u32>, KafkaError> {
    let metadata = client.fetch_metadata(Some(view.topic()), view.wait_max())?;
    let topic = metadata.topics().iter().find(|topic| topic.name() == view.topic());
    let topic = topic.ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))?;
    if let Some(error) = topic.error() {
        return Err(KafkaError::MetadataFetch(error.into()));
    }
    let mut partitions: Vec<u32> = topic
        .partitions()
        .iter()
        .filter_map(|partition| u32::try_from(partition.id()).ok())
        .collect();
    partitions.sort_unstable();
    Ok(partitions)
}

pub(super) fn assign_at(
    client: &InspectorClient,
    topic: &str,
    starts: impl IntoIterator<Item = (u32, u64)>,
) -> Result<(), KafkaError> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in starts {
        let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        list.add_partition_offset(topic, i32::try_from(partition).unwrap_or(i32::MAX), offset)?;
    }
    client.assign(&list)
}

fn is_out_of_range(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
    )
}

/// The next event of a client's assignment.
pub(super) enum PolledEvent {
    Record(LoggedRecord),
    /// Of this partition there are no more records: its end was reached since it was assigned.
    End(u32),
    /// No event within the wait.
    Nothing,
}

/// Waits for the next record until `deadline`; errors that librdkafka tries again over are passed
/// over.
pub(super) fn next_record(client: &InspectorClient, epoch: u32, deadline: Instant) -> Result<PolledEvent, KafkaError> {
    loop {
        let wait = deadline.saturating_duration_since(Instant::now());
        match client.poll(wait) {
            Some(Ok(message)) => return Ok(PolledEvent::Record(headers::record_of(&message, epoch))),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                return Ok(PolledEvent::End(u32::try_from(partition).unwrap_or(u32::MAX)));
            }
            Some(Err(error)) if is_out_of_range(&error) => return Err(error),
            Some(Err(_)) | None => {}
        }
        if wait.is_zero() {
            return Ok(PolledEvent::Nothing);
        }
    }
}

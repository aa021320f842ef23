//! Positions of a group without members, set from outside, also backwards.

use std::{
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::bounded;
use rdkafka::{
    Offset,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, CommitMode, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    client::{self, Events},
    commits,
    log_topic::LogTopic,
    offsets, pause,
    role::Role,
};
use crate::kafka_config::{KafkaConfig, KafkaOpenError};

/// Time that a broker may take to end a member's session, beyond the session's own.
const SESSION_MARGIN: Duration = Duration::from_secs(3);

/// Commits `positions` (partition, next offset) for `group`. The broker takes a commit from outside
/// only while the group has no members, so this waits until the session of one that has just been
/// stopped has ended.
pub(super) fn rewind(
    config: &KafkaConfig,
    topic: &LogTopic,
    epoch: u32,
    group: &str,
    positions: &[(u32, u64)],
) -> Result<(), KafkaOpenError> {
    let failed = |detail: String| KafkaOpenError::Group {
        group: group.to_owned(),
        detail,
    };
    let mut settings = client::base(config, "rewind");
    settings.set("group.id", group).set("enable.auto.commit", "false");
    let role = Role {
        client: "opening",
        topic: topic.topic,
    };
    let client: BaseConsumer<Events> = BaseConsumer::from_config_and_context(&settings, Events::new(role))
        .map_err(|error| KafkaOpenError::Client(error.to_string()))?;
    let mut list = offsets::list(&topic.name, []);
    for &(partition, next_offset) in positions {
        let mut element = list.add_partition(&topic.name, i32::try_from(partition).unwrap_or(i32::MAX));
        let offset = Offset::Offset(i64::try_from(next_offset).unwrap_or(i64::MAX));
        element.set_offset(offset).map_err(|error| failed(error.to_string()))?;
        element.set_metadata(commits::to_metadata(epoch, ""));
    }
    // librdkafka waits without an end for a broker that doesn't answer.
    let (done, answered) = bounded(1);
    let session_max = Duration::from_millis(config.session_wait_ms_max) + SESSION_MARGIN;
    let ended_by = Instant::now() + session_max;
    let committing = move || loop {
        match client.commit(&list, CommitMode::Sync) {
            Err(error) if has_members(&error) && Instant::now() < ended_by => pause(),
            committed => break drop(done.send(committed)),
        }
    };
    thread::Builder::new()
        .name("log-kafka-rewind".to_owned())
        .spawn(committing)
        .map_err(|error| failed(error.to_string()))?;
    let wait_max = Duration::from_millis(config.request_wait_ms_max) + session_max;
    match answered.recv_timeout(wait_max) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if has_members(&error) => Err(KafkaOpenError::GroupInUse(group.to_owned())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("no answer within {wait_max:?}"))),
    }
}

fn has_members(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(Code::UnknownMemberId | Code::IllegalGeneration | Code::RebalanceInProgress)
    )
}

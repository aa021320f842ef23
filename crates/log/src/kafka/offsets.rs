//! Committed positions and the ends of partitions, requested for all partitions at once: one
//! request to the group's coordinator, one to each leader.

use std::time::{Duration, Instant};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::commits;
use crate::traits::Committed;

/// Between two questions that met a cluster on the move.
const PAUSE: Duration = Duration::from_millis(50);

/// The list of these partitions, without offsets.
pub(super) fn list(topic: &str, partitions: impl IntoIterator<Item = u32>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(topic, i32::try_from(partition).unwrap_or(i32::MAX));
    }
    list
}

/// Start of a partition's reading.
pub(super) struct ReadStart {
    pub(super) committed: Option<Committed>,
    pub(super) begin_offset: u64,
}

impl ReadStart {
    /// Behind the commit, also where retention has passed it: reading there fails, and must.
    pub(super) fn next_offset(&self) -> u64 {
        self.committed
            .as_ref()
            .map_or(self.begin_offset, |made| made.next_offset)
    }
}

/// The start of each of `partitions`, in their order.
pub(super) fn starts<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partitions: &[u32],
    epoch: u32,
    wait_max: Duration,
) -> Result<Vec<ReadStart>, KafkaError> {
    let committed = committed(consumer, topic, partitions, epoch, wait_max)?;
    let begins = at(consumer, topic, partitions, Offset::Beginning, wait_max)?;
    let starts = committed.into_iter().zip(begins);
    Ok(starts
        .map(|(committed, begin_offset)| ReadStart {
            committed,
            begin_offset,
        })
        .collect())
}

/// The group's commits of this epoch, in the order of `partitions`.
pub(super) fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partitions: &[u32],
    epoch: u32,
    wait_max: Duration,
) -> Result<Vec<Option<Committed>>, KafkaError> {
    let asking = || consumer.committed_offsets(list(topic, partitions.iter().copied()), wait_max);
    let found = patiently(wait_max, asking)?;
    each(&found, topic, partitions, |offset, metadata| match offset {
        Offset::Offset(offset) => {
            let made = commits::from_metadata(epoch, offset.unsigned_abs(), metadata);
            if made.is_none() {
                tracing::warn!(
                    epoch,
                    metadata,
                    "a committed position is of another epoch of the topic: ignored"
                );
            }
            Ok(made)
        }
        _ => Ok(None),
    })
}

/// The first or the last offset of each of `partitions`, in their order; `which` is `Beginning` or
/// `End`.
pub(super) fn at<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partitions: &[u32],
    which: Offset,
    wait_max: Duration,
) -> Result<Vec<u64>, KafkaError> {
    patiently(wait_max, || {
        let mut asked = list(topic, partitions.iter().copied());
        asked.set_all_offsets(which)?;
        let found = consumer.offsets_for_times(asked, wait_max)?;
        each(&found, topic, partitions, |offset, _| match offset {
            Offset::Offset(offset) => Ok(offset.unsigned_abs()),
            // As the question stood: no answer came for this one.
            _ => Err(KafkaError::OffsetFetch(RDKafkaErrorCode::LeaderNotAvailable)),
        })
    })
}

/// Asks again while the cluster is finding out who answers: a coordinator that loads, a leader that
/// moves.
#[allow(clippy::disallowed_methods)] // on a thread of this engine, which blocks on brokers anyway
fn patiently<T>(wait_max: Duration, mut ask: impl FnMut() -> Result<T, KafkaError>) -> Result<T, KafkaError> {
    use RDKafkaErrorCode as Code;
    let started = Instant::now();
    loop {
        let error = match ask() {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let passes = matches!(
            error.rdkafka_error_code(),
            Some(
                Code::NotCoordinator
                    | Code::CoordinatorLoadInProgress
                    | Code::CoordinatorNotAvailable
                    | Code::WaitingForCoordinator
                    | Code::LeaderNotAvailable
                    | Code::NotLeaderForPartition
                    | Code::FencedLeaderEpoch
                    | Code::UnknownLeaderEpoch
                    // A transaction of the partition's last owner hasn't ended yet.
                    | Code::UnstableOffsetCommit
            )
        );
        if !passes || started.elapsed() >= wait_max {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
}

fn each<T>(
    found: &TopicPartitionList,
    topic: &str,
    partitions: &[u32],
    mut take: impl FnMut(Offset, &str) -> Result<T, KafkaError>,
) -> Result<Vec<T>, KafkaError> {
    let of = |&partition: &u32| {
        let number = i32::try_from(partition).unwrap_or(i32::MAX);
        let element = found.find_partition(topic, number);
        let element = element.ok_or(KafkaError::OffsetFetch(RDKafkaErrorCode::UnknownPartition))?;
        element.error()?;
        take(element.offset(), element.metadata())
    };
    partitions.iter().map(of).collect()
}

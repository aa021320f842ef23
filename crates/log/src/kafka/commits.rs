//! A committed position as Kafka stores it: the offset, and as metadata the epoch and the ledger
//! line, `EPOCH LINE`.
//!
//! Kafka deletes a group's offsets with the topic, but a consumer of the deleted topic may still
//! commit after that; the epoch in the metadata tells such a commit from one of this topic.

use rdkafka::error::RDKafkaErrorCode;

use crate::traits::{CommitError, Committed};

/// Most bytes of metadata one commit carries: a broker's default `offset.metadata.max.bytes` less
/// the epoch.
pub(super) const METADATA_BYTES_MAX: usize = 4096 - 16;

/// Formats the metadata that are stored beside the offset.
pub(super) fn to_metadata(epoch: u32, line: &str) -> String {
    format!("{epoch} {line}")
}

/// The commit of this epoch that stands at `offset` with `metadata`; none if it is of another one.
///
/// Metadata that isn't ours is another tool's, as when a person resets the group's offsets: it
/// counts for the topic that there is, and carries no line.
pub(super) fn from_metadata(epoch: u32, offset: u64, metadata: &str) -> Option<Committed> {
    let ours = metadata
        .split_once(' ')
        .and_then(|(of, line)| Some((of.parse::<u32>().ok()?, line)));
    let (of, line) = ours.unwrap_or((epoch, ""));
    (of == epoch).then(|| Committed {
        epoch,
        next_offset: offset,
        metadata: line.to_owned(),
    })
}

/// Meaning of a refused commit.
pub(super) fn commit_error(code: Option<RDKafkaErrorCode>, partition: u32, reason: String) -> CommitError {
    use RDKafkaErrorCode as Code;
    match code {
        // The group went on without this member. librdkafka gives its partitions up, and the next
        // poll says so.
        Some(Code::UnknownMemberId | Code::FencedInstanceId | Code::AssignmentLost) => CommitError::Fenced(partition),
        // Among the rest `RebalanceInProgress`, and `IllegalGeneration`, which a commit meets that
        // crosses the answer to a join: the partition is ours until this member has heard
        // otherwise. Outside of a rebalance librdkafka takes the latter for the loss of all
        // partitions, and then the next try is fenced.
        _ => CommitError::Unavailable(reason),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn a_commit_of_another_epoch_is_none() {
        let line = "{\"a b\":1}";
        let stored = to_metadata(7, line);
        assert_eq!(from_metadata(7, 5, &stored).unwrap().metadata, line);
        assert_eq!(from_metadata(8, 5, &stored), None);
        for foreign in ["", "x", "by hand", "99999999999 x"] {
            let made = from_metadata(8, 5, foreign).unwrap();
            assert_eq!((made.epoch, made.next_offset, made.metadata.as_str()), (8, 5, ""));
        }
        assert_eq!(from_metadata(7, 0, &to_metadata(7, "")).unwrap().metadata, "");
    }
}

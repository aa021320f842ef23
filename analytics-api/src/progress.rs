//! Progress of the writers: what the tables contain, and through which instant nothing is missing.
//!
//! A writer publishes progress after rows, aggregates and ledger rows are stored, so everything
//! below a published position is in the tables.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use service::instant::CLOCKS_APART_MS_MAX;
use warehouse::{PartitionProgress, ShardProgress, Warehouse, WarehouseError};

/// Reads the progress that the writers of all shards published last.
pub trait Progress: Send + Sync + 'static {
    /// Returns one entry per shard, and none before the first writer has published.
    fn shards(&self) -> BoxFuture<'_, Result<Vec<ShardProgress>, WarehouseError>>;
}

impl Progress for Warehouse {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<ShardProgress>, WarehouseError>> {
        self.progress().boxed()
    }
}

/// Progress without an instant through which all shards are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    /// No shard has published.
    #[error(
        "no writer has published its progress yet: check that a verifier and a writer run (`receipts up` runs both); \
         they publish within seconds, also without receipts"
    )]
    NothingPublished,
    /// A shard's writer hasn't published.
    #[error("the writer of shard {0} hasn't published its progress yet: check that a writer runs for each shard")]
    Shard(u32),
    /// A shard's writer hasn't received verdicts, or idle records, of every partition of
    /// `receipts`.
    #[error(
        "the writer of shard {shard} has published progress of {found} of {partitions} partitions of the log receipts: \
         check that every partition has a verifier"
    )]
    Partitions {
        /// The shard.
        shard: u32,
        /// Partitions of the newest epoch whose instant is known.
        found: u32,
        /// Partitions of `receipts`, as far as any shard's writer knows.
        partitions: u32,
    },
    /// A partition's instant is later than now.
    #[error(
        "the writers are complete through an instant {ahead_s} s ahead of this clock: the clock of the log, of the \
         verifiers or of the writers was ahead, or this one is behind; check NTP. The next progress with right clocks \
         ends this, within seconds"
    )]
    Ahead {
        /// Seconds from now to the latest instant.
        ahead_s: i64,
    },
    /// No writer knows how many partitions `receipts` has.
    #[error(
        "no writer knows yet how many partitions the log receipts has: check that a verifier runs; it reads the number \
         when it starts"
    )]
    UnknownPartitions,
}

/// The earliest instant of all shards and partitions, in milliseconds since the Unix epoch:
/// everything acknowledged before it is stored. Never later than `now_ms`.
///
/// Only the newest epoch counts. A log that was recreated has no instant until all its partitions
/// have one.
pub fn complete_through_ms(shards: &[ShardProgress], now_ms: i64) -> Result<i64, Incomplete> {
    if shards.is_empty() {
        return Err(Incomplete::NothingPublished);
    }
    let partitions = shards.iter().map(|shard| shard.source_partitions).max().unwrap_or(0);
    // A verifier that hasn't read the number yet sends 0.
    if partitions == 0 {
        return Err(Incomplete::UnknownPartitions);
    }
    let shards_max = shards.iter().map(|shard| shard.shards).max().unwrap_or(0);
    if let Some(missing) = (0..shards_max).find(|number| !shards.iter().any(|shard| shard.shard == *number)) {
        return Err(Incomplete::Shard(missing));
    }
    let all = || shards.iter().flat_map(|shard| &shard.partitions);
    let epoch = all().map(|one| one.epoch).max();
    // An instant of 0 comes from the ledger, which has none.
    let counts = |one: &&PartitionProgress| Some(one.epoch) == epoch && one.complete_through_ms > 0;
    for ShardProgress {
        shard,
        partitions: published,
        ..
    } in shards
    {
        let found = u32::try_from(published.iter().filter(counts).count()).unwrap_or(u32::MAX);
        if found < partitions {
            return Err(Incomplete::Partitions {
                shard: *shard,
                found,
                partitions,
            });
        }
    }
    let instants = || all().filter(counts).map(|one| one.complete_through_ms);
    // What a clock that was ahead has published says nothing of its partition.
    let ahead_ms = instants().max().unwrap_or(0).saturating_sub(now_ms);
    if ahead_ms > CLOCKS_APART_MS_MAX {
        return Err(Incomplete::Ahead {
            ahead_s: ahead_ms / 1_000,
        });
    }
    instants()
        .min()
        .map(|at_ms| at_ms.min(now_ms))
        .ok_or(Incomplete::NothingPublished)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Partitions as (epoch, partition, next offset, instant).
    fn shard(number: u32, source_partitions: u32, partitions: &[(u32, u32, u64, i64)]) -> ShardProgress {
        let partition = |&(epoch, partition, next_offset, complete_through_ms): &_| PartitionProgress {
            epoch,
            partition,
            first_offset: 0,
            next_offset,
            complete_through_ms,
        };
        ShardProgress {
            shard: number,
            source_partitions,
            partitions: partitions.iter().map(partition).collect(),
            ..ShardProgress::default()
        }
    }

    fn complete_through(shards: &[ShardProgress]) -> Result<i64, Incomplete> {
        complete_through_ms(shards, 1_000)
    }

    fn missing(shard: u32, found: u32, partitions: u32) -> Result<i64, Incomplete> {
        Err(Incomplete::Partitions {
            shard,
            found,
            partitions,
        })
    }

    #[test]
    fn the_earliest_instant_of_all_shards_and_partitions_counts() {
        let two = [
            shard(0, 2, &[(1, 0, 5, 300), (1, 1, 9, 200)]),
            shard(1, 2, &[(1, 0, 4, 400), (1, 1, 9, 500)]),
        ];
        assert_eq!(complete_through(&two), Ok(200));
        assert_eq!(complete_through(&two[1..]), Ok(400));
        // An empty log with idle records only.
        assert_eq!(complete_through(&[shard(0, 1, &[(1, 0, 0, 70)])]), Ok(70));
    }

    #[test]
    fn without_every_partition_of_every_shard_there_is_no_instant() {
        assert_eq!(complete_through(&[]), Err(Incomplete::NothingPublished));
        assert_eq!(complete_through(&[shard(0, 2, &[])]), missing(0, 0, 2));
        assert_eq!(complete_through(&[shard(0, 2, &[(1, 1, 9, 200)])]), missing(0, 1, 2));
        let unknown = complete_through(&[shard(0, 0, &[(1, 0, 9, 200)])]);
        assert_eq!(unknown, Err(Incomplete::UnknownPartitions));
        // One shard knows of a partition that was added.
        let added = [
            shard(3, 1, &[(1, 0, 5, 300)]),
            shard(4, 2, &[(1, 0, 5, 300), (1, 1, 5, 300)]),
        ];
        assert_eq!(complete_through(&added), missing(3, 1, 2));
        // The ledger has no instants.
        assert_eq!(
            complete_through(&[shard(0, 2, &[(1, 0, 5, 300), (1, 1, 9, 0)])]),
            missing(0, 1, 2)
        );
    }

    #[test]
    fn every_shard_of_the_log_verdicts_must_have_published() {
        let first = ShardProgress {
            shards: 3,
            ..shard(0, 1, &[(1, 0, 5, 300)])
        };
        let second = shard(1, 1, &[(1, 0, 5, 200)]);
        let third = shard(2, 1, &[(1, 0, 5, 400)]);
        let shards = [first, second, third];
        assert_eq!(complete_through(&shards[..2]), Err(Incomplete::Shard(2)));
        assert_eq!(complete_through(&shards), Ok(200));
    }

    #[test]
    fn partitions_of_an_earlier_epoch_do_not_count() {
        let recreated = [shard(0, 2, &[(1, 0, 5, 300), (1, 1, 9, 200), (2, 0, 1, 900)])];
        assert_eq!(complete_through(&recreated), missing(0, 1, 2));
        let complete = [shard(0, 2, &[(1, 0, 5, 300), (2, 0, 1, 900), (2, 1, 0, 800)])];
        assert_eq!(complete_through(&complete), Ok(800));
        let one_shard_behind = [shard(0, 1, &[(2, 0, 1, 900)]), shard(1, 1, &[(1, 0, 5, 300)])];
        assert_eq!(complete_through(&one_shard_behind), missing(1, 0, 1));
    }

    #[test]
    fn no_instant_is_later_than_now() {
        let now_ms = 20_000 * 86_400_000;
        let through = |first_ms, second_ms| {
            complete_through_ms(&[shard(0, 2, &[(1, 0, 5, first_ms), (1, 1, 9, second_ms)])], now_ms)
        };
        assert_eq!(
            through(now_ms + 40, now_ms + 20),
            Ok(now_ms),
            "clocks that NTP leaves apart"
        );
        assert_eq!(through(now_ms - 7, now_ms + 20), Ok(now_ms - 7));
        let tomorrow = Err(Incomplete::Ahead { ahead_s: 86_400 });
        assert_eq!(through(now_ms - 7, now_ms + 86_400_000), tomorrow);
    }
}

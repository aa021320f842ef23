//! The header of a record, as metadata of its Arrow schema.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use crate::BlockError;

/// The format version that this crate reads and writes.
pub const VERSION: u32 = 1;

/// Longest name of a verifier.
pub const VERIFIER_BYTES_MAX: usize = 128;

/// All keys of the header begin so.
const PREFIX: &str = "receipts.";

/// Key of the verifier's name.
const VERIFIER: &str = "verifier";

/// Offsets of the log have 48 bits, and a range may end behind the last of them.
const OFFSET_MAX: u64 = 1 << 48;

/// Index of a receipt in a partition of the log `receipts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceIndex {
    /// The record's offset.
    pub offset: u64,
    /// The receipt's index in its batch.
    pub index: u16,
}

/// Half-open range of receipts of one partition of the log `receipts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceRange {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first receipt of the range.
    pub first: SourceIndex,
    /// The first receipt behind the range: `(offset + 1, 0)` behind a whole record.
    pub end: SourceIndex,
}

impl SourceRange {
    /// Whether the range has no receipts: an idle record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Whether the range begins exactly where `previous` ends, in the same epoch and partition.
    #[must_use]
    pub fn continues(&self, previous: &Self) -> bool {
        (self.epoch, self.partition, self.first) == (previous.epoch, previous.partition, previous.end)
    }
}

/// Receipts of a block or of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiptCounts {
    /// All receipts.
    pub received: u64,
    /// Valid receipts.
    pub accepted: u64,
    /// All others.
    pub rejected: u64,
}

/// Header of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The receipts that the block judged.
    pub source: SourceRange,
    /// Number of partitions of the log `receipts`.
    pub source_partitions: u32,
    /// The shard of the rows.
    pub shard: u32,
    /// Number of shards, each of which has a record of this range.
    pub shards: u32,
    /// Version of the shard map that assigned the rows.
    pub shard_map_version: u32,
    /// Hash of that map.
    pub shard_map: u64,
    /// When the log took the first record of the range, milliseconds since the Unix epoch.
    pub first_appended_at_ms: i64,
    /// Instant before which everything acknowledged in this partition is before `source.end`.
    pub complete_through_ms: i64,
    /// Receipts of the whole block, over all shards.
    pub block: ReceiptCounts,
    /// Rows of this record. [`Rows::encode`](crate::Rows::encode) counts them.
    pub shard_counts: ReceiptCounts,
    /// Name of the process that judged the block. At most [`VERIFIER_BYTES_MAX`] bytes.
    pub verifier: String,
}

/// An idle record of the only shard.
impl Default for Header {
    fn default() -> Self {
        Self {
            version: VERSION,
            source: SourceRange::default(),
            source_partitions: 0,
            shard: 0,
            shards: 1,
            shard_map_version: 0,
            shard_map: 0,
            first_appended_at_ms: 0,
            complete_through_ms: 0,
            block: ReceiptCounts::default(),
            shard_counts: ReceiptCounts::default(),
            verifier: String::new(),
        }
    }
}

impl Header {
    /// Everything but the verifier's name, by its key without the prefix.
    fn numbers(&mut self) -> [(&'static str, &mut dyn Number); 20] {
        let (source, block, shard) = (&mut self.source, &mut self.block, &mut self.shard_counts);
        [
            ("version", &mut self.version),
            ("source_epoch", &mut source.epoch),
            ("source_partition", &mut source.partition),
            ("source_first_offset", &mut source.first.offset),
            ("source_first_index", &mut source.first.index),
            ("source_end_offset", &mut source.end.offset),
            ("source_end_index", &mut source.end.index),
            ("source_partitions", &mut self.source_partitions),
            ("shard", &mut self.shard),
            ("shards", &mut self.shards),
            ("shard_map_version", &mut self.shard_map_version),
            ("shard_map", &mut self.shard_map),
            ("first_appended_at_ms", &mut self.first_appended_at_ms),
            ("complete_through_ms", &mut self.complete_through_ms),
            ("block_received", &mut block.received),
            ("block_accepted", &mut block.accepted),
            ("block_rejected", &mut block.rejected),
            ("shard_received", &mut shard.received),
            ("shard_accepted", &mut shard.accepted),
            ("shard_rejected", &mut shard.rejected),
        ]
    }

    /// Metadata of the schema.
    pub(crate) fn metadata(mut self) -> Vec<(String, String)> {
        let numbers = self
            .numbers()
            .map(|(name, number)| (format!("{PREFIX}{name}"), number.text()));
        let mut metadata = Vec::from(numbers);
        metadata.push((format!("{PREFIX}{VERIFIER}"), self.verifier));
        metadata
    }

    /// Reads the header from metadata. Other keys are ignored.
    pub(crate) fn from_metadata<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, BlockError> {
        let mut found = BTreeMap::new();
        for (key, value) in entries {
            if let Some(name) = key.strip_prefix(PREFIX)
                && found.insert(name, value).is_some()
            {
                return Err(BlockError::Damaged(format!("its header has {PREFIX}{name:.80} twice")));
            }
        }
        let text = |name| {
            let value = found.get(name).copied();
            value.ok_or_else(|| BlockError::Damaged(format!("its header has no {PREFIX}{name}")))
        };
        let mut header = Self::default();
        for (name, number) in header.numbers() {
            let text = text(name)?;
            if !number.read(text) {
                return Err(BlockError::Damaged(format!(
                    "{PREFIX}{name} of its header isn't a number: {text:.80}"
                )));
            }
            // The version decides what else there is. It comes first.
            if name == "version" && text != VERSION.to_string() {
                return Err(BlockError::Version {
                    found: text.parse().unwrap_or_default(),
                });
            }
        }
        text(VERIFIER)?.clone_into(&mut header.verifier);
        header.check().map_err(BlockError::Damaged)?;
        Ok(header)
    }

    /// The rules that a header keeps by itself, or the one that it breaks.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self {
            source,
            block,
            shard_counts,
            ..
        } = self;
        if self.version != VERSION {
            return Err(format!("version {} isn't this program's {VERSION}", self.version));
        }
        for (name, counts) in [("block", block), ("shard", shard_counts)] {
            if counts.accepted.checked_add(counts.rejected) != Some(counts.received) {
                return Err(format!(
                    "the {name}'s {} accepted and {} rejected receipts aren't its {} received ones",
                    counts.accepted, counts.rejected, counts.received
                ));
            }
        }
        if shard_counts.accepted > block.accepted || shard_counts.rejected > block.rejected {
            return Err(format!(
                "the shard has {} accepted and {} rejected receipts, more than the whole block's {} and {}",
                shard_counts.accepted, shard_counts.rejected, block.accepted, block.rejected
            ));
        }
        if self.shard >= self.shards {
            return Err(format!("shard {} isn't one of {} shards", self.shard, self.shards));
        }
        if source.first > source.end || source.end.offset > OFFSET_MAX {
            return Err(format!(
                "its source range from {:?} to {:?} isn't one of a log",
                source.first, source.end
            ));
        }
        if source.is_empty() && block.received > 0 {
            return Err(format!(
                "its source range is empty, and it has {} receipts",
                block.received
            ));
        }
        if self.verifier.len() > VERIFIER_BYTES_MAX {
            return Err(format!(
                "the verifier's name has {} bytes, and at most {VERIFIER_BYTES_MAX} are allowed",
                self.verifier.len()
            ));
        }
        Ok(())
    }
}

/// A number of the header: decimal, as Rust prints it, so without a plus sign or leading zeros.
trait Number {
    fn text(&self) -> String;
    /// Takes the number from `text`, if it is one.
    fn read(&mut self, text: &str) -> bool;
}

impl<N: FromStr + Display> Number for N {
    fn text(&self) -> String {
        self.to_string()
    }

    fn read(&mut self, text: &str) -> bool {
        match text.parse() {
            Ok(number) => *self = number,
            Err(_) => return false,
        }
        self.text() == text
    }
}

//! Whether the log `verdicts` continues what is stored, up to the verifiers' positions: if it
//! doesn't, verdicts are lost.

use receipt_log::{InspectError, LogInspector, PartitionState};
use warehouse::ShardProgress;

use crate::reading::decode;
use crate::sequence::Sequence;

/// Bytes of `verdicts` that are read at a time.
const STEP_BYTES: usize = 8 << 20;

/// Why the log can't continue what is stored; none if it can. `receipts` are the partitions of the
/// source log with the verifiers' commits, read before.
///
/// # Errors
/// [`InspectError`]: the log can't be read.
pub async fn break_in(
    verdicts: &dyn LogInspector,
    receipts: &[PartitionState],
    stored: &ShardProgress,
) -> Result<Option<String>, InspectError> {
    let states = verdicts.partitions(crate::GROUP).await?;
    let Some(state) = states.into_iter().find(|state| state.partition == stored.shard) else {
        return Ok(Some(format!("it has no partition {}", stored.shard)));
    };
    let (epoch, end) = (stored.verdicts.epoch, stored.verdicts.offset);
    let is_new = stored.partitions.is_empty() && epoch == 0;
    if !is_new && state.epoch != epoch {
        let found = state.epoch;
        return Ok(Some(format!(
            "it has epoch {found}, and the tables were written from epoch {epoch}"
        )));
    }
    if !is_new && end > state.end_offset {
        let found = state.end_offset;
        return Ok(Some(format!(
            "it ends at offset {found}, and the tables hold what came before offset {end}"
        )));
    }
    if !is_new && end < state.begin_offset {
        let found = state.begin_offset;
        return Ok(Some(format!(
            "it begins at offset {found}, and the tables end at offset {end}"
        )));
    }
    let mut sequence = Sequence::new(stored);
    let mut offset = end.max(state.begin_offset);
    while offset < state.end_offset {
        let records = match verdicts.read(stored.shard, offset, STEP_BYTES).await {
            Err(gone @ InspectError::Gone { .. }) => return Ok(Some(gone.to_string())),
            records => records?,
        };
        let Some(last) = records.last() else { break };
        offset = last.position.offset + 1;
        for logged in &records {
            let advanced = decode(logged).map_err(|error| error.to_string()).and_then(|read| {
                let at = logged.position.offset;
                let advanced = sequence.advance(&read.block.header);
                advanced.map_err(|error| format!("its record at offset {at}: {error}"))
            });
            if let Err(reason) = advanced {
                return Ok(Some(reason));
            }
        }
    }
    let progress = sequence.progress(stored.shard, 0, stored.verdicts);
    for source in receipts {
        let Some(committed) = source.committed.as_ref().filter(|one| one.epoch == source.epoch) else {
            continue;
        };
        let mut partitions = progress.partitions.iter();
        let covered = partitions.find(|one| (one.epoch, one.partition) == (source.epoch, source.partition));
        let covered = covered.map_or(source.begin_offset, |one| one.next_offset);
        if committed.next_offset > covered {
            return Ok(Some(format!(
                "the verifiers have come to offset {} of partition {} of receipts, and the log has verdicts up to offset \
                 {covered}",
                committed.next_offset, source.partition
            )));
        }
    }
    Ok(None)
}

//! Ledger lines that overlap: records judged twice, in blocks cut elsewhere, after a committed position was lost. A line
//! says what its records hold, so any lines that meet each other from end to end say the same as any others.

use std::ops::Range;

use crate::failure::Failure;
use crate::inspection::{CommittedPartition, Inspection};

/// Deletes lines until none overlap; returns how many. Where the lines that are left don't meet there is a gap then, of
/// records that the log still holds.
///
/// # Errors
/// The warehouse is unavailable.
pub async fn settle(inspection: &Inspection) -> Result<u64, Failure> {
    let warehouse = &inspection.warehouse;
    let mut deleted = 0;
    for partition in inspection.committed().await? {
        let (epoch, number) = (partition.epoch, partition.partition);
        let groups = warehouse
            .ledger_overlaps(epoch, number)
            .await
            .map_err(Failure::unavailable)?;
        for group in groups {
            let lines = warehouse.ledger_bounds(epoch, number, group.clone()).await;
            let surplus = surplus(&lines.map_err(Failure::unavailable)?, &group, &partition);
            warehouse
                .delete_ledger_lines(epoch, number, &surplus)
                .await
                .map_err(Failure::unavailable)?;
            deleted += surplus.len() as u64;
        }
    }
    Ok(deleted)
}

/// Which of a group's lines to delete, by their first offset. None if the rest would leave a gap that the log can't fill.
fn surplus(lines: &[Range<u64>], group: &Range<u64>, partition: &CommittedPartition) -> Vec<u64> {
    // The last commit's line comes back whenever it is missing, so it stays.
    let fixed = partition.last_block.filter(|first| group.contains(first));
    let until = fixed.unwrap_or(group.end);
    let mut kept = Vec::new();
    let mut end = group.start;
    for line in lines {
        if line.start == end && line.end <= until {
            kept.push(line.start);
            end = line.end;
        }
    }
    if end < until && end < partition.begin_offset {
        return Vec::new();
    }
    kept.extend(fixed);
    let firsts = lines.iter().map(|line| line.start);
    firsts.filter(|first| !kept.contains(first)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(begin_offset: u64, last_block: Option<u64>) -> CommittedPartition {
        CommittedPartition {
            epoch: 1,
            partition: 0,
            begin_offset,
            next_offset: 30,
            end_offset: 30,
            last_block,
        }
    }

    #[test]
    fn lines_that_meet_stay_and_the_others_go() {
        let lines = [0..7, 7..15, 10..20, 15..25, 20..30, 25..30];
        assert_eq!(surplus(&lines, &(0..30), &partition(0, Some(25))), [10, 20]);
        assert_eq!(surplus(&lines, &(0..30), &partition(30, Some(25))), [10, 20]);
        assert_eq!(surplus(&lines, &(0..30), &partition(0, None)), [10, 20]);
    }

    #[test]
    fn where_none_meet_the_log_must_fill_the_gap() {
        let lines = [0..10, 5..20, 18..30];
        assert_eq!(surplus(&lines, &(0..30), &partition(10, Some(18))), [5]);
        assert_eq!(surplus(&lines, &(0..30), &partition(11, Some(18))), [0_u64; 0]);
    }

    #[test]
    fn the_last_commits_line_stays_whatever_meets() {
        let lines = [0..10, 10..30, 20..30];
        assert_eq!(surplus(&lines, &(0..30), &partition(0, Some(20))), [10]);
    }
}

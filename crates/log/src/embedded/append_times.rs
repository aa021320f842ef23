//! When recent offsets were appended, in memory: the watermark asks often.

use std::collections::VecDeque;

/// Most entries retained: a minute and more of one write each millisecond. Older times are read
/// from the files.
const ENTRIES_MAX: usize = 65_536;

/// Append times of the newest records. One write has one time, so an entry covers a run of offsets.
#[derive(Debug, Default)]
pub(super) struct AppendTimes {
    /// (first offset, appended at): the time holds up to the next entry's offset.
    runs: VecDeque<(u64, i64)>,
    end_offset: u64,
}

impl AppendTimes {
    /// Records `first..end_offset` were appended at `appended_at_ms`. Runs come in order, without
    /// gaps.
    pub(super) fn push(&mut self, first: u64, end_offset: u64, appended_at_ms: i64) {
        self.end_offset = end_offset;
        if self
            .runs
            .back()
            .is_some_and(|&(_, latest_ms)| latest_ms == appended_at_ms)
        {
            return;
        }
        if self.runs.len() == ENTRIES_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back((first, appended_at_ms));
    }

    /// When `offset` was appended, if that is known here.
    pub(super) fn of(&self, offset: u64) -> Option<i64> {
        let behind = self.runs.partition_point(|&(first, _)| first <= offset);
        (offset < self.end_offset).then_some(())?;
        Some(self.runs.get(behind.checked_sub(1)?)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_each_offset_of_its_runs_and_forgets_the_oldest() {
        let mut times = AppendTimes::default();
        assert_eq!(times.of(0), None);
        times.push(10, 12, 100);
        times.push(12, 13, 100);
        times.push(13, 20, 105);
        assert_eq!(
            [9, 10, 12, 13, 19, 20].map(|offset| times.of(offset)),
            [None, Some(100), Some(100), Some(105), Some(105), None]
        );
        for run in 0..ENTRIES_MAX as u64 {
            times.push(20 + run, 21 + run, 1000 + run.cast_signed());
        }
        assert_eq!(times.of(19), None);
        assert_eq!(times.of(20), Some(1000));
    }
}

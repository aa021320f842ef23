//! Consumer groups: who may commit, and how far each has come.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    error::GroupError,
    positions::{self, METADATA_BYTES_MAX, is_group_name},
};
use crate::traits::{Commit, CommitError, Committed};

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// Held while a commit is written: commits of a group come one after the other.
    turn: Mutex<()>,
    state: Mutex<GroupState>,
}

#[derive(Debug, Default)]
struct GroupState {
    /// Counts the group's consumers; only the latest one's commits are taken.
    generation: u64,
    committed: Option<Committed>,
    /// The append time of the first uncommitted record, once it had to be read from a file.
    first_uncommitted: Option<(u64, i64)>,
}

impl Group {
    fn new(name: String, committed: Option<Committed>) -> Arc<Self> {
        Arc::new(Self {
            name,
            turn: Mutex::new(()),
            state: Mutex::new(GroupState {
                committed,
                ..GroupState::default()
            }),
        })
    }

    pub(super) fn committed(&self) -> Option<Committed> {
        self.state.lock().committed.clone()
    }

    pub(super) fn next_offset(&self) -> Option<u64> {
        self.state.lock().committed.as_ref().map(|made| made.next_offset)
    }

    pub(super) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    pub(super) fn remembered_time(&self, offset: u64) -> Option<i64> {
        self.state
            .lock()
            .first_uncommitted
            .filter(|&(of, _)| of == offset)
            .map(|(_, appended_at_ms)| appended_at_ms)
    }

    pub(super) fn remember_time(&self, offset: u64, appended_at_ms: i64) {
        self.state.lock().first_uncommitted = Some((offset, appended_at_ms));
    }
}

/// Whether something was stored along with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitOutput {
    None,
    Stored,
}

/// All groups that ever had a consumer.
#[derive(Debug)]
pub(super) struct Groups {
    log_dir: PathBuf,
    epoch: u32,
    groups: Mutex<HashMap<String, Arc<Group>>>,
}

impl Groups {
    pub(super) fn new(log_dir: &Path, epoch: u32, groups: Vec<(String, Option<Committed>)>) -> Self {
        let groups = groups
            .into_iter()
            .map(|(name, committed)| (name.clone(), Group::new(name, committed)))
            .collect();
        Self {
            log_dir: log_dir.to_owned(),
            epoch,
            groups: Mutex::new(groups),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Group>> {
        self.groups.lock().get(name).cloned()
    }

    /// Gives the group a new consumer and fences the one before. Blocks on the disk for a new
    /// group, so that retention knows of it after a restart.
    pub(super) fn join(&self, name: &str) -> Result<(Arc<Group>, u64), GroupError> {
        if !is_group_name(name) {
            return Err(GroupError::Name(name.to_owned()));
        }
        let group = {
            let mut groups = self.groups.lock();
            if let Some(group) = groups.get(name) {
                Arc::clone(group)
            } else {
                positions::store(&self.log_dir, name, self.epoch, None)
                    .map_err(|error| GroupError::Unavailable(error.to_string()))?;
                let group = Group::new(name.to_owned(), None);
                groups.insert(name.to_owned(), Arc::clone(&group));
                group
            }
        };
        // A commit that is being written counts: the new consumer must start behind it.
        let turn = group.turn.lock();
        let generation = {
            let mut state = group.state.lock();
            state.generation += 1;
            state.generation
        };
        drop(turn);
        Ok((group, generation))
    }

    /// Forgets a group without consumers, so that retention doesn't wait for it. Blocks on the
    /// disk.
    pub(super) fn forget(&self, name: &str) -> Result<(), GroupError> {
        if !is_group_name(name) {
            return Err(GroupError::Name(name.to_owned()));
        }
        let mut groups = self.groups.lock();
        positions::remove(&self.log_dir, name).map_err(|error| GroupError::Unavailable(error.to_string()))?;
        groups.remove(name);
        Ok(())
    }

    /// Stores the commits of the consumer of `generation`, of which the last one counts, after
    /// `output` has stored what belongs to them. No commit is made in between and no consumer
    /// joins, so whoever is fenced stores no output. Blocks on the disk.
    ///
    /// Output that is stored counts as committed also if the position can't be written now: the
    /// next commit writes it, and after a crash the output itself says how far its processor was.
    pub(super) fn commit(
        &self,
        group: &Group,
        generation: u64,
        commits: Vec<Commit>,
        end_offset: impl Fn() -> Option<u64>,
        output: impl FnOnce() -> Result<CommitOutput, CommitError>,
    ) -> Result<(), CommitError> {
        let _turn = group.turn.lock();
        let (current, mut before) = {
            let state = group.state.lock();
            (
                state.generation,
                state.committed.as_ref().map_or(0, |made| made.next_offset),
            )
        };
        for commit in &commits {
            if generation != current {
                return Err(CommitError::Fenced(commit.partition));
            }
            self.check(commit, before, &end_offset)?;
            before = commit.next_offset;
        }
        let Some(last) = commits.into_iter().last() else {
            return Ok(());
        };
        let output = output()?;
        let committed = Committed {
            epoch: last.epoch,
            next_offset: last.next_offset,
            metadata: last.metadata,
        };
        match (
            positions::store(&self.log_dir, &group.name, self.epoch, Some(&committed)),
            output,
        ) {
            (Ok(()), _) => {}
            (Err(error), CommitOutput::Stored) => {
                let (group, next_offset) = (&group.name, committed.next_offset);
                tracing::warn!(%error, group, next_offset, "the output is stored, its position can't be written now");
            }
            (Err(error), CommitOutput::None) => return Err(CommitError::Unavailable(error.to_string())),
        }
        group.state.lock().committed = Some(committed);
        Ok(())
    }

    /// Checks a commit that follows one at `before`.
    fn check(&self, commit: &Commit, before: u64, end_offset: impl FnOnce() -> Option<u64>) -> Result<(), CommitError> {
        let &Commit {
            partition,
            epoch,
            next_offset,
            ..
        } = commit;
        if partition != 0 || epoch != self.epoch || next_offset < before {
            return Err(CommitError::Fenced(partition));
        }
        let bytes = commit.metadata.len();
        if bytes > METADATA_BYTES_MAX {
            let detail = format!("its metadata has {bytes} bytes, over the limit of {METADATA_BYTES_MAX}");
            return Err(CommitError::Invalid(detail));
        }
        match end_offset() {
            Some(end) if next_offset > end => {
                let detail = format!("offset {next_offset} is behind the log's end {end}");
                Err(CommitError::Unavailable(detail))
            }
            Some(_) => Ok(()),
            None => Err(CommitError::Unavailable("the log is closed".to_owned())),
        }
    }

    /// Tells `choose` up to where every known group has committed: what precedes it may be
    /// deleted. With no group known that is nothing: the first one may be on its way. No group
    /// joins meanwhile.
    pub(super) fn while_none_joins<T>(&self, choose: impl FnOnce(u64) -> T) -> T {
        let groups = self.groups.lock();
        choose(
            groups
                .values()
                .map(|group| group.next_offset().unwrap_or(0))
                .min()
                .unwrap_or(0),
        )
    }

    /// Waits until no commit is being written.
    pub(super) fn settle(&self) {
        let groups: Vec<_> = self.groups.lock().values().cloned().collect();
        for group in groups {
            drop(group.turn.lock());
        }
    }
}

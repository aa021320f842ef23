//! Content that a log must have, whatever has happened to it.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    embedded::{EmbeddedLog, reader::ReadCursor},
    record::{Record, RecordKind},
    traits::{Commit, Committed},
};

/// A record with a body that can't be compressed; few lengths, so that frames of different lives
/// often end at the same byte.
pub(in crate::embedded) fn record(number: usize, name: String) -> Record {
    let mut random = StdRng::seed_from_u64(number as u64);
    let bytes = [500, 500, 500, 500, 90, 6000][random.random_range(0..6)];
    let mut body = vec![0; bytes];
    random.fill(body.as_mut_slice());
    Record {
        kind: RecordKind::Receipt,
        body: body.into(),
        request_signature: None,
        request_id: name,
        received_at_ms: 0,
        client_address: None,
        trace: None,
    }
}

/// A log as its producers and consumers know it.
#[derive(Default)]
pub(super) struct Expected {
    pub(super) epoch: Option<u32>,
    /// Records that were acknowledged or found, by offset.
    pub(super) stored: Vec<Record>,
    /// Appends without an acknowledgement, each whole or not at all, in order behind what is
    /// stored. After a failed write others follow, which can take the same offsets: alternatives.
    pending: Vec<Vec<Vec<Record>>>,
    /// Commits that a group may have; `None` is none at all.
    commits: BTreeMap<&'static str, Vec<Option<Committed>>>,
}

impl Expected {
    pub(super) fn end(&self) -> u64 {
        self.stored.len() as u64
    }

    /// Records are handed over, as one append.
    pub(super) fn append(&mut self, records: Vec<Record>) {
        if self.pending.is_empty() {
            self.pending.push(Vec::new());
        }
        self.pending.last_mut().unwrap().push(records);
    }

    /// The oldest append is acknowledged.
    pub(super) fn acknowledge(&mut self) {
        let mut pending = self.pending.pop().unwrap();
        self.stored.extend(pending.remove(0));
        self.pending = vec![pending];
    }

    /// The pending appends are refused. They may be found, but nothing is before those that follow.
    pub(super) fn refuse(&mut self) {
        self.pending.push(Vec::new());
    }

    pub(super) fn join(&mut self, group: &'static str) {
        self.commits.entry(group).or_insert_with(|| vec![None]);
    }

    /// A commit begins.
    pub(super) fn commit(&mut self, group: &'static str, commit: &Commit) {
        let made = Committed {
            epoch: commit.epoch,
            next_offset: commit.next_offset,
            metadata: commit.metadata.clone(),
        };
        self.commits.get_mut(group).unwrap().push(Some(made));
    }

    /// The position that was acknowledged last.
    pub(super) fn next_offset(&self, group: &'static str) -> u64 {
        self.commits[group][0].as_ref().map_or(0, |made| made.next_offset)
    }

    /// The newest commit is acknowledged.
    pub(super) fn committed(&mut self, group: &'static str) {
        let possible = self.commits.get_mut(group).unwrap();
        possible.drain(..possible.len() - 1);
    }

    /// Compares a log that was opened, maybe after a crash, with this one. `failed` says whether
    /// operations of the disk have.
    pub(super) fn check(&mut self, log: &EmbeddedLog, failed: bool) {
        let shared = log.shared();
        if !self.stored.is_empty() {
            assert_eq!(
                self.epoch,
                Some(shared.epoch),
                "a new life begins although records are stored"
            );
        }
        self.epoch = Some(shared.epoch);
        let (begin, found) = read(log);
        let (before, behind) = found
            .split_at_checked(self.stored.len() - begin)
            .expect("acknowledged records are lost");
        assert!(before == &self.stored[begin..], "acknowledged records are others");
        let are_whole =
            |appends: &Vec<Vec<Record>>| (0..=appends.len()).any(|count| appends[..count].concat() == behind);
        let names = || {
            behind
                .iter()
                .map(|record| record.request_id.as_str())
                .collect::<Vec<_>>()
        };
        assert!(
            behind.is_empty() || self.pending.iter().any(are_whole),
            "no whole appends: {:?}",
            names()
        );
        self.stored.extend_from_slice(behind);
        self.pending.clear();
        for (&group, possible) in &mut self.commits {
            let found = shared
                .groups
                .get(group)
                .expect("a group that has joined is there")
                .committed();
            assert!(possible.contains(&found), "{group}: {found:?} is none of {possible:?}");
            let needed = found.as_ref().map_or(0, |made| made.next_offset);
            // Output that is stored counts as committed, also if its position can't be written.
            assert!(
                begin as u64 <= needed || failed,
                "{group} needs {needed}, {begin} is left"
            );
            *possible = vec![found];
        }
    }

    /// Compares a log that stays open with this one: it has what was acknowledged, nothing else.
    pub(super) fn check_open(&self, log: &EmbeddedLog) {
        let (begin, found) = read(log);
        assert!(
            found == self.stored[begin..],
            "an open log has other records than were acknowledged"
        );
    }
}

/// The first offset of a log and its records.
fn read(log: &EmbeddedLog) -> (usize, Vec<Record>) {
    let shared = log.shared();
    let (begin, end) = (shared.catalog.begin(), shared.end_offset());
    let mut next = begin;
    let mut found = Vec::new();
    while next < end {
        let read = shared
            .extent()
            .read(&mut ReadCursor::default(), next, usize::MAX, 1 << 20);
        for logged in read.expect("what is stored can be read") {
            assert_eq!(logged.position.offset, next);
            found.push(logged.record);
            next += 1;
        }
    }
    (usize::try_from(begin).unwrap(), found)
}

//! Queue of everything that isn't acknowledged yet.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::batch::{OpenBatch, SealedBatch, receipts_of};
use crate::counters::ClientCounters;
use crate::options::ClientOptions;
use crate::signer::{ReceiptSigner, SignedReceipt};
use crate::spool::{DamagedFile, LeftoverContent, Spool, SpoolJournal, delete};

/// Beyond this many bytes of receipts that aren't sealed, a disk or key is slower than its callers,
/// and they wait.
const UNSEALED_BYTES_MAX: usize = 64 << 20;
/// Bytes of stored batches that are in memory, too: what somebody removes from the spool is sent
/// all the same.
const CACHED_BYTES_MAX: usize = 64 << 20;

/// Why receipts aren't queued.
#[derive(Debug)]
pub(crate) enum PutError {
    Full,
    Closed,
    Spool(io::Error),
}

/// Next step of a delivery task.
pub(crate) enum DeliveryStep {
    Seal(OpenBatch),
    Send(SealedBatch),
    /// Until an instant, or a change.
    Wait(Option<Instant>),
    End,
}

/// Caller that waits until everything put before is on the disk.
type SyncWaiter = oneshot::Sender<Result<(), String>>;

/// Everything that isn't acknowledged: bounded, and in one queue.
pub(crate) struct DeliveryQueue {
    options: ClientOptions,
    spool: Option<Arc<Spool>>,
    open: Option<OpenBatch>,
    full: VecDeque<OpenBatch>,
    sealed: VecDeque<SealedBatch>,
    /// Batches in requests without an answer yet.
    sending: Vec<SealedBatch>,
    /// Bytes of stored batches that are in memory, too.
    cached_bytes: usize,
    /// Files of a list whose batch couldn't be stored, by its sequence number. They are deleted
    /// when its last batch ends.
    backing: BTreeMap<u64, Vec<PathBuf>>,
    /// Unfinished batches by the sequence number of the list that they were sealed from.
    pending: BTreeMap<u64, usize>,
    sequence: u64,
    dirty: Vec<Arc<SpoolJournal>>,
    sync_waiters: Vec<SyncWaiter>,
    is_closed: bool,
    /// Failed requests since the last one with an answer.
    failures: u32,
    /// Before this instant nothing is sent: what failed for one batch would fail for all.
    held_until: Instant,
    receipts: usize,
    bytes: usize,
    counters: ClientCounters,
}

impl DeliveryQueue {
    pub(crate) fn new(options: ClientOptions, spool: Option<Arc<Spool>>) -> Self {
        Self {
            options,
            spool,
            open: None,
            full: VecDeque::new(),
            sealed: VecDeque::new(),
            sending: Vec::new(),
            cached_bytes: 0,
            backing: BTreeMap::new(),
            pending: BTreeMap::new(),
            sequence: 0,
            dirty: Vec::new(),
            sync_waiters: Vec::new(),
            is_closed: false,
            failures: 0,
            held_until: Instant::now(),
            receipts: 0,
            bytes: 0,
            counters: ClientCounters::default(),
        }
    }

    /// Takes over what ended processes left in the spool, and returns what can't be read of it.
    /// Receipts of journals were never sent, so those of an earlier key are signed again. Blocks.
    pub(crate) fn adopt(&mut self, signer: &ReceiptSigner) -> io::Result<Vec<DamagedFile>> {
        let Some(spool) = self.spool.clone() else {
            return Ok(Vec::new());
        };
        let mut damages = Vec::new();
        for name in spool.adopt()? {
            let left = spool.leftover(&name)?;
            damages.extend(left.damage);
            match left.content {
                None => {}
                Some(LeftoverContent::Batch(body)) => {
                    let batch = SealedBatch {
                        sequence: self.next_sequence(),
                        name,
                        receipts: receipts_of(&body).len(),
                        bytes: body.len(),
                        body: None,
                        is_stored: true,
                        attempts: 0,
                        not_before: Instant::now(),
                    };
                    self.receipts += batch.receipts;
                    self.bytes += batch.bytes;
                    self.sealed.push_back(batch);
                }
                Some(LeftoverContent::Receipts(journal, receipts)) => {
                    let mut open = OpenBatch::new(self.next_sequence());
                    for receipt in receipts {
                        let ours = signer.with_this_key(receipt).map_err(io::Error::other)?;
                        open.extend(std::iter::once(ours));
                    }
                    (open.journal, open.name) = (Some(journal), name);
                    self.receipts += open.receipts.len();
                    self.bytes += open.bytes;
                    self.full.push_back(open);
                }
            }
        }
        Ok(damages)
    }

    /// Queues all of `receipts` if there is room for them. After an error of the spool, a part of
    /// them may be queued. Returns whether a delivery task has something new to do.
    pub(crate) fn put(&mut self, receipts: &[SignedReceipt]) -> Result<bool, PutError> {
        if self.is_closed {
            return Err(PutError::Closed);
        }
        let bytes: usize = receipts.iter().map(|receipt| receipt.json.len() + 1).sum();
        if self.receipts + receipts.len() > self.options.queue_receipts_max
            || self.bytes + bytes > self.options.queue_bytes_max
            || self.unsealed_bytes() > UNSEALED_BYTES_MAX
        {
            return Err(PutError::Full);
        }
        let mut rest = receipts;
        let mut is_new = false;
        while !rest.is_empty() {
            is_new |= self.open.is_none();
            let mut open = match self.open.take() {
                Some(open) => open,
                None => self.new_batch().map_err(PutError::Spool)?,
            };
            let (now, later) = rest.split_at(self.fitting(&open, rest));
            if let Err(error) = self.write(&mut open, now) {
                self.abandon(open);
                return Err(PutError::Spool(error));
            }
            if let Some(journal) = &open.journal
                && !self.dirty.iter().any(|dirty| Arc::ptr_eq(dirty, journal))
            {
                self.dirty.push(Arc::clone(journal));
            }
            let bytes_before = open.bytes;
            open.extend(now.iter().map(|receipt| receipt.json.clone()));
            self.receipts += now.len();
            self.bytes += open.bytes - bytes_before;
            let is_full = !later.is_empty() || open.receipts.len() >= self.options.batch_receipts_max;
            self.open = Some(open);
            if is_full {
                self.fill();
                is_new = true;
            }
            rest = later;
        }
        Ok(is_new)
    }

    /// Appends receipts to the journal of a batch. One that somebody removed is written again.
    fn write(&self, open: &mut OpenBatch, receipts: &[SignedReceipt]) -> io::Result<()> {
        let (Some(journal), Some(spool)) = (&open.journal, &self.spool) else {
            return Ok(());
        };
        let new = receipts.iter().map(|receipt| &receipt.json);
        match journal.append(new.clone()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => return written,
        }
        let journal = spool.new_journal(&open.name)?;
        journal
            .append(open.receipts.iter().chain(new))
            .inspect_err(|_| journal.delete())?;
        open.journal = Some(journal);
        Ok(())
    }

    /// Bytes of receipts in memory, spool or not.
    fn unsealed_bytes(&self) -> usize {
        self.full.iter().chain(&self.open).map(|open| open.bytes).sum()
    }

    /// Number of receipts that fit into an open batch; at least one into an empty one.
    fn fitting(&self, open: &OpenBatch, receipts: &[SignedReceipt]) -> usize {
        let count_max = self.options.batch_receipts_max - open.receipts.len();
        let mut bytes = open.bytes;
        let fitting = receipts.iter().take(count_max).take_while(|receipt| {
            bytes += receipt.json.len() + 1;
            bytes <= self.options.batch_bytes_max
        });
        let fitting = fitting.count();
        if open.receipts.is_empty() {
            fitting.max(1)
        } else {
            fitting
        }
    }

    fn new_batch(&mut self) -> io::Result<OpenBatch> {
        let mut open = OpenBatch::new(0);
        if let Some(spool) = &self.spool {
            open.journal = Some(spool.new_journal(&open.name)?);
        }
        open.sequence = self.next_sequence();
        Ok(open)
    }

    /// Ends a batch whose journal failed. What it has is sent.
    fn abandon(&mut self, open: OpenBatch) {
        if open.receipts.is_empty() {
            if let Some(journal) = &open.journal {
                journal.delete();
            }
            self.finish(open.sequence);
        } else {
            self.full.push_back(open);
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.pending.insert(self.sequence, 1);
        self.sequence
    }

    fn finish(&mut self, sequence: u64) {
        if let Some(unfinished) = self.pending.get_mut(&sequence) {
            *unfinished -= 1;
            if *unfinished == 0 {
                self.pending.remove(&sequence);
                // Before anybody learns that everything is finished. There are such files only
                // after a failure of the spool.
                for file in self.backing.remove(&sequence).unwrap_or_default() {
                    delete(&file);
                }
            }
        }
    }

    /// Ends the open batch. Returns the last sequence number: once everything up to it is finished,
    /// nothing that was put before is unfinished.
    pub(crate) fn fill(&mut self) -> u64 {
        self.full.extend(self.open.take());
        self.sequence
    }

    /// Whether everything up to `sequence` has its final answer.
    pub(crate) fn is_finished(&self, sequence: u64) -> bool {
        self.pending.keys().next().is_none_or(|&first| first > sequence)
    }

    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes what is due.
    pub(crate) fn next_step(&mut self, now: Instant) -> DeliveryStep {
        if self.is_closed {
            return DeliveryStep::End;
        }
        let delay = self.options.batch_delay;
        if self.open.as_ref().is_some_and(|open| now >= open.opened + delay) {
            self.fill();
        }
        let due = self.full.iter().position(|open| open.not_before <= now);
        if let Some(open) = due.and_then(|index| self.full.remove(index)) {
            return DeliveryStep::Seal(open);
        }
        let held_until = self.held_until;
        let due = self
            .sealed
            .iter()
            .position(|batch| batch.not_before.max(held_until) <= now);
        if let Some(batch) = due.and_then(|index| self.sealed.remove(index)) {
            self.counters.in_flight += batch.receipts;
            self.sending.push(batch.clone());
            return DeliveryStep::Send(batch);
        }
        let later = self.full.iter().map(|open| open.not_before);
        let later = later.chain(self.sealed.iter().map(|batch| batch.not_before.max(held_until)));
        DeliveryStep::Wait(later.chain(self.open.iter().map(|open| open.opened + delay)).min())
    }

    /// Puts a batch back that couldn't be sealed.
    pub(crate) fn seal_again(&mut self, open: OpenBatch) {
        self.full.push_back(open);
    }

    /// Replaces an open batch by what it was sealed to.
    pub(crate) fn sealed(&mut self, open: &OpenBatch, batch: SealedBatch) {
        self.bytes = self.bytes - open.bytes + batch.bytes;
        if !batch.is_stored {
            let journal = open.journal.iter().map(|journal| journal.path().to_owned());
            self.backing.entry(open.sequence).or_default().extend(journal);
        }
        let batch = self.cached(batch);
        self.sealed.push_back(batch);
    }

    /// Drops the body of a stored batch from memory if there is no room for it.
    fn cached(&mut self, mut batch: SealedBatch) -> SealedBatch {
        if batch.is_stored && self.cached_bytes + batch.bytes > CACHED_BYTES_MAX {
            batch.body = None;
        }
        self.cached_bytes += cached_bytes(&batch);
        batch
    }

    /// Puts a batch back that isn't acknowledged.
    pub(crate) fn send_again(&mut self, batch: SealedBatch, is_retry: bool) {
        self.sent(&batch);
        self.counters.retries += u64::from(is_retry);
        self.sealed.push_back(batch);
    }

    /// Ends the request of a batch.
    fn sent(&mut self, batch: &SealedBatch) {
        self.sending.retain(|sending| sending.name != batch.name);
        self.counters.in_flight -= batch.receipts;
    }

    /// Holds all batches back after a failed request, for as long as the server requests and a
    /// random pause that grows with each failure.
    pub(crate) fn hold(&mut self, requested: Duration) {
        self.failures = self.failures.saturating_add(1);
        let pause = requested + self.options.retry_pauses.after(self.failures);
        self.held_until = self.held_until.max(Instant::now() + pause);
    }

    /// Removes a batch whose receipts are acknowledged, refused, or in `parts`.
    pub(crate) fn end(&mut self, batch: &SealedBatch, is_acknowledged: bool, parts: Vec<SealedBatch>) {
        if let Some(spool) = self.spool.as_ref().filter(|_| batch.is_stored)
            && !parts.iter().all(|part| part.is_stored)
        {
            let file = spool.batch_file(&batch.name);
            self.backing.entry(batch.sequence).or_default().push(file);
        }
        for part in parts.into_iter().rev() {
            let part = self.cached(part);
            self.receipts += part.receipts;
            self.bytes += part.bytes;
            *self.pending.entry(batch.sequence).or_default() += 1;
            self.sealed.push_front(part);
        }
        self.failures = 0;
        self.sent(batch);
        self.cached_bytes -= cached_bytes(batch);
        self.receipts -= batch.receipts;
        self.bytes -= batch.bytes;
        if is_acknowledged {
            self.counters.acknowledged += batch.receipts as u64;
            self.counters.batches_acknowledged += 1;
        }
        self.finish(batch.sequence);
    }

    pub(crate) fn count_refused(&mut self, receipts: usize) {
        self.counters.refused += receipts as u64;
    }

    pub(crate) fn count_damaged(&mut self, receipts: usize) {
        self.counters.damaged += receipts as u64;
    }

    /// Removes what isn't acknowledged and in no file, and returns it, after all tasks have ended.
    /// Receipts in files stay queued.
    pub(crate) fn abandon_unstored(&mut self) -> Vec<Bytes> {
        self.counters.in_flight = 0;
        self.fill();
        self.sealed.extend(std::mem::take(&mut self.sending));
        let mut lost = Vec::new();
        for open in std::mem::take(&mut self.full) {
            let is_stored = |journal: &Arc<SpoolJournal>| journal.is_removed().is_ok_and(|is_removed| !is_removed);
            if open.journal.as_ref().is_some_and(is_stored) {
                self.full.push_back(open);
                continue;
            }
            self.receipts -= open.receipts.len();
            self.bytes -= open.bytes;
            self.finish(open.sequence);
            lost.extend(open.receipts);
        }
        for batch in std::mem::take(&mut self.sealed) {
            let is_backed = |files: &Vec<PathBuf>| files.iter().any(|file| file.exists());
            let spool = self.spool.as_ref().filter(|_| batch.is_stored);
            if spool.is_some_and(|spool| spool.has(&batch.name))
                || self.backing.get(&batch.sequence).is_some_and(is_backed)
            {
                self.sealed.push_back(batch);
                continue;
            }
            self.receipts -= batch.receipts;
            self.bytes -= batch.bytes;
            self.cached_bytes -= cached_bytes(&batch);
            self.finish(batch.sequence);
            lost.extend(
                batch
                    .body
                    .as_ref()
                    .map_or_else(|| vec![Bytes::new(); batch.receipts], receipts_of),
            );
        }
        lost
    }

    /// Registers one who waits for the next flush. After the end there is none.
    pub(crate) fn await_sync(&mut self, waiter: SyncWaiter) {
        if !self.is_closed {
            self.sync_waiters.push(waiter);
        }
    }

    /// Takes the journals to flush to the disk, and who waits for that.
    pub(crate) fn take_unsynced(&mut self) -> (Vec<Arc<SpoolJournal>>, Vec<SyncWaiter>) {
        (std::mem::take(&mut self.dirty), std::mem::take(&mut self.sync_waiters))
    }

    /// Ends the open batch if its journal is one of those that couldn't be flushed: sealing stores
    /// its receipts in another file.
    pub(crate) fn leave_journals(&mut self, failed: &[Arc<SpoolJournal>]) {
        let journal = self.open.as_ref().and_then(|open| open.journal.as_ref());
        if journal.is_some_and(|journal| failed.iter().any(|failed| Arc::ptr_eq(failed, journal))) {
            self.fill();
        }
    }

    pub(crate) fn counters(&self) -> ClientCounters {
        ClientCounters {
            queued: self.receipts - self.counters.in_flight,
            queued_bytes: self.bytes,
            spooled_batches: self.sealed.iter().filter(|batch| batch.is_stored).count(),
            ..self.counters
        }
    }
}

/// Bytes of a stored batch that are in memory, too.
fn cached_bytes(batch: &SealedBatch) -> usize {
    batch.body.as_ref().filter(|_| batch.is_stored).map_or(0, Bytes::len)
}

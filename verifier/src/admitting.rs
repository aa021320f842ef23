//! The policy's step between judging and writing: every record of a block gets its [mark](Mark), and receipts that the marks' terms
//! refuse are rejected.
//!
//! The account store takes the mark before anything of the block is written, and the first mark of a record stays. So a block that is
//! judged again, after a crash, cut otherwise, by another verifier or beside a frozen one, comes out the same, whatever was
//! registered, revoked, created or configured in between. While the store is away the verifier waits.
//!
//! With the open policy nobody is asked. What is left is a change of `[policy]` between two runs:
//! - *from the open policy*: an owner before may have written records without marking them. They are in the log when the partition is
//!   taken, and next in it, so the first unmarked blocks are doubted, until there is one of which no row stands: records of which one
//!   does are marked as judged without a policy.
//! - *to the open policy*: marks beyond the commit are kept to. While the account store is away that waits only if rows that a policy
//!   refused stand beyond the commit: otherwise all of those records are accepted either way.
//!
//! Left over is a frozen verifier of the open policy that writes on after its successor's commit under another: the audit names the
//! position (`in_both`).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountsError, Mark, Stretch, Terms};
use parking_lot::Mutex;
use receipt::Judge;
use receipt_log::{Assignment, LogInspector, ReceiptPosition};
use service::cpu::CpuPool;
use thiserror::Error;
use tracing::warn;
use uuid::Uuid;
use warehouse::REFUSED_BY_POLICY;

use crate::GROUP;
use crate::block::Block;
use crate::judging::{Fact, Facts, JudgedBlock, Letters};
use crate::pipeline::VerifierError;
use crate::policy::{Asked, PolicyBook};
use crate::refusing::{Refused, TurnError, Turned, turn};
use crate::rows::Source;
use crate::writing::{Stopped, Writer, ends};

/// What fails, for readiness.
const PART: &str = "policy marks";
/// How long the open policy's verifier waits for the account store where it can do without.
const GLANCE: Duration = Duration::from_secs(1);

/// The step. Clones share what is watched.
#[derive(Clone)]
pub struct Admission {
    /// Who is asked; nobody, where there is no account store.
    pub book: Option<PolicyBook>,
    /// How far the log goes.
    pub log: Arc<dyn LogInspector>,
    /// Tries again, and judges refused receipts again.
    pub writer: Writer,
    /// What to look out for, by partition.
    pub watched: Arc<Mutex<HashMap<u32, Watched>>>,
}

/// What to look out for in a partition, because of how it was judged before it was ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watched {
    /// Records before this offset may be marked.
    marked_until: u64,
    /// Rows of records that aren't, before this offset, may have been written.
    doubted_until: u64,
}

/// Why partitions can't be taken on.
pub enum NotTaken {
    /// The verifier is stopping.
    Stopped,
    /// No pause cures it.
    Failed(VerifierError),
}

impl From<Stopped> for NotTaken {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

/// Why a block couldn't be judged as it was marked.
#[derive(Debug, Error)]
pub enum ReadmitError {
    /// The account store fails.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// Refused receipts couldn't be made rejected ones.
    #[error(transparent)]
    Turn(#[from] TurnError),
}

impl Admission {
    /// Looks how newly assigned partitions were judged before.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub async fn take(&self, assigned: &[Assignment]) -> Result<(), NotTaken> {
        if assigned.is_empty() {
            return Ok(());
        }
        let watched = match &self.book {
            Some(book) if !book.policy.is_open() => self.doubted(book, assigned).await?,
            book => self.marked(book.as_ref(), assigned).await?,
        };
        let mut all = self.watched.lock();
        for (assignment, watched) in assigned.iter().zip(watched) {
            all.insert(assignment.partition, watched);
        }
        Ok(())
    }

    /// Whether this block is to be admitted, and so what judging it is to keep.
    #[must_use]
    pub fn facts(&self, block: &Block) -> Facts {
        let Some(book) = &self.book else { return Facts::Drop };
        let watched = self.watched.lock();
        let marked = |partition: &u32| watched.get(partition).map_or(0, |watched| watched.marked_until);
        let mut positions = block.records.iter().map(|logged| logged.position);
        if !book.policy.is_open() || positions.any(|position| position.offset < marked(&position.partition)) {
            Facts::Keep
        } else {
            Facts::Drop
        }
    }

    /// Marks the block's records, and rejects what the marks' terms refuse.
    ///
    /// # Errors
    /// [`Stopped`] only.
    pub async fn admit(&self, block: &mut JudgedBlock) -> Result<(), Stopped> {
        let Some(book) = &self.book else { return Ok(()) };
        let facts = std::mem::take(&mut block.facts);
        let stretches = self.stretches(block, &facts).await?;
        let mark = || book.accounts.mark(&stretches, book.policy);
        let marks = self.writer.insist(PART, mark).await?;
        let rule = || refused(book, &marks, block, &facts);
        let refused = self.writer.insist(PART, rule).await?;
        if !refused.is_empty() {
            let turned = self.writer.turn(block, refused).await?;
            move_over(block, turned);
        }
        Ok(())
    }

    /// Under a policy: what the log holds by now and isn't marked is doubted.
    async fn doubted(&self, book: &PolicyBook, assigned: &[Assignment]) -> Result<Vec<Watched>, Stopped> {
        let look = || self.log.partitions(GROUP);
        let states = self.writer.insist(PART, look).await?;
        let mut all = Vec::with_capacity(assigned.len());
        for assignment in assigned {
            let Assignment { epoch, partition, .. } = *assignment;
            let marked = || book.accounts.marked_until(epoch, partition);
            let mut watched = Watched {
                marked_until: self.writer.insist(PART, marked).await?,
                doubted_until: 0,
            };
            let state = states
                .iter()
                .find(|state| (state.epoch, state.partition) == (epoch, partition));
            if let Some(state) = state {
                watched.doubted_until = state.end_offset;
                forget(book, epoch, partition, state.begin_offset).await;
            }
            all.push(watched);
        }
        Ok(all)
    }

    /// Under the open policy: whether an owner before had another, and wrote what it didn't commit.
    async fn marked(&self, book: Option<&PolicyBook>, assigned: &[Assignment]) -> Result<Vec<Watched>, NotTaken> {
        let ends = ends(assigned);
        let look = || self.writer.warehouse.refused_above(&ends, &REFUSED_BY_POLICY, 1);
        let above = self.writer.insist(PART, look).await?;
        let mut all = vec![Watched::default(); assigned.len()];
        let book = match (book, above.is_empty()) {
            (Some(book), _) => book,
            (None, true) => return Ok(all),
            (None, false) => return Err(NotTaken::Failed(VerifierError::PolicyForgotten)),
        };
        for (assignment, watched) in assigned.iter().zip(&mut all) {
            let marked = || book.accounts.marked_until(assignment.epoch, assignment.partition);
            watched.marked_until = if above.is_empty() {
                let Ok(Ok(marked_until)) = tokio::time::timeout(GLANCE, marked()).await else {
                    warn!("the account store is away; the policy is open, and the verifier goes on without it");
                    break;
                };
                marked_until
            } else {
                self.writer.insist(PART, marked).await?
            };
        }
        Ok(all)
    }

    /// The block's records as they are to be marked.
    async fn stretches(&self, block: &JudgedBlock, facts: &[Fact]) -> Result<Vec<Stretch>, Stopped> {
        let watched = self.watched.lock().clone();
        let doubted = facts.iter().filter_map(|fact| {
            let record = block.block.records[fact.source.record as usize].position;
            let watched = watched.get(&record.partition)?;
            let doubted = (watched.marked_until..watched.doubted_until).contains(&record.offset);
            doubted.then(|| (fact.receipt_id, record.receipt(fact.source.index)))
        });
        let doubted: Vec<(Uuid, u128)> = doubted.collect();
        let mut standing = BTreeSet::new();
        if !doubted.is_empty() {
            let look = || self.writer.warehouse.standing_positions(&doubted);
            let positions = self.writer.insist("receipts", look).await?;
            standing.extend(positions.into_iter().map(|position| position >> 16));
            self.believe(&watched, &doubted, &standing);
        }
        let stretches = block.lines.iter().map(|line| {
            let partition = (u128::from(line.epoch) << 80) | (u128::from(line.partition) << 48);
            let records = partition | u128::from(line.first_offset)..=partition | u128::from(line.last_offset);
            Stretch {
                epoch: line.epoch,
                partition: line.partition,
                first_offset: line.first_offset,
                last_offset: line.last_offset,
                open: standing
                    .range(records)
                    .map(|record| u64::try_from(record - partition).unwrap_or(u64::MAX))
                    .collect(),
            }
        });
        Ok(stretches.collect())
    }

    /// Doubts no more about partitions of which some record was looked for and none stands: blocks are written in order.
    fn believe(&self, watched: &HashMap<u32, Watched>, doubted: &[(Uuid, u128)], standing: &BTreeSet<u128>) {
        let partition = |position: u128| ReceiptPosition::from(position).record.partition;
        let standing: HashSet<u32> = standing.iter().map(|record| partition(record << 16)).collect();
        let looked: HashSet<u32> = doubted.iter().map(|(_, position)| partition(*position)).collect();
        let mut all = self.watched.lock();
        for number in looked.difference(&standing) {
            // Taken anew meanwhile: then this block isn't what is looked at.
            if let Some(now) = all.get_mut(number).filter(|now| watched.get(number) == Some(now)) {
                now.doubted_until = 0;
            }
        }
    }
}

/// Judges a block as it was marked before, for what must be judged again long after: records without a mark were judged without a
/// policy.
///
/// # Errors
/// [`ReadmitError`].
pub async fn readmit(
    book: &PolicyBook,
    cpu: &CpuPool,
    judge: &Arc<Judge>,
    block: &mut JudgedBlock,
) -> Result<(), ReadmitError> {
    let facts = std::mem::take(&mut block.facts);
    let mut marks = Vec::new();
    for line in &block.lines {
        let of_line = book
            .accounts
            .marks(line.epoch, line.partition, line.first_offset, line.last_offset);
        marks.extend(of_line.await?);
    }
    let refused = refused(book, &marks, block, &facts).await?;
    if !refused.is_empty() {
        let turned = turn(cpu, judge, block, refused, Letters::Drop).await?;
        move_over(block, turned);
    }
    Ok(())
}

/// What the marks' terms refuse of a block.
async fn refused(
    book: &PolicyBook,
    marks: &[Mark],
    block: &JudgedBlock,
    facts: &[Fact],
) -> Result<Vec<Refused>, AccountsError> {
    // Few: a block has a mark more only where something was changed while its records came.
    let mut by_terms: Vec<(Terms, Vec<(Source, Asked)>)> = Vec::new();
    for fact in facts {
        let logged = &block.block.records[fact.source.record as usize];
        let position = logged.position;
        let covers = |mark: &&Mark| {
            (mark.epoch, mark.partition) == (position.epoch, position.partition)
                && (mark.first_offset..=mark.last_offset).contains(&position.offset)
        };
        let Some(mark) = marks.iter().find(covers).filter(|mark| !mark.terms.policy.is_open()) else {
            continue;
        };
        let asked = Asked {
            client_key: fact.client_key,
            entry_id: fact.entry_id,
            received_at_ms: logged.record.received_at_ms,
        };
        match by_terms.iter_mut().find(|(terms, _)| *terms == mark.terms) {
            Some((_, of_terms)) => of_terms.push((fact.source, asked)),
            None => by_terms.push((mark.terms, vec![(fact.source, asked)])),
        }
    }
    let mut refused = Vec::new();
    for (terms, of_terms) in by_terms {
        let (sources, asked): (Vec<Source>, Vec<Asked>) = of_terms.into_iter().unzip();
        let rulings = book.rule(&terms, &asked).await?;
        let rulings = sources.into_iter().zip(rulings);
        refused.extend(rulings.filter_map(|(source, ruling)| ruling.map(|refusal| Refused { source, refusal })));
    }
    Ok(refused)
}

/// Takes refused receipts from the accepted to the rejected rows.
fn move_over(block: &mut JudgedBlock, turned: Vec<Turned>) {
    let sources: HashSet<Source> = turned.iter().map(|one| one.source).collect();
    block.receipts = block.receipts.retained(|source| !sources.contains(&source));
    let rows = block.reject(turned);
    block.rejected.append(rows);
}

/// Marks that nothing can be judged under any more go. That it fails hurts nobody: they go the next time.
async fn forget(book: &PolicyBook, epoch: u32, partition: u32, begin_offset: u64) {
    let forget = async {
        book.accounts.forget_marks(epoch, partition, begin_offset).await?;
        book.accounts.forget_entries().await
    };
    if let Err(error) = forget.await {
        warn!(partition, %error, "marks of records that the log no longer holds can't be removed now");
    }
}

//! Marks: under which terms each record of the log is judged. Whoever marks a record first decides for good, so a block that is
//! judged again, after a crash, in other pieces or by another verifier, comes out the same whatever was changed in between.
//!
//! Neighbouring marks of equal terms are one row that grows: there are as many rows as changes, not as blocks.

use std::ops::Range;

use sqlx::any::AnyRow;
use sqlx::{Any, Row, Transaction};

use super::versions::{Subject, current};
use super::{ClientPolicy, EntryPolicy, Policy, Terms};
use crate::{Accounts, AccountsError};

/// Records of one partition without a gap between them, to be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The epoch of the log.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first of them.
    pub first_offset: u64,
    /// The last of them.
    pub last_offset: u64,
    /// Those of them, in order, that were judged without a policy before.
    pub open: Vec<u64>,
}

/// Records of one partition that are judged under the same terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The epoch of the log.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first of them.
    pub first_offset: u64,
    /// The last of them.
    pub last_offset: u64,
    /// The terms.
    pub terms: Terms,
}

/// A run of offsets under the same terms, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: i64,
    end: i64,
    terms: Terms,
}

impl Accounts {
    /// Marks all records of `stretches`, and returns their marks in order: those of records that were marked before, and for the others
    /// `policy` and the present state of what it asks.
    ///
    /// # Errors
    /// The store fails; nothing is marked then.
    pub async fn mark(&self, stretches: &[Stretch], policy: Policy) -> Result<Vec<Mark>, AccountsError> {
        // In order, so that two verifiers never wait for each other in a circle.
        let mut stretches: Vec<&Stretch> = stretches.iter().collect();
        stretches.sort_by_key(|stretch| (stretch.epoch, stretch.partition, stretch.first_offset));
        let work = async {
            let mut transaction = self.begin().await?;
            let mut terms = None;
            let mut marks = Vec::new();
            let mut held = None;
            for stretch in stretches {
                let log = (stretch.epoch, stretch.partition);
                if held != Some(log) {
                    hold(&mut transaction, log).await?;
                    held = Some(log);
                }
                let span = offset(stretch.first_offset)..offset(stretch.last_offset).saturating_add(1);
                let mut runs = stored(&mut transaction, log, &span).await?;
                for gap in gaps(&runs, &span) {
                    // Read under the partition's lock: whoever comes later finds these marks or makes newer ones.
                    let present = match terms {
                        Some(terms) => terms,
                        None => *terms.insert(present(&mut transaction, policy).await?),
                    };
                    for run in cut(&gap, &stretch.open, present) {
                        store(&mut transaction, log, run).await?;
                        runs.push(run);
                    }
                }
                runs.sort_by_key(|run| run.first);
                marks.extend(runs.iter().filter_map(|run| run.within(log, &span)));
            }
            transaction.commit().await?;
            Ok(marks)
        };
        self.timed("policy_mark", work).await
    }

    /// The marks of a partition's records from `first_offset` to `last_offset`, in order. Records without one were judged without a
    /// policy.
    ///
    /// # Errors
    /// The store fails.
    pub async fn marks(
        &self,
        epoch: u32,
        partition: u32,
        first_offset: u64,
        last_offset: u64,
    ) -> Result<Vec<Mark>, AccountsError> {
        let (log, span) = (
            (epoch, partition),
            offset(first_offset)..offset(last_offset).saturating_add(1),
        );
        let work = async {
            let mut transaction = self.pool.begin().await?;
            let runs = stored(&mut transaction, log, &span).await?;
            Ok(runs.iter().filter_map(|run| run.within(log, &span)).collect())
        };
        self.timed("policy_marks", work).await
    }

    /// One past the last marked record of a partition; 0 if none is.
    ///
    /// # Errors
    /// The store fails.
    pub async fn marked_until(&self, epoch: u32, partition: u32) -> Result<u64, AccountsError> {
        let question = "SELECT end_offset FROM policy_marks WHERE epoch = $1 AND log_partition = $2
            ORDER BY first_offset DESC LIMIT 1";
        let question = sqlx::query(question).bind(i64::from(epoch)).bind(i64::from(partition));
        let work = async { Ok(question.fetch_optional(&self.pool).await?) };
        let row = self.timed("policy_marked_until", work).await?;
        Ok(row.map_or(Ok(0), |row| row.try_get::<i64, _>(0).map(i64::cast_unsigned))?)
    }

    /// `policy` with the present state of what it asks.
    ///
    /// # Errors
    /// The store fails.
    pub async fn present_terms(&self, policy: Policy) -> Result<Terms, AccountsError> {
        let work = async {
            let mut transaction = self.pool.begin().await?;
            present(&mut transaction, policy).await
        };
        self.timed("policy_terms", work).await
    }

    /// Forgets marks that nothing can be judged under any more: of records before `begin_offset`, where the partition's log begins, and
    /// of earlier logs.
    ///
    /// # Errors
    /// The store fails.
    pub async fn forget_marks(&self, epoch: u32, partition: u32, begin_offset: u64) -> Result<u64, AccountsError> {
        let delete = "DELETE FROM policy_marks
            WHERE log_partition = $1 AND (epoch < $2 OR (epoch = $2 AND end_offset <= $3))";
        let delete = sqlx::query(delete).bind(i64::from(partition)).bind(i64::from(epoch));
        let delete = delete.bind(offset(begin_offset));
        let work = async { Ok(delete.execute(&self.pool).await?) };
        Ok(self.timed("policy_forget", work).await?.rows_affected())
    }
}

impl Run {
    /// The part of it within `span`.
    fn within(&self, (epoch, partition): (u32, u32), span: &Range<i64>) -> Option<Mark> {
        let (first, end) = (self.first.max(span.start), self.end.min(span.end));
        (first < end).then(|| Mark {
            epoch,
            partition,
            first_offset: first.cast_unsigned(),
            last_offset: (end - 1).cast_unsigned(),
            terms: self.terms,
        })
    }
}

/// Offsets have 48 bits.
fn offset(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

async fn present(transaction: &mut Transaction<'static, Any>, policy: Policy) -> Result<Terms, AccountsError> {
    Ok(Terms {
        policy,
        client_version: match policy.clients {
            ClientPolicy::Open => 0,
            ClientPolicy::Registered => current(transaction, Subject::Clients).await?,
        },
        entry_version: match policy.entries {
            EntryPolicy::Counted => 0,
            EntryPolicy::Required => current(transaction, Subject::Entries).await?,
        },
    })
}

/// Whoever else marks records of the partition waits for this transaction's end.
async fn hold(
    transaction: &mut Transaction<'static, Any>,
    (epoch, partition): (u32, u32),
) -> Result<(), AccountsError> {
    let hold = "UPDATE policy_partitions SET epoch = epoch WHERE epoch = $1 AND log_partition = $2";
    let insert = "INSERT INTO policy_partitions (epoch, log_partition) VALUES ($1, $2)
        ON CONFLICT (epoch, log_partition) DO NOTHING";
    for statement in [hold, insert, hold] {
        let done = sqlx::query(statement)
            .bind(i64::from(epoch))
            .bind(i64::from(partition))
            .execute(&mut **transaction)
            .await?;
        if statement == hold && done.rows_affected() > 0 {
            break;
        }
    }
    Ok(())
}

/// The runs that have a part in `span`, in order.
async fn stored(
    transaction: &mut Transaction<'static, Any>,
    (epoch, partition): (u32, u32),
    span: &Range<i64>,
) -> Result<Vec<Run>, AccountsError> {
    let question = "SELECT first_offset, end_offset, clients, entries, client_version, entry_version FROM policy_marks
        WHERE epoch = $1 AND log_partition = $2 AND end_offset > $3 AND first_offset < $4 ORDER BY first_offset";
    let question = sqlx::query(question).bind(i64::from(epoch)).bind(i64::from(partition));
    let question = question.bind(span.start).bind(span.end);
    let rows = question.fetch_all(&mut **transaction).await?;
    rows.iter().map(read).collect()
}

fn read(row: &AnyRow) -> Result<Run, AccountsError> {
    Ok(Run {
        first: row.try_get(0)?,
        end: row.try_get(1)?,
        terms: Terms {
            policy: Policy {
                clients: ClientPolicy::stored(row.try_get(2)?)?,
                entries: EntryPolicy::stored(row.try_get(3)?)?,
            },
            client_version: row.try_get(4)?,
            entry_version: row.try_get(5)?,
        },
    })
}

/// What of `span` is in none of the `runs`.
fn gaps(runs: &[Run], span: &Range<i64>) -> Vec<Range<i64>> {
    let mut gaps = Vec::new();
    let mut from = span.start;
    for run in runs {
        if run.first > from {
            gaps.push(from..run.first);
        }
        from = from.max(run.end);
    }
    if from < span.end {
        gaps.push(from..span.end);
    }
    gaps
}

/// A gap as runs of `terms`, but for the offsets in `open`.
fn cut(gap: &Range<i64>, open: &[u64], terms: Terms) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut add = |first: i64, end: i64, terms: Terms| match runs.last_mut() {
        Some(last) if last.terms == terms && last.end == first => last.end = end,
        _ if first < end => runs.push(Run { first, end, terms }),
        _ => {}
    };
    let mut from = gap.start;
    for open in open.iter().map(|open| offset(*open)).filter(|open| gap.contains(open)) {
        add(from, open, terms);
        add(open, open + 1, Terms::default());
        from = open + 1;
    }
    add(from, gap.end, terms);
    runs
}

/// Adds a run, to the one before it where that ends in the same terms.
async fn store(
    transaction: &mut Transaction<'static, Any>,
    (epoch, partition): (u32, u32),
    run: Run,
) -> Result<(), AccountsError> {
    let Run { first, end, terms } = run;
    let grow = "UPDATE policy_marks SET end_offset = $1 WHERE epoch = $2 AND log_partition = $3 AND end_offset = $4
        AND clients = $5 AND entries = $6 AND client_version = $7 AND entry_version = $8";
    let insert = "INSERT INTO policy_marks
        (end_offset, epoch, log_partition, first_offset, clients, entries, client_version, entry_version)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    for statement in [grow, insert] {
        let change = sqlx::query(statement)
            .bind(end)
            .bind(i64::from(epoch))
            .bind(i64::from(partition));
        let change = change
            .bind(first)
            .bind(terms.policy.clients.as_str())
            .bind(terms.policy.entries.as_str());
        let change = change.bind(terms.client_version).bind(terms.entry_version);
        if change.execute(&mut **transaction).await?.rows_affected() > 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(client_version: i64) -> Terms {
        Terms {
            client_version,
            ..Terms::default()
        }
    }

    proptest! {
        /// Every offset of a gap has exactly one run, of the right terms, and runs that could be one are one.
        #[test]
        fn a_gap_is_cut_where_records_were_judged_without_a_policy(
            start in 0_i64..20, length in 0_i64..20, mut open in proptest::collection::vec(0_u64..50, 0..20)
        ) {
            open.sort_unstable();
            open.dedup();
            let gap = start..start + length;
            let runs = cut(&gap, &open, terms(7));
            let mut expected = start;
            for run in &runs {
                prop_assert!(run.first == expected && run.end > run.first);
                for one in run.first..run.end {
                    let was_open = open.contains(&one.cast_unsigned());
                    prop_assert_eq!(run.terms, if was_open { Terms::default() } else { terms(7) });
                }
                expected = run.end;
            }
            prop_assert_eq!(expected, gap.end);
            prop_assert!(runs.windows(2).all(|two| two[0].terms != two[1].terms));
        }

        #[test]
        fn gaps_and_runs_together_are_the_whole(cuts in proptest::collection::vec(1_i64..5, 0..12), from in 0_i64..20, length in 1_i64..20) {
            // Every second piece is a run.
            let mut runs = Vec::new();
            let mut at = 0;
            for (number, size) in cuts.iter().enumerate() {
                if number % 2 == 0 {
                    runs.push(Run { first: at, end: at + size, terms: terms(1) });
                }
                at += size;
            }
            let span = from..from + length;
            runs.retain(|run| run.end > span.start && run.first < span.end);
            let gaps = gaps(&runs, &span);
            for one in span.clone() {
                let in_runs = runs.iter().filter(|run| (run.first..run.end).contains(&one)).count();
                let in_gaps = gaps.iter().filter(|gap| gap.contains(&one)).count();
                prop_assert_eq!(in_runs + in_gaps, 1);
            }
            prop_assert!(gaps.iter().all(|gap| gap.start >= span.start && gap.end <= span.end));
        }
    }
}

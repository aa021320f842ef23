//! Running audit: compares ledger and tables again and again. Rows that are lost with a damaged
//! file would otherwise show only in `receipts audit`, and answers without them would pass for
//! complete.
//!
//! New offsets are compared as they are committed, and a pass compares all offsets again, in log
//! order. So a check costs as much as what came since the last one, and a limited share of the
//! time. The position is saved in the warehouse.
//!
//! The check reads tables that writers fill, so it covers any number of writers, and any number of
//! these APIs may run it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};
use warehouse::{AuditPartition, AuditState, AuditSums, CommittedOffset, SectionOffsets, Warehouse, WarehouseError};

use crate::app::App;
use crate::progress::committed;

/// Share of the time that checks may take, in percent: the pause after a check grows with it.
const PERCENT_MAX: u32 = 2;
/// Time that the pass has in every check, if the interval is short.
const PASS_MIN: Duration = Duration::from_millis(500);
/// Wrong sections that are remembered.
const WRONG_MAX: usize = 1_000;

/// Result of the last check, which answers state.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    has_findings: AtomicBool,
}

impl Audit {
    /// Whether the tables are known to miss receipts, or to have some too often.
    pub(crate) fn has_findings(&self) -> bool {
        self.has_findings.load(Ordering::Relaxed)
    }
}

/// Checks at once and then again and again, until it is aborted.
pub(crate) async fn watch(app: Arc<App>) {
    let interval = Duration::from_millis(app.config.audit_interval_ms);
    let pass_time = PASS_MIN.max(interval * PERCENT_MAX / 100);
    gauge!("receipts_audit_last_good_timestamp_seconds").set(0.0);
    let mut check = None;
    loop {
        let started = Instant::now();
        match step(&app, &mut check, started + pass_time).await {
            Ok(sums) => report(&app, &sums),
            // Readiness reports an engine that is unavailable or damaged.
            Err(error) => tracing::warn!(%error, "the ledger can't be compared with the tables now"),
        }
        let taken = started.elapsed();
        histogram!("receipts_audit_seconds").record(taken.as_secs_f64());
        tokio::time::sleep(interval.max(taken * (100 / PERCENT_MAX))).await;
    }
}

/// Runs a check. Progress is read first: a writer publishes it after the ledger row, so everything
/// below it must be in both.
async fn step(app: &App, check: &mut Option<Check>, pass_until: Instant) -> Result<AuditSums, WarehouseError> {
    let committed = committed(&app.deps.progress.shards().await?);
    let check = match check {
        Some(check) => check,
        None => check.insert(Check::load(app.warehouse(), &committed).await?),
    };
    let mut sums = check.check_wrong().await?;
    sums.add(check.check_new(&committed).await?);
    sums.add(check.continue_pass(&committed, pass_until).await?);
    if let Err(error) = check.warehouse.save_audit_state(&check.state).await {
        tracing::warn!(%error, "the audit's position can't be saved; after a restart it begins again");
    }
    Ok(sums)
}

struct Check {
    warehouse: Warehouse,
    state: AuditState,
    /// Offsets of the pass in progress.
    partitions: Vec<AuditPartition>,
}

impl Check {
    async fn load(warehouse: &Warehouse, committed: &[CommittedOffset]) -> Result<Self, WarehouseError> {
        // Without a saved state the pass compares what is committed already.
        let state = warehouse.audit_state().await?.unwrap_or_else(|| AuditState {
            checked: committed.to_vec(),
            ..AuditState::default()
        });
        Ok(Self {
            warehouse: warehouse.clone(),
            state,
            partitions: Vec::new(),
        })
    }

    /// Checks wrong sections again, and forgets those that are repaired.
    async fn check_wrong(&mut self) -> Result<AuditSums, WarehouseError> {
        let mut sums = AuditSums::default();
        let mut left = Vec::new();
        for section in self.state.wrong.clone() {
            let SectionOffsets {
                epoch,
                partition,
                from,
                end,
            } = section;
            let known = self.partitions.iter();
            let mut known = known.filter(|known| (known.epoch, known.partition) == (epoch, partition));
            let begin = known.next().map_or(0, |known| known.begin);
            let partition = AuditPartition {
                epoch,
                partition,
                begin,
                end,
            };
            let found = self.compare(&partition, from).await?;
            if !found.is_clean() {
                left.push(section);
            }
            sums.add(found);
        }
        self.state.wrong = left;
        Ok(sums)
    }

    /// Checks offsets that were committed since the last check.
    async fn check_new(&mut self, committed: &[CommittedOffset]) -> Result<AuditSums, WarehouseError> {
        let mut sums = AuditSums::default();
        for one in committed {
            let from = next_of(&self.state.checked, one.epoch, one.partition).min(one.next_offset);
            let partition = AuditPartition {
                epoch: one.epoch,
                partition: one.partition,
                begin: 0,
                end: one.next_offset,
            };
            let found = self.compare(&partition, from).await?;
            sums.add(self.noted(&partition, from, found));
            set_next(&mut self.state.checked, one.epoch, one.partition, one.next_offset);
        }
        Ok(sums)
    }

    /// Continues the pass over all offsets, or begins the next one, until this instant.
    async fn continue_pass(
        &mut self,
        committed: &[CommittedOffset],
        until: Instant,
    ) -> Result<AuditSums, WarehouseError> {
        if self.partitions.is_empty() {
            self.partitions = self.warehouse.audit_partitions(committed).await?;
        }
        if self.state.pass.is_empty() {
            self.state.pass_began_ms = jiff::Timestamp::now().as_millisecond();
            self.state.pass_receipts = 0;
        }
        let mut sums = AuditSums::default();
        for partition in self.partitions.clone() {
            let AuditPartition {
                epoch,
                partition: number,
                end,
                ..
            } = partition;
            loop {
                let from = next_of(&self.state.pass, epoch, number);
                if from >= end {
                    break;
                }
                let section = self.warehouse.audit_section(&partition, from).await?;
                self.state.pass_receipts += section.sums.receipts_in;
                let found = AuditPartition {
                    end: section.end,
                    ..partition
                };
                sums.add(self.noted(&found, from, section.sums));
                set_next(&mut self.state.pass, epoch, number, section.end);
                if Instant::now() >= until {
                    return Ok(sums);
                }
            }
        }
        self.state.pass.clear();
        self.partitions.clear();
        counter!("receipts_audit_passes_total").increment(1);
        Ok(sums)
    }

    /// Compares the offsets from `from` to the end.
    async fn compare(&self, partition: &AuditPartition, mut from: u64) -> Result<AuditSums, WarehouseError> {
        let mut sums = AuditSums::default();
        while from < partition.end {
            let section = self.warehouse.audit_section(partition, from).await?;
            sums.add(section.sums);
            from = section.end;
        }
        Ok(sums)
    }

    /// Remembers a wrong section. Returns the sums, or none where a wrong section has some of the
    /// offsets, whose sums are reported with that one.
    fn noted(&mut self, partition: &AuditPartition, from: u64, found: AuditSums) -> AuditSums {
        if found.is_clean() {
            return found;
        }
        let AuditPartition {
            epoch, partition, end, ..
        } = *partition;
        let overlaps =
            |one: &SectionOffsets| (one.epoch, one.partition) == (epoch, partition) && one.from < end && from < one.end;
        if self.state.wrong.iter().any(overlaps) {
            return AuditSums::default();
        }
        if self.state.wrong.len() < WRONG_MAX {
            self.state.wrong.push(SectionOffsets {
                epoch,
                partition,
                from,
                end,
            });
        }
        found
    }
}

/// Next offset of a partition, 0 if it is missing.
fn next_of(offsets: &[CommittedOffset], epoch: u32, partition: u32) -> u64 {
    let mut of_it = offsets
        .iter()
        .filter(|one| (one.epoch, one.partition) == (epoch, partition));
    of_it.next().map_or(0, |one| one.next_offset)
}

fn set_next(offsets: &mut Vec<CommittedOffset>, epoch: u32, partition: u32, next_offset: u64) {
    offsets.retain(|one| (one.epoch, one.partition) != (epoch, partition));
    offsets.push(CommittedOffset {
        epoch,
        partition,
        next_offset,
    });
}

fn report(app: &App, sums: &AuditSums) {
    let findings = sums.findings.len() as u64 + sums.unnamed;
    #[allow(clippy::cast_precision_loss)] // Gauges; a difference above 2^53 is no less of one.
    {
        gauge!("receipts_audit_findings").set(findings as f64);
        gauge!("receipts_audit_off_by_receipts").set(sums.off_by as f64);
    }
    counter!("receipts_audit_checks_total").increment(1);
    app.audit.has_findings.store(findings > 0, Ordering::Relaxed);
    let Some(first) = sums.findings.first() else {
        let now_s = jiff::Timestamp::now().as_duration().as_secs_f64();
        gauge!("receipts_audit_last_good_timestamp_seconds").set(now_s);
        return;
    };
    tracing::error!(
        findings,
        off_by = sums.off_by,
        kind = first.kind,
        first = first.detail,
        "the tables don't have what the ledger counts: `receipts audit` names all differences, `receipts repair` writes \
         lost rows again from the log; answers say `incomplete` until then"
    );
}

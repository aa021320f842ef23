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

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};
use warehouse::{
    AuditPartition, AuditState, AuditSums, CommittedOffset, SectionOffsets, ShardProgress, Warehouse, WarehouseError,
};

use crate::state::AnalyticsState;

/// Share of the time that checks may take, in percent: the pause after a check grows with it.
const PERCENT_MAX: u32 = 2;
/// Time that each part of a check has at least, if the interval is short.
const PART_MIN: Duration = Duration::from_millis(500);
/// Wrong sections that are remembered one by one.
const WRONG_MAX: usize = 1_000;
/// Age at which the end of retention is read again.
const PARTITIONS_AGE_MAX: Duration = Duration::from_secs(86_400);

/// Checks at once and then again and again, until it is aborted.
pub(crate) async fn watch(app: Arc<AnalyticsState>) {
    let interval = Duration::from_millis(app.config.audit_interval_ms);
    let part_time = PART_MIN.max(interval * PERCENT_MAX / 100);
    gauge!("receipts_audit_last_good_timestamp_seconds").set(0.0);
    let mut checks = BTreeMap::new();
    loop {
        let started = Instant::now();
        let result = step(&app, &mut checks, part_time).await;
        // A section that is wrong stays so until a check has found it repaired.
        let wrong: usize = checks.values().map(|check| check.state.wrong.len()).sum();
        match result {
            Ok(sums) => report(&app, &sums, wrong as u64),
            Err(error) => {
                if wrong > 0 {
                    app.audit.set_findings(true);
                }
                // Readiness reports an engine that is unavailable or damaged.
                tracing::warn!(%error, "the ledger can't be compared with the tables now");
            }
        }
        let taken = started.elapsed();
        histogram!("receipts_audit_seconds").record(taken.as_secs_f64());
        tokio::time::sleep(interval.max(taken * (100 / PERCENT_MAX))).await;
    }
}

/// Runs a check of each shard. Progress is read first: a writer publishes it after the ledger row,
/// so everything below it must be in both.
///
/// Each part of a check has so much time, but for one section. What an error prevents is left to
/// the next check.
async fn step(
    app: &AnalyticsState,
    checks: &mut BTreeMap<u32, ShardCheck>,
    time: Duration,
) -> Result<AuditSums, WarehouseError> {
    let mut sums = AuditSums::default();
    let mut failed = None;
    for shard in app.deps.progress.shards().await? {
        let checked = match app.warehouse().shard(shard.shard) {
            Ok(warehouse) => check(warehouse, &shard, checks, time).await,
            Err(error) => Err(error),
        };
        match checked {
            Ok(more) => sums.add(more),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(sums), Err)
}

async fn check(
    warehouse: &Warehouse,
    shard: &ShardProgress,
    checks: &mut BTreeMap<u32, ShardCheck>,
    time: Duration,
) -> Result<AuditSums, WarehouseError> {
    let committed = shard.committed();
    let check = match checks.entry(shard.shard) {
        Entry::Occupied(check) => check.into_mut(),
        Entry::Vacant(entry) => entry.insert(ShardCheck::load(warehouse, &committed).await?),
    };
    check.load_partitions(&committed).await?;
    let wrong = check.check_wrong(Instant::now() + time).await;
    let new = check.check_new(&committed, Instant::now() + time).await;
    let pass = check.continue_pass(Instant::now() + time).await;
    if let Err(error) = check.warehouse.save_audit_state(&check.state).await {
        tracing::warn!(%error, "the audit's position can't be saved; after a restart it begins again");
    }
    let mut sums = wrong?;
    sums.add(new?);
    sums.add(pass?);
    Ok(sums)
}

struct ShardCheck {
    warehouse: Warehouse,
    state: AuditState,
    /// Offsets of the pass, as far as they were committed when it began.
    partitions: Vec<AuditPartition>,
    partitions_read: Option<Instant>,
}

impl ShardCheck {
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
            partitions_read: None,
        })
    }

    /// Reads the partitions when a pass begins, and daily, because retention continues.
    async fn load_partitions(&mut self, committed: &[CommittedOffset]) -> Result<(), WarehouseError> {
        let is_recent = self
            .partitions_read
            .is_some_and(|read| read.elapsed() < PARTITIONS_AGE_MAX);
        if !self.state.pass.is_empty() && is_recent {
            return Ok(());
        }
        self.partitions = self.warehouse.audit_partitions(committed).await?;
        self.partitions_read = Some(Instant::now());
        Ok(())
    }

    /// Checks wrong sections again, and forgets those that are repaired.
    async fn check_wrong(&mut self, until: Instant) -> Result<AuditSums, WarehouseError> {
        let mut sums = AuditSums::default();
        for _ in 0..self.state.wrong.len() {
            let Some(&section) = self.state.wrong.first() else {
                break;
            };
            let SectionOffsets {
                epoch,
                partition,
                from,
                end,
            } = section;
            let existing = self.partition(epoch, partition, end);
            // Whole blocks are compared, also where the section ends within one.
            let partition = AuditPartition {
                end: existing.end.max(end),
                ..existing
            };
            let mut found = AuditSums::default();
            let mut next = from;
            while next < end {
                let compared = self.warehouse.audit_section(&partition, next).await?;
                found.add(compared.sums);
                next = compared.end;
            }
            self.state.wrong.remove(0);
            if !found.is_clean() {
                self.state.wrong.push(section);
            }
            sums.add(found);
            if Instant::now() >= until {
                break;
            }
        }
        Ok(sums)
    }

    /// Checks offsets that were committed since the last check.
    async fn check_new(&mut self, committed: &[CommittedOffset], until: Instant) -> Result<AuditSums, WarehouseError> {
        let mut sums = AuditSums::default();
        for one in committed {
            let partition = AuditPartition {
                end: one.next_offset,
                ..self.partition(one.epoch, one.partition, one.next_offset)
            };
            let checked = self.next_of(&self.state.checked, one.epoch, one.partition).await?;
            let mut from = checked.min(one.next_offset);
            while from < one.next_offset {
                let section = self.warehouse.audit_section(&partition, from).await?;
                sums.add(self.noted(&partition, from, section.end, section.sums));
                from = section.end;
                set_next(&mut self.state.checked, one.epoch, one.partition, from);
                if Instant::now() >= until {
                    return Ok(sums);
                }
            }
        }
        Ok(sums)
    }

    /// Continues the pass over all offsets, or begins the next one, until this instant.
    async fn continue_pass(&mut self, until: Instant) -> Result<AuditSums, WarehouseError> {
        if self.state.pass.is_empty() {
            self.state.pass_began_ms = jiff::Timestamp::now().as_millisecond();
            self.state.pass_receipts = 0;
        }
        let mut sums = AuditSums::default();
        for partition in self.partitions.clone() {
            let (epoch, number) = (partition.epoch, partition.partition);
            loop {
                let from = self.next_of(&self.state.pass, epoch, number).await?;
                if from >= partition.end {
                    break;
                }
                let section = self.warehouse.audit_section(&partition, from).await?;
                self.state.pass_receipts += section.sums.receipts_in;
                sums.add(self.noted(&partition, from, section.end, section.sums));
                set_next(&mut self.state.pass, epoch, number, section.end);
                if Instant::now() >= until {
                    return Ok(sums);
                }
            }
        }
        self.state.pass.clear();
        counter!("receipts_audit_passes_total").increment(1);
        Ok(sums)
    }

    /// A partition as it was read; one that wasn't ends at `end`.
    fn partition(&self, epoch: u32, partition: u32, end: u64) -> AuditPartition {
        let mut existing = self.partitions.iter();
        let found = existing.find(|existing| (existing.epoch, existing.partition) == (epoch, partition));
        found.copied().unwrap_or(AuditPartition {
            epoch,
            partition,
            begin: 0,
            rejected_begin: 0,
            end,
        })
    }

    /// Next offset of a partition, and of one that is missing the first that it has.
    async fn next_of(&self, offsets: &[CommittedOffset], epoch: u32, partition: u32) -> Result<u64, WarehouseError> {
        let mut offsets = offsets.iter();
        match offsets.find(|one| (one.epoch, one.partition) == (epoch, partition)) {
            Some(one) => Ok(one.next_offset),
            None => self.warehouse.first_offset(epoch, partition).await,
        }
    }

    /// Remembers a wrong section. Returns the sums, or none where a wrong section has all of the
    /// offsets, whose sums are reported with that one.
    fn noted(&mut self, partition: &AuditPartition, from: u64, end: u64, found: AuditSums) -> AuditSums {
        if found.is_clean() {
            return found;
        }
        let key = (partition.epoch, partition.partition);
        let is_full = self.state.wrong.len() >= WRONG_MAX;
        let of_partition = self
            .state
            .wrong
            .iter_mut()
            .filter(|one| (one.epoch, one.partition) == key);
        let mut joined = of_partition.filter(|one| is_full || (one.from < end && from < one.end));
        match joined.next() {
            Some(one) if one.from <= from && end <= one.end => return AuditSums::default(),
            Some(one) => (one.from, one.end) = (one.from.min(from), one.end.max(end)),
            None => self.state.wrong.push(SectionOffsets {
                epoch: key.0,
                partition: key.1,
                from,
                end,
            }),
        }
        found
    }
}

fn set_next(offsets: &mut Vec<CommittedOffset>, epoch: u32, partition: u32, next_offset: u64) {
    offsets.retain(|one| (one.epoch, one.partition) != (epoch, partition));
    offsets.push(CommittedOffset {
        epoch,
        partition,
        next_offset,
    });
}

/// Reports a check's result. `wrong` is the number of wrong sections, which a check may not reach.
fn report(app: &AnalyticsState, sums: &AuditSums, wrong: u64) {
    let findings = wrong.max(sums.findings.len() as u64 + sums.unnamed);
    #[allow(clippy::cast_precision_loss)] // Gauges; a difference above 2^53 is no less of one.
    {
        gauge!("receipts_audit_findings").set(findings as f64);
        gauge!("receipts_audit_off_by_receipts").set(sums.off_by as f64);
    }
    counter!("receipts_audit_checks_total").increment(1);
    app.audit.set_findings(findings > 0);
    if findings == 0 {
        let now_s = jiff::Timestamp::now().as_duration().as_secs_f64();
        gauge!("receipts_audit_last_good_timestamp_seconds").set(now_s);
    }
    let Some(first) = sums.findings.first() else {
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

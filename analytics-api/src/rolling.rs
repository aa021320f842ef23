//! The rollups kept up: by one replica at a time, in bounded rolls, for a bounded part of the time.
//!
//! A lease in the account store keeps replicas from doing the same work twice, and gives each roll a number of its own; neither is
//! what the answers rest on (see `warehouse::rollup`). Between rolls a slice of what is rolled is held against the receipts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::AccountsError;
use metrics::{counter, gauge, histogram};
use warehouse::{CleanFrom, OffBucket, RollBounds, RollupStanding, WarehouseError};

use crate::app::App;
use crate::watermark::WatermarkError;

/// The lease of the work, and the row of numbers.
const JOB: &str = "rollups";
/// How long the lease is, and after what time it is renewed.
const LEASE_MS: i64 = 20_000;
const RENEW_AFTER: Duration = Duration::from_secs(5);
/// The longest rest after a roll: what comes in is accounted for by the next one's state.
const REST_MAX: Duration = Duration::from_secs(120);
/// Receipts that one check looks at, about, and the part of the time that checks may take, in percent.
const CHECKED_ROWS: u64 = 125_000;
const CHECK_PERCENT: u32 = 2;
/// Days after whose end a day's hours are made anew by one roll, where several made them: few receipts come later. And how often one that
/// was late after all is looked for, at least.
const EVEN_AFTER_DAYS: u32 = 2;
const EVEN_EVERY: Duration = Duration::from_secs(3_600);
/// How often a difference must be found before it is believed, and the pause between: what is being written is different for a moment.
const CHECKS: u32 = 4;
const CHECK_PAUSE: Duration = Duration::from_secs(2);

/// Why a turn ended early.
#[derive(Debug, thiserror::Error)]
enum NotRolled {
    #[error(transparent)]
    Watermark(#[from] WatermarkError),
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    #[error("the numbers of rolls are used up")]
    NoNumber,
    #[error("the lease was lost")]
    LeaseLost,
}

/// Who rolls.
struct Roller {
    app: Arc<App>,
    holder: String,
    /// The greatest number that rows of earlier rolls have; unknown at first.
    numbers_seen: Option<u32>,
    /// Found by the last check, until it is made anew.
    off: Vec<OffBucket>,
    /// Where the pass over hours that were touched since they were rolled goes on, and when the next one begins.
    clean_from: Option<CleanFrom>,
    clean_at: Instant,
    /// Where the next check begins, in hours since the Unix epoch, and when.
    check_from: u32,
    check_at: Instant,
    /// The first hour that is rolled, by the last roll.
    first_hour: u32,
    /// The day that is evened next, since the Unix epoch in UTC: from the newest to the oldest, then anew.
    even_day: Option<u32>,
    /// When the newest was looked at.
    even_begun_at: Option<Instant>,
    /// How long the last turn paused in its roll, and was at a check.
    paused: Duration,
    checked: Duration,
}

/// Rolls as long as it isn't stopped.
pub(crate) async fn watch(app: Arc<App>) {
    let interval = Duration::from_millis(app.config.rollup_interval_ms);
    let share = app.config.rollup_percent_max.clamp(1, 100);
    let mut roller = Roller {
        holder: uuid::Uuid::now_v7().simple().to_string(),
        // Not while everything starts.
        check_at: Instant::now() + Duration::from_millis(app.config.rollup_check_interval_ms),
        app,
        numbers_seen: None,
        off: Vec::new(),
        clean_from: None,
        clean_at: Instant::now(),
        check_from: 0,
        first_hour: 0,
        even_day: None,
        even_begun_at: None,
        paused: Duration::ZERO,
        checked: Duration::ZERO,
    };
    loop {
        let started = Instant::now();
        (roller.paused, roller.checked) = (Duration::ZERO, Duration::ZERO);
        let more = match roller.turn().await {
            Ok(more) => more,
            Err(error) => {
                // Answers are as right as ever; readiness tells of an engine that is away.
                tracing::warn!(%error, "rollups wait for the next turn");
                counter!("receipts_rollup_rolls_total", "outcome" => "failed").increment(1);
                false
            }
        };
        let worked = started.elapsed().saturating_sub(roller.paused + roller.checked);
        let rest = (worked * (100 - share) / share)
            .saturating_sub(roller.paused)
            .min(REST_MAX);
        tokio::time::sleep(if more { rest } else { rest.max(interval) }).await;
    }
}

impl Roller {
    /// One roll, if there is anything to roll and no other replica is at it; whether there may be more at once.
    async fn turn(&mut self) -> Result<bool, NotRolled> {
        let accounts = self.app.deps.accounts.clone();
        if !accounts.claim(JOB, &self.holder, LEASE_MS).await? {
            // Whoever rolls tells what is off.
            gauge!("receipts_rollup_off_buckets").set(0.0);
            return Ok(false);
        }
        let holder = self.holder.clone();
        let keep = async {
            loop {
                tokio::time::sleep(RENEW_AFTER).await;
                if let Ok(false) = accounts.claim(JOB, &holder, LEASE_MS).await {
                    return;
                }
            }
        };
        tokio::select! {
            done = self.roll_and_check() => done,
            () = keep => Err(NotRolled::LeaseLost),
        }
    }

    async fn roll_and_check(&mut self) -> Result<bool, NotRolled> {
        self.app.warehouse().reset_broken_rollups().await?;
        let more = self.roll().await?;
        let started = Instant::now();
        if more || started < self.check_at {
            return Ok(more);
        }
        let checked = self.check().await;
        self.checked = started.elapsed();
        let pause = Duration::from_millis(self.app.config.rollup_check_interval_ms);
        self.check_at = Instant::now() + pause.max(started.elapsed() * (100 / CHECK_PERCENT));
        checked.map(|()| false)
    }

    /// Whether there may be more at once.
    async fn roll(&mut self) -> Result<bool, NotRolled> {
        let app = Arc::clone(&self.app);
        let (warehouse, config) = (app.warehouse(), &app.config);
        let numbers_seen = match self.numbers_seen {
            Some(seen) => seen,
            None => warehouse.rollup_number_max().await?,
        };
        self.numbers_seen = Some(numbers_seen);
        // The progress before anything else: everything below it is in the tables.
        let committed = app.watermark.read().await?.committed;
        let lag_ms = i64::try_from(config.rollup_lag_ms).unwrap_or(i64::MAX);
        let bounds = RollBounds {
            settled_ms: app.deps.accounts.now_ms().saturating_sub(lag_ms),
            rows_max: config.rollup_rows_max,
            clean_from: self.next_clean_from(),
            even_day: self.next_even_day(app.deps.accounts.now_ms()),
        };
        let started = Instant::now();
        let plan = warehouse.plan_roll(&committed, &bounds, &self.off).await?;
        let more = plan.makes_rows();
        if plan.has_evened() {
            self.even_day = bounds.even_day.and_then(|day| day.checked_sub(1));
        }
        let clean_from = plan.clean_from().cloned();
        if !plan.is_needed() {
            self.clean_from = clean_from;
            self.tell(&warehouse.rollup_standing().await?);
            return Ok(false);
        }
        let above = i64::from(plan.number_above().max(numbers_seen));
        let number = app.deps.accounts.next_number(JOB, above).await?;
        let number = u32::try_from(number).map_err(|_| NotRolled::NoNumber)?;
        self.numbers_seen = Some(numbers_seen.max(number));
        let rolled = warehouse.roll(plan, number, config.rollup_percent_max).await?;
        self.paused = rolled.paused;
        let outcome = if rolled.counts { "counted" } else { "passed_over" };
        counter!("receipts_rollup_rolls_total", "outcome" => outcome).increment(1);
        histogram!("receipts_rollup_roll_seconds").record(started.elapsed().as_secs_f64());
        if rolled.counts {
            self.off.clear();
            self.clean_from = clean_from;
            self.tell(&rolled.standing);
        }
        Ok(more && rolled.counts)
    }

    /// Where a pass is, or begins if it is time for one.
    fn next_clean_from(&mut self) -> Option<CleanFrom> {
        if self.clean_from.is_none() && self.clean_at <= Instant::now() {
            self.clean_from = Some(CleanFrom::default());
            self.clean_at = Instant::now() + Duration::from_millis(self.app.config.rollup_again_interval_ms);
        }
        self.clean_from.clone()
    }

    /// The day to be evened next, if it is time for one.
    fn next_even_day(&mut self, now_ms: i64) -> Option<u32> {
        let today = u32::try_from(now_ms.div_euclid(86_400_000)).unwrap_or(0);
        match self.even_day {
            Some(day) if day >= self.first_hour / 24 => return Some(day),
            _ => self.even_day = None,
        }
        if self.even_begun_at.is_some_and(|at| at.elapsed() < EVEN_EVERY) {
            return None;
        }
        self.even_begun_at = Some(Instant::now());
        self.even_day = today.checked_sub(EVEN_AFTER_DAYS + 1);
        self.even_day
    }

    /// Holds the next hours against the receipts.
    async fn check(&mut self) -> Result<(), NotRolled> {
        let app = Arc::clone(&self.app);
        let mut off: Vec<OffBucket> = Vec::new();
        let mut hours = 0..0;
        for turn in 0..CHECKS {
            let committed = app.watermark.read().await?.committed;
            let view = app.warehouse().rollup_view(&committed).await?;
            let Some(window) = view.window().filter(|window| !window.is_empty()) else {
                return Ok(());
            };
            if turn == 0 {
                let from = if window.contains(&self.check_from) {
                    self.check_from
                } else {
                    window.start
                };
                hours = app.warehouse().hours_to_check(from, CHECKED_ROWS).await?;
                // Also if it fails: the others are to be looked at all the same.
                self.check_from = hours.end;
            }
            let found = app.warehouse().check_rollups(&view, hours.clone()).await?;
            // What differs for another reason than before was being written.
            off = if turn == 0 {
                found
            } else {
                found.into_iter().filter(|one| off.contains(one)).collect()
            };
            if off.is_empty() {
                break;
            }
            tokio::time::sleep(CHECK_PAUSE).await;
        }
        counter!("receipts_rollup_checked_buckets_total").increment(hours.len() as u64);
        #[allow(clippy::cast_precision_loss)] // A gauge.
        gauge!("receipts_rollup_off_buckets").set(off.len() as f64);
        if let Some(first) = off.first() {
            tracing::error!(
                off = off.len(),
                publisher = first.publisher,
                hour = first.hour,
                table = first.table,
                more = first.more,
                "rolled hours don't tell what the receipts tell; they are made anew. `receipts rollups check` looks at all of them"
            );
        }
        self.off = off;
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)] // Gauges.
    fn tell(&mut self, standing: &RollupStanding) {
        self.first_hour = u32::try_from(standing.from_ms.div_euclid(3_600_000)).unwrap_or(0);
        gauge!("receipts_rollup_from_timestamp_seconds").set(standing.from_ms as f64 / 1e3);
        gauge!("receipts_rollup_to_timestamp_seconds").set(standing.to_ms as f64 / 1e3);
        gauge!("receipts_rollup_dirty_buckets").set(standing.dirty_hours as f64);
    }
}

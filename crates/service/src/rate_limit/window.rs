//! Count of a key, and the arithmetic of its windows, which every limiter shares.

use super::{Decision, Quota};

pub(super) const MINUTE_S: i64 = 60;
pub(super) const DAY_S: i64 = 86_400;

/// Requests of one minute and one day, each with the window's number since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WindowCount {
    pub(super) minute: i64,
    pub(super) in_minute: u32,
    pub(super) day: i64,
    pub(super) in_day: u32,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitOutcome {
    Allowed,
    MinuteFull,
    DayFull,
}

impl WindowCount {
    /// Whether forgetting it would give requests back.
    pub(super) fn is_live(&self, now_s: i64) -> bool {
        let this_minute = self.minute == now_s.div_euclid(MINUTE_S) && self.in_minute > 0;
        this_minute || (self.day == now_s.div_euclid(DAY_S) && self.in_day > 0)
    }

    /// Counts `cost` at `now_s`, or nothing if it is more than is left. redis/take.lua does the
    /// same.
    pub(super) fn take(&mut self, now_s: i64, cost: u32, quota: &Quota) -> LimitOutcome {
        let (minute, day) = (now_s.div_euclid(MINUTE_S), now_s.div_euclid(DAY_S));
        if self.minute != minute {
            (self.minute, self.in_minute) = (minute, 0);
        }
        if self.day != day {
            (self.day, self.in_day) = (day, 0);
        }
        // The day first: waiting for the minute would be in vain.
        if quota
            .per_day
            .is_some_and(|limit| cost > limit.saturating_sub(self.in_day))
        {
            return LimitOutcome::DayFull;
        }
        if cost > quota.per_minute.saturating_sub(self.in_minute) {
            return LimitOutcome::MinuteFull;
        }
        self.in_minute += cost;
        // Without a daily limit the day isn't counted, so that an idle key can be forgotten after a
        // minute.
        if quota.per_day.is_some() {
            self.in_day += cost;
        }
        LimitOutcome::Allowed
    }

    /// Takes over what is known from elsewhere: of one window the greater count, of two the later
    /// window's.
    pub(super) fn learn(&mut self, shared: WindowCount) {
        if (shared.minute, shared.in_minute) > (self.minute, self.in_minute) {
            (self.minute, self.in_minute) = (shared.minute, shared.in_minute);
        }
        if (shared.day, shared.in_day) > (self.day, self.in_day) {
            (self.day, self.in_day) = (shared.day, shared.in_day);
        }
    }

    /// The answer to a request that ended as `outcome`, which this count already has.
    pub(super) fn decision(&self, now_s: i64, quota: &Quota, outcome: LimitOutcome) -> Decision {
        let minute_end_s = (now_s.div_euclid(MINUTE_S) + 1) * MINUTE_S;
        let day_end_s = (now_s.div_euclid(DAY_S) + 1) * DAY_S;
        let left_in_minute = quota.per_minute.saturating_sub(self.in_minute);
        let left_in_day = |limit: u32| limit.saturating_sub(self.in_day);
        let (limit, remaining, reset_unix_s) = match (outcome, quota.per_day) {
            (LimitOutcome::DayFull, Some(limit)) => (limit, left_in_day(limit), day_end_s),
            (LimitOutcome::Allowed, Some(limit)) if left_in_day(limit) < left_in_minute => {
                (limit, left_in_day(limit), day_end_s)
            }
            _ => (quota.per_minute, left_in_minute, minute_end_s),
        };
        let allowed = outcome == LimitOutcome::Allowed;
        let mut retry_after_s = 0;
        if !allowed {
            let window = if outcome == LimitOutcome::DayFull {
                "day"
            } else {
                "minute"
            };
            metrics::counter!("receipts_rate_limit_refused_total", "window" => window).increment(1);
            retry_after_s = u32::try_from((reset_unix_s - now_s).max(1)).unwrap_or(u32::MAX);
        }
        Decision {
            allowed,
            limit,
            remaining,
            reset_unix_s,
            retry_after_s,
        }
    }
}

//! The clock that stamps arrivals: the system's, compared with monotonic time and with the log's.
//!
//! An arrival decides what counts (verified domains, operators' keys, the window of timestamps), so
//! none is stamped by a clock that has just jumped. What senders are promised doesn't rest on this
//! clock: `receivedAt` of an acknowledgement is the log's instant.

use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, counter, gauge};
use parking_lot::Mutex;
use service::instant::{CLOCKS_APART_MS_MAX, now_ms};
use service::problem::{Kind, Problem};

use crate::refusal::Refusal;

/// Time after which a clock that has stepped and hasn't stepped back is believed: a machine that
/// was suspended wakes up with the right time.
const DOUBT: Duration = Duration::from_secs(30);

/// The clock of one gateway.
pub(crate) struct ArrivalClock {
    state: Mutex<ClockState>,
    steps: Counter,
    offset: Gauge,
}

struct ClockState {
    believed: Believed,
    /// Milliseconds by which the clock was ahead of the log's at the last append.
    ahead_of_log_ms: i64,
}

/// The last reading that was believed, and a step since.
struct Believed {
    wall_ms: i64,
    at: Instant,
    step: Option<Step>,
}

/// A jump of the system's clock against monotonic time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    by_ms: i64,
    since: Instant,
}

/// A clock in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Doubt {
    by_ms: i64,
    ends_in: Duration,
    /// Whether this reading found the step.
    is_new: bool,
}

impl Believed {
    /// Judges a reading of both clocks.
    fn judge(&mut self, wall_ms: i64, at: Instant) -> Result<(), Doubt> {
        let passed_ms = i64::try_from(at.saturating_duration_since(self.at).as_millis()).unwrap_or(i64::MAX);
        let by_ms = wall_ms.saturating_sub(self.wall_ms).saturating_sub(passed_ms);
        let is_same = |step: &Step| by_ms.abs_diff(step.by_ms) <= CLOCKS_APART_MS_MAX.unsigned_abs();
        let existing = self.step.filter(is_same);
        let step = existing.unwrap_or(Step { by_ms, since: at });
        let doubted = at.saturating_duration_since(step.since);
        if by_ms.abs() > CLOCKS_APART_MS_MAX && doubted < DOUBT {
            self.step = Some(step);
            return Err(Doubt {
                by_ms,
                ends_in: DOUBT - doubted,
                is_new: existing.is_none(),
            });
        }
        *self = Self {
            wall_ms,
            at,
            step: None,
        };
        Ok(())
    }
}

impl ArrivalClock {
    pub(crate) fn new() -> Self {
        let believed = Believed {
            wall_ms: now_ms(),
            at: Instant::now(),
            step: None,
        };
        let steps = counter!("receipts_gateway_clock_steps_total");
        steps.increment(0);
        Self {
            state: Mutex::new(ClockState {
                believed,
                ahead_of_log_ms: 0,
            }),
            steps,
            offset: gauge!("receipts_gateway_clock_offset_seconds"),
        }
    }

    /// Refuses an arrival while the clock is in doubt.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.read().map_err(|doubt| {
            let detail = format!("{}; send the same bytes again", stepped(doubt.by_ms));
            let wait_s = u32::try_from(doubt.ends_in.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
            Problem::new(Kind::ClockStepped, detail).retry_after_s(wait_s).into()
        })
    }

    fn read(&self) -> Result<(), Doubt> {
        let believed = &mut self.state.lock().believed;
        let judged = believed.judge(now_ms(), Instant::now());
        if !judged.is_err_and(|doubt| doubt.is_new) {
            return judged;
        }
        // A process that was stopped between the two readings finds no step in the next ones.
        believed.judge(now_ms(), Instant::now()).inspect_err(|doubt| {
            self.steps.increment(1);
            tracing::error!(
                by_ms = doubt.by_ms,
                "the system's clock stepped: no receipts are taken; check NTP"
            );
        })
    }

    /// Compares the clock with the log's, which stamped a record that arrived at `arrived_ms` and
    /// is stored now.
    pub(crate) fn compare(&self, arrived_ms: i64, appended_at_ms: i64) {
        let ahead_ms = ahead_ms(arrived_ms, appended_at_ms, now_ms());
        self.offset.set(ahead_ms as f64 / 1e3);
        self.state.lock().ahead_of_log_ms = ahead_ms;
    }

    /// State of the clock, for `/readyz`: in doubt, or else apart from the log's.
    pub(crate) fn readiness(&self) -> Result<(), ClockFault> {
        if let Err(doubt) = self.read() {
            return Err(ClockFault::Stepped(stepped(doubt.by_ms)));
        }
        let ahead_ms = self.state.lock().ahead_of_log_ms;
        if ahead_ms.abs() <= CLOCKS_APART_MS_MAX {
            return Ok(());
        }
        let (seconds, side) = (ahead_ms.abs() / 1_000, if ahead_ms > 0 { "ahead of" } else { "behind" });
        Err(ClockFault::Apart(format!(
            "the system's clock is {seconds} s {side} the log's: check NTP here and on the brokers"
        )))
    }
}

/// Fault of the clock.
pub(crate) enum ClockFault {
    /// No receipts are taken.
    Stepped(String),
    /// Receipts are taken, with arrivals that may be wrong.
    Apart(String),
}

fn stepped(by_ms: i64) -> String {
    format!(
        "the gateway's clock stepped by {} s against monotonic time; no receipts are taken until it steps back, or for \
         {} s",
        by_ms / 1_000,
        DOUBT.as_secs()
    )
}

/// Milliseconds by which this clock is ahead of the log's: 0 if the append may have been between
/// the arrival and now.
fn ahead_ms(arrived_ms: i64, appended_at_ms: i64, now_ms: i64) -> i64 {
    (arrived_ms - appended_at_ms).max(0) + (now_ms - appended_at_ms).min(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    /// Judges readings as (seconds of monotonic time, milliseconds by which the clock is ahead). A
    /// doubt is (milliseconds of the step, seconds until it ends).
    fn judge(readings: &[(u64, i64)]) -> Vec<Result<(), (i64, u64)>> {
        let start = Instant::now();
        let mut believed = Believed {
            wall_ms: 0,
            at: start,
            step: None,
        };
        let judged = readings.iter().map(|&(at_s, ahead_ms)| {
            let at = start + Duration::from_secs(at_s);
            let wall_ms = i64::try_from(at_s).unwrap_or(0) * 1_000 + ahead_ms;
            let judged = believed.judge(wall_ms, at);
            judged.map_err(|doubt| (doubt.by_ms, doubt.ends_in.as_secs()))
        });
        judged.collect()
    }

    #[test]
    fn small_steps_are_believed() {
        let readings = [(1, 0), (2, 4_000), (3_600, 9_000), (3_601, 4_000), (3_601, 5)];
        assert_eq!(judge(&readings), [Ok(()); 5]);
    }

    #[test]
    fn a_day_is_doubted_until_it_ends_or_lasts() {
        let back = [(1, 0), (2, DAY_MS), (5, DAY_MS), (6, 0), (7, 0)];
        assert_eq!(
            judge(&back),
            [Ok(()), Err((DAY_MS, 30)), Err((DAY_MS, 27)), Ok(()), Ok(())]
        );
        let lasting = [(2, DAY_MS), (31, DAY_MS + 40), (32, DAY_MS), (33, DAY_MS), (34, 0)];
        let judged = [
            Err((DAY_MS, 30)),
            Err((DAY_MS + 40, 1)),
            Ok(()),
            Ok(()),
            Err((-DAY_MS, 30)),
        ];
        assert_eq!(judge(&lasting), judged);
    }

    #[test]
    fn each_step_has_its_own_time() {
        let readings = [(2, DAY_MS), (25, -DAY_MS), (33, -DAY_MS), (55, -DAY_MS)];
        let judged = [Err((DAY_MS, 30)), Err((-DAY_MS, 30)), Err((-DAY_MS, 22)), Ok(())];
        assert_eq!(judge(&readings), judged);
    }

    #[test]
    fn an_arrival_is_refused_while_the_clock_is_in_doubt() {
        let clock = ArrivalClock::new();
        assert!(clock.check().is_ok());
        clock.state.lock().believed.wall_ms -= DAY_MS;
        assert!(clock.check().is_err());
        assert!(matches!(clock.readiness(), Err(ClockFault::Stepped(_))));
    }

    #[test]
    fn an_append_between_arrival_and_answer_shows_no_difference() {
        assert_eq!(ahead_ms(1_000, 1_000, 1_000), 0);
        assert_eq!(ahead_ms(1_000, 7_000, 9_000), 0, "a slow body");
        assert_eq!(ahead_ms(DAY_MS, 30, DAY_MS + 50), DAY_MS - 30);
        assert_eq!(ahead_ms(0, DAY_MS, 50), 50 - DAY_MS);
    }
}

//! Any sequence of requests against a model without any cleverness: a list of what was allowed.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use service::rate_limit::{Decision, Quota};
use tokio::runtime::Handle;

use crate::{DAY_S, NOON_S, Replicas};

#[derive(Debug, Clone)]
struct Step {
    wait_s: i64,
    turn: usize,
    key: usize,
    cost: u32,
    quota: usize,
}

const QUOTAS: [Quota; 4] = [
    Quota {
        per_minute: 5,
        per_day: Some(30),
    },
    Quota {
        per_minute: 8,
        per_day: None,
    },
    Quota {
        per_minute: 6,
        per_day: Some(7),
    },
    Quota {
        per_minute: 0,
        per_day: Some(0),
    },
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait_s = prop_oneof![8 => 0_i64..40, 1 => 0_i64..2 * DAY_S];
    let quota = prop_oneof![6 => Just(0_usize), 1 => 1..QUOTAS.len()];
    let step = (wait_s, 0..3_usize, 0..2_usize, 0..4_u32, quota);
    let step = step.prop_map(|(wait_s, turn, key, cost, quota)| Step {
        wait_s,
        turn,
        key,
        cost,
        quota,
    });
    prop::collection::vec(step, 1..60)
}

/// Requests that were allowed of one key: when, how much, and whether it counts for the day.
#[derive(Default)]
struct Model(Vec<(i64, u32, bool)>);

impl Model {
    fn take(&mut self, now_s: i64, cost: u32, quota: &Quota) -> Decision {
        let used = |window_s: i64, days_only: bool| -> u32 {
            let same = |then_s: i64| then_s / window_s == now_s / window_s;
            let counted = self
                .0
                .iter()
                .filter(|(then_s, _, of_day)| same(*then_s) && (*of_day || !days_only));
            counted.map(|(_, cost, _)| cost).sum()
        };
        let (in_minute, in_day) = (used(60, false), used(DAY_S, true));
        let end_s = |window_s: i64| now_s - now_s % window_s + window_s;
        // A lowered quota leaves nothing, not less than nothing.
        let left_in_minute = quota.per_minute.max(in_minute) - in_minute;
        let left_in_day = quota.per_day.map(|limit| limit.max(in_day) - in_day);
        let refused = |limit, remaining, reset_unix_s: i64| Decision {
            allowed: false,
            limit,
            remaining,
            reset_unix_s,
            retry_after_s: u32::try_from(reset_unix_s - now_s).unwrap(),
        };
        match (quota.per_day, left_in_day) {
            (Some(limit), Some(left)) if cost > left => return refused(limit, left, end_s(DAY_S)),
            _ if cost > left_in_minute => return refused(quota.per_minute, left_in_minute, end_s(60)),
            _ => {}
        }
        self.0.push((now_s, cost, quota.per_day.is_some()));
        let of_minute = (left_in_minute - cost, quota.per_minute, end_s(60));
        let of_day = quota
            .per_day
            .zip(left_in_day)
            .map(|(limit, left)| (left - cost, limit, end_s(DAY_S)));
        let tighter = of_day.filter(|of_day| of_day.0 < of_minute.0).unwrap_or(of_minute);
        Decision {
            allowed: true,
            limit: tighter.1,
            remaining: tighter.0,
            reset_unix_s: tighter.2,
            retry_after_s: 0,
        }
    }
}

/// Holds `replicas` against the model, which sees them as one limiter. Blocks.
pub(crate) fn check(runtime: &Handle, replicas: &Replicas, cases: u32) {
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let case = std::cell::Cell::new(0);
    let checked = runner.run(&steps(), |steps| {
        let number = case.replace(case.get() + 1);
        let mut models = [Model::default(), Model::default()];
        replicas.clock.set_s(NOON_S);
        for (at, step) in steps.iter().enumerate() {
            replicas.clock.set_s(replicas.clock.now_s() + step.wait_s);
            let quota = &QUOTAS[step.quota];
            let key = format!("model {number} {}", step.key);
            let decision = runtime.block_on(replicas.take(step.turn, &key, step.cost, quota));
            let wanted = models[step.key].take(replicas.clock.now_s(), step.cost, quota);
            prop_assert_eq!(decision, wanted, "step {} of {:?}", at, steps);
        }
        Ok(())
    });
    checked.unwrap();
}

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{DAY_S, Grain, HALF_HOUR_S, QueryPlan, Units};

const DAY_MS: i64 = DAY_S as i64 * 1_000;
const HALF_HOUR_MS: i64 = HALF_HOUR_S as i64 * 1_000;

fn has_units(units: &Units, at_ms: i64) -> bool {
    let second = u32::try_from(at_ms / 1_000).unwrap();
    (units.from..units.to).contains(&second) && !units.cut.contains(&(second - second % units.unit_s))
}

/// The grain that an instant of the range comes from; `None` is `receipts`.
fn grain(plan: &QueryPlan, at_ms: i64) -> Option<Grain> {
    let level = plan.levels.iter().find(|level| has_units(&level.units, at_ms));
    assert!(level.is_some() || plan.has_rest);
    level.map(|level| level.grain)
}

/// Whether an end of the range or a boundary is strictly inside the instant's unit.
fn is_cut(range: &std::ops::Range<i64>, boundaries: &[i64], at_ms: i64, unit_ms: i64) -> bool {
    let start = at_ms - at_ms % unit_ms;
    let ends = [range.start, range.end];
    let inside = |ms: &i64| (start + 1..start + unit_ms).contains(ms);
    ends.iter().any(inside) || boundaries.iter().any(|ms| range.contains(ms) && inside(ms))
}

#[test]
fn every_instant_comes_from_the_coarsest_grain_that_nothing_cuts() {
    let mut rng = StdRng::seed_from_u64(7);
    for _ in 0..2_000 {
        let unit = [1, 1_000, HALF_HOUR_MS, DAY_MS][rng.random_range(0..4)];
        let at = |rng: &mut StdRng| rng.random_range(0..8 * DAY_MS) / unit * unit;
        let (one, other) = (at(&mut rng), at(&mut rng));
        let range = one.min(other)..one.max(other);
        let unit = [1, HALF_HOUR_MS / 2, HALF_HOUR_MS, DAY_MS][rng.random_range(0..4)];
        let boundaries: Vec<i64> = (0..rng.random_range(0..6))
            .map(|_| rng.random_range(0..8 * DAY_MS) / unit * unit)
            .collect();
        let grains: &[Grain] = [
            &[Grain::Purpose, Grain::Client, Grain::All][..],
            &[Grain::Client, Grain::All],
            &[Grain::Entry],
            &[Grain::All],
            &[],
        ][rng.random_range(0..5)];
        let plan = QueryPlan::new(range.clone(), &boundaries, |grain| grains.contains(&grain));
        for _ in 0..50.min(range.end - range.start) {
            let at = rng.random_range(range.clone());
            let is_whole = |unit_ms: i64| !is_cut(&range, &boundaries, at, unit_ms);
            let day = grains
                .iter()
                .find(|grain| matches!(grain, Grain::Client | Grain::Entry));
            let expected = if grains.contains(&Grain::Purpose) {
                is_whole(HALF_HOUR_MS).then_some(Grain::Purpose)
            } else if let Some(day) = day.filter(|_| is_whole(DAY_MS)) {
                Some(*day)
            } else {
                (grains.contains(&Grain::All) && is_whole(HALF_HOUR_MS)).then_some(Grain::All)
            };
            assert_eq!(grain(&plan, at), expected, "{at} {range:?} {boundaries:?} {plan:?}");
        }
    }
}

#[test]
fn an_unbounded_range_is_whole_days() {
    let plan = QueryPlan::new(i64::MIN..i64::MAX, &[], |grain| grain != Grain::Purpose);
    assert!(!plan.has_rest);
    let [level] = plan.levels.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!((level.grain, level.units.from), (Grain::Client, 0));
    assert_eq!(u64::from(level.units.to) * 1_000, 4_294_944_000_000);
}

#[test]
fn a_range_without_times_is_nothing() {
    let ends = [
        (5, 5),
        (5, 4),
        (i64::MAX, i64::MIN),
        (i64::MIN, -1),
        (i64::MAX - 1, i64::MAX),
    ];
    for (from_ms, to_ms) in ends {
        let plan = QueryPlan::new(from_ms..to_ms, &[], |_| true);
        assert!(plan.levels.is_empty() && !plan.has_rest, "{plan:?}");
    }
}

#[test]
fn minutes_are_read_from_receipts() {
    let boundaries: Vec<i64> = (0..44_640).map(|minute| minute * 60_000).collect();
    let plan = QueryPlan::new(0..31 * DAY_MS, &boundaries, |_| true);
    assert!(plan.levels.is_empty() && plan.has_rest);
}

#[test]
fn days_of_another_time_zone_are_half_hours() {
    // +5:45: every boundary cuts a day and a half hour.
    let boundaries: Vec<i64> = (0..30).map(|day| day * DAY_MS + DAY_MS - 20_700_000).collect();
    let range = boundaries[0]..*boundaries.last().unwrap();
    let plan = QueryPlan::new(range, &boundaries, |grain| grain != Grain::Purpose);
    let [level] = plan.levels.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!((level.grain, level.units.cut.len()), (Grain::All, 28));
    assert!(plan.has_rest);
}

#[test]
fn months_of_another_time_zone_are_days_but_for_those_that_are_cut() {
    let boundaries: Vec<i64> = (0..12).map(|month| month * 30 * DAY_MS + DAY_MS / 2).collect();
    let range = boundaries[0]..360 * DAY_MS;
    let plan = QueryPlan::new(range, &boundaries, |grain| grain != Grain::Purpose);
    let [days, half_hours] = plan.levels.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!((days.grain, days.units.cut.len()), (Grain::Client, 11));
    assert_eq!((half_hours.grain, half_hours.units.cut.len()), (Grain::All, 0));
    assert!(!plan.has_rest);
}

//! What came since: each receipt in exactly one link of any chain of moments.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use warehouse::{ARRIVALS_MAX, Below, LogPlace, Scope, Warehouse};

use crate::harness::{NOON_MS, Receipt, fresh, insert, position, run, sql};

const HOUR_MS: i64 = 3_600_000;
/// That of [`position`].
const EPOCH: u32 = 1;

fn hours(times_ms: impl IntoIterator<Item = i64>) -> BTreeSet<u32> {
    let hour = |ms: i64| u32::try_from(ms / HOUR_MS).unwrap();
    times_ms.into_iter().map(hour).collect()
}

fn at(next: &[u64]) -> LogPlace {
    LogPlace {
        epoch: EPOCH,
        next: next.to_vec(),
    }
}

fn news() -> Scope {
    Scope::of(vec!["news.example".to_owned()])
}

async fn ids(warehouse: &Warehouse, scope: &Scope, from: &LogPlace, to: &LogPlace, hours: &BTreeSet<u32>) -> Vec<Uuid> {
    let found = warehouse.arrivals(scope, from, to, hours).await.unwrap().unwrap();
    found.into_iter().map(|receipt| receipt.key.receipt_id).collect()
}

/// Any rows with copies anywhere, any chain of moments: the model is a set of what was told.
#[test]
fn each_receipt_is_new_in_exactly_one_link() {
    run(async {
        let warehouse = fresh().await;
        let mut rng = StdRng::seed_from_u64(7);
        for case in 0..8 {
            // Which receipt, in which of three partitions; and after which rows a moment is, in which one partition stays behind.
            let count = 1 + rng.random_range(0..40);
            let rows: Vec<_> = (0..count)
                .map(|_| (rng.random_range(0..12_u8), rng.random_range(0..3_usize)))
                .collect();
            let mut cuts: Vec<_> = (0..rng.random_range(0..6))
                .map(|_| (rng.random_range(0..count), rng.random_range(0..3_usize)))
                .collect();
            cuts.sort_unstable();
            check(&warehouse, case, &rows, &cuts).await;
        }
    });
}

async fn check(warehouse: &Warehouse, number: u32, rows: &[(u8, usize)], ends: &[(usize, usize)]) {
    let publisher = format!("case-{number}.example");
    let scope = Scope::of(vec![publisher.clone()]);
    let mut next = [0_u64; 3];
    let mut moments = vec![at(&next)];
    let mut stored = Vec::new();
    // Where each receipt stands, in the order of the log's partitions.
    let mut places: BTreeMap<Uuid, Vec<(usize, u64)>> = BTreeMap::new();
    for (row, (receipt, partition)) in rows.iter().enumerate() {
        let receipt = Receipt {
            publisher: publisher.clone(),
            timestamp_ms: NOON_MS - i64::from(receipt % 5) * 7 * HOUR_MS,
            ..Receipt::new(u128::from(*receipt))
        };
        let offset = next[*partition];
        places.entry(receipt.receipt_id).or_default().push((*partition, offset));
        stored.push((receipt, position(u32::try_from(*partition).unwrap(), offset, 0)));
        next[*partition] += 1;
        for (_, lags) in ends.iter().filter(|(end, _)| *end == row) {
            let mut moment = next;
            moment[*lags] = moments.last().unwrap().next[*lags];
            moments.push(at(&moment));
        }
    }
    moments.push(at(&next));
    insert(warehouse, &stored).await;
    let all = hours(stored.iter().map(|(receipt, _)| receipt.timestamp_ms));
    let mut told = BTreeSet::new();
    for link in moments.windows(2) {
        for id in ids(warehouse, &scope, &link[0], &link[1], &all).await {
            assert!(told.insert(id), "{id} twice, in {rows:?} at {moments:?}");
            let here = |(partition, offset): &(usize, u64)| link[1].next[*partition] > *offset;
            assert!(places[&id].iter().any(here), "{id} before it was committed");
        }
        let due = |(_, places): &(&Uuid, &Vec<(usize, u64)>)| {
            places
                .iter()
                .any(|(partition, offset)| link[1].next[*partition] > *offset)
        };
        let due: BTreeSet<Uuid> = places.iter().filter(due).map(|(id, _)| *id).collect();
        assert_eq!(told, due, "{rows:?} at {moments:?}");
    }
}

#[test]
fn only_the_scopes_own_of_this_life_of_the_log() {
    run(async {
        let warehouse = fresh().await;
        let other = Receipt {
            publisher: "other.example".to_owned(),
            ..Receipt::new(2)
        };
        let before = Receipt::new(3);
        let old = position(0, 900, 0) - (1 << 96);
        let rows = [
            (Receipt::new(1), position(0, 5, 0)),
            (other, position(0, 6, 0)),
            (before.clone(), position(0, 7, 0)),
            (before, old),
        ];
        insert(&warehouse, &rows).await;
        let noon = hours([NOON_MS]);
        let first = Receipt::new(1).receipt_id;
        let found = ids(&warehouse, &news(), &at(&[]), &at(&[8]), &noon).await;
        assert_eq!(found, [first], "another's, and one of the log before");
        assert!(ids(&warehouse, &news(), &at(&[]), &at(&[5]), &noon).await.is_empty());
        assert!(ids(&warehouse, &news(), &at(&[6]), &at(&[8]), &noon).await.is_empty());
        assert!(
            ids(&warehouse, &Scope::default(), &at(&[]), &at(&[8]), &noon)
                .await
                .is_empty()
        );
        assert!(
            ids(&warehouse, &news(), &at(&[]), &at(&[8]), &hours([NOON_MS + HOUR_MS]))
                .await
                .is_empty()
        );
    });
}

#[test]
fn more_than_may_be_found_is_said() {
    run(async {
        let warehouse = fresh().await;
        let rows: Vec<_> = (0..=ARRIVALS_MAX as u64)
            .map(|number| (Receipt::new(number.into()), position(0, number, 0)))
            .collect();
        insert(&warehouse, &rows).await;
        let noon = hours([NOON_MS]);
        let all = warehouse
            .arrivals(&news(), &at(&[]), &at(&[rows.len() as u64]), &noon)
            .await
            .unwrap();
        assert!(all.is_none());
        let but_one = ids(&warehouse, &news(), &at(&[1]), &at(&[rows.len() as u64]), &noon).await;
        assert_eq!(but_one.len(), ARRIVALS_MAX);
    });
}

#[test]
fn a_place_reaches_what_came_before_it() {
    for (later, earlier, reaches) in [
        (at(&[3, 4]), at(&[3, 4]), true),
        (at(&[3, 4]), at(&[3]), true),
        (at(&[3, 4]), at(&[4, 0]), false),
        (at(&[3]), at(&[3, 1]), false),
        (at(&[1]), LogPlace::default(), true),
        (
            LogPlace {
                epoch: EPOCH + 1,
                next: vec![9],
            },
            at(&[3]),
            false,
        ),
    ] {
        assert_eq!(later.reaches(&earlier), reaches, "{later:?} {earlier:?}");
    }
}

#[test]
fn marks_tell_the_hours_and_a_gap_tells_nothing() {
    run(async {
        let warehouse = fresh().await;
        let database = warehouse.database().to_owned();
        let marks = [
            "(1, 0, 0, 4, [(10, 'a.example'), (11, 'b.example')])",
            "(1, 0, 5, 9, [(12, 'x.a.example')])",
            "(1, 0, 5, 7, [(12, 'x.a.example')])",
            "(1, 1, 0, 2, [(13, '')])",
            "(2, 0, 0, 99, [(14, 'a.example')])",
            "(1, 0, 12, 20, [(15, 'a.example')])",
        ];
        let insert = format!(
            "INSERT INTO rollup_marks (epoch, partition, first_offset, last_offset, touched) VALUES {}",
            marks.join(", ")
        );
        assert_eq!(sql(&database, &insert).await, "");
        let own = |name: &str| Scope::of(vec![name.to_owned()]);
        let below = Scope {
            publishers: Vec::new(),
            below: vec![Below {
                parent: "a.example".to_owned(),
                except: Vec::new(),
            }],
        };
        let hours = async |from: &[u64], to: &[u64], scope: &Scope| {
            let touched = warehouse.touched(&at(from), &at(to)).await.unwrap();
            touched.map(|touched| touched.hours(scope).into_iter().collect::<Vec<_>>())
        };
        assert_eq!(hours(&[], &[10, 3], &own("a.example")).await, Some(vec![10, 13]));
        assert_eq!(hours(&[], &[10], &own("b.example")).await, Some(vec![11]));
        assert_eq!(hours(&[4], &[6], &below).await, Some(vec![12]), "blocks that it cuts");
        assert_eq!(hours(&[5], &[10], &own("a.example")).await, Some(vec![]));
        assert_eq!(hours(&[3, 3], &[3, 3], &own("a.example")).await, Some(vec![]));
        for (from, to) in [
            ([5, 0], [13, 0]),
            ([5, 0], [10, 4]),
            ([11, 0], [12, 0]),
            ([12, 0], [22, 0]),
        ] {
            assert_eq!(hours(&from, &to, &own("a.example")).await, None, "{from:?} {to:?}");
        }
        assert_eq!(hours(&[12], &[21], &own("a.example")).await, Some(vec![15]));
    });
}

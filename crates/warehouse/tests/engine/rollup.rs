//! Rolled rows tell what `receipts FINAL` tells: under duplicates, late and future receipts, erasures, crashes between any two
//! statements of a roll, rolls side by side, and gaps in the marks.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use warehouse::{
    CleanFrom, CommittedOffset, Filter, GroupBy, Hours, MarkRow, MetadataErasure, Metric, RollBounds, RollPlan,
    RollupView, Scope, Touched, Warehouse,
};

use crate::harness::{NOON_MS, Receipt, fresh, insert, position, run, sql};

const HOUR_MS: i64 = 3_600_000;
const PUBLISHERS: [&str; 3] = ["a.example", "b.example", "c.a.example"];

/// A verifier's and a roller's world: one partition, blocks of receipts, numbers of rolls.
struct World {
    warehouse: Warehouse,
    random: StdRng,
    next_offset: u64,
    numbers: u32,
    now_ms: i64,
}

impl World {
    async fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self {
            warehouse: fresh().await,
            random: StdRng::seed_from_u64(seed),
            next_offset: 0,
            numbers: 0,
            now_ms: NOON_MS,
        }
    }

    fn committed(&self) -> Vec<CommittedOffset> {
        vec![CommittedOffset {
            epoch: 1,
            partition: 0,
            next_offset: self.next_offset,
        }]
    }

    fn receipt(&mut self) -> Receipt {
        let random = &mut self.random;
        let hours = [0, 0, 0, 1, 2, 30, 200, -1][random.random_range(0..8)];
        let number: u128 = random.random_range(0..400);
        let client = random.random_range(1..5_u128);
        // Everything but its time of arrival is its number's, so that equal numbers are duplicates, or conflicts.
        let timestamp_ms = self.now_ms - hours * HOUR_MS - random.random_range(0..HOUR_MS);
        Receipt {
            publisher: PUBLISHERS[random.random_range(0..3)].to_owned(),
            timestamp_ms,
            entry_id: Uuid::from_u128(random.random_range(1..6)),
            url: format!("https://x.example/{}", random.random_range(0..3)),
            client_id: Uuid::from_u128(client),
            client_name: format!("reader {client} {}", random.random_range(0..2)),
            client_version: format!("1.{}", random.random_range(0..4)),
            organization: format!("readers {}", random.random_range(0..2)),
            purpose: ["training", "inference", "research"][random.random_range(0..3)].to_owned(),
            ..Receipt::new(number)
        }
    }

    /// Some receipts at the next offsets; `again` are older ones that come once more.
    async fn block(&mut self, again: &mut Vec<Receipt>) {
        let mut receipts: Vec<Receipt> = (0..self.random.random_range(1..12)).map(|_| self.receipt()).collect();
        for _ in 0..self.random.random_range(0..4) {
            if !again.is_empty() {
                receipts.push(again[self.random.random_range(0..again.len())].clone());
            }
        }
        again.extend(receipts.iter().cloned());
        // A crash before the commit: rows and marks stand, and come once more.
        for _ in 0..self.random.random_range(1..3) {
            self.write(&receipts).await;
        }
        self.next_offset += receipts.len() as u64;
    }

    /// Rows and marks, uncommitted.
    async fn write(&self, receipts: &[Receipt]) {
        self.mark(receipts).await;
        let offsets = self.next_offset..;
        let rows: Vec<_> = receipts
            .iter()
            .cloned()
            .zip(offsets.map(|offset| position(0, offset, 0)))
            .collect();
        insert(&self.warehouse, &rows).await;
    }

    async fn mark(&self, receipts: &[Receipt]) {
        let mut touched = Touched::default();
        for receipt in receipts {
            touched.add(receipt.timestamp_ms, &receipt.publisher);
        }
        let mark = MarkRow {
            epoch: 1,
            partition: 0,
            first_offset: self.next_offset,
            last_offset: self.next_offset + receipts.len() as u64 - 1,
            touched,
        };
        self.warehouse.insert_marks(&[mark]).await.unwrap();
    }

    /// Any of the last days.
    fn even_day(&mut self) -> u32 {
        u32::try_from(self.now_ms / (24 * HOUR_MS)).unwrap() - self.random.random_range(0..4)
    }

    async fn plan(&mut self) -> RollPlan {
        let bounds = RollBounds {
            settled_ms: self.now_ms - HOUR_MS / 2,
            rows_max: self.random.random_range(1..60),
            clean_from: Some(CleanFrom::default()),
            even_day: Some(self.even_day()),
        };
        self.warehouse.plan_roll(&self.committed(), &bounds, &[]).await.unwrap()
    }

    fn number(&mut self, plan: &RollPlan) -> u32 {
        self.numbers = self.numbers.max(plan.number_above()) + 1;
        self.numbers
    }

    /// A day passes: the state says when it was tidied.
    async fn pass_a_day(&mut self) {
        for _ in 0..2 {
            let yesterday = "INSERT INTO rollup_states (lineage, state) SELECT 0, (s.1 + 1, s.2,
                replaceRegexpOne(s.3, '\"version\":[0-9]+', concat('\"version\":', toString(s.1 + 1)))
                    AS renumbered) FROM (SELECT max(state) AS s FROM rollup_states)"
                .replace(
                    "replaceRegexpOne(s.3",
                    r#"replaceRegexpOne(replaceRegexpOne(s.3, '"tidied":\\[([0-9]+),[0-9]+\\]', '"tidied":[\\1,1]')"#,
                );
            sql(self.warehouse.database(), &yesterday).await;
            self.numbers += 1;
            self.roll_all().await;
        }
    }

    /// Rolls until there is nothing more to do.
    async fn roll_all(&mut self) {
        for _ in 0..200 {
            let plan = self.plan().await;
            if !plan.is_needed() {
                return;
            }
            let number = self.number(&plan);
            assert!(self.warehouse.roll(plan, number, 60).await.unwrap().counts);
        }
        panic!("rolling doesn't end");
    }

    async fn view(&self) -> RollupView {
        self.warehouse.rollup_view(&self.committed()).await.unwrap()
    }

    /// Rolled rows of clean hours and receipts of all others are what the receipts are. How many hours were clean.
    async fn assert_exact(&self) -> u64 {
        let view = self.view().await;
        let mut clean_hours = 0;
        for publishers in [&PUBLISHERS[..1], &PUBLISHERS[1..2], &PUBLISHERS[2..], &PUBLISHERS[..]] {
            let scope = Scope::of(publishers.iter().map(ToString::to_string).collect());
            let clean = view.clean_hours(&scope);
            clean_hours += clean.count();
            let mixed = sql(self.warehouse.database(), &mixed(publishers, &clean, &view)).await;
            let whole = sql(self.warehouse.database(), &mixed_of_none(publishers)).await;
            assert_eq!(mixed, whole, "{publishers:?} {clean:?} {view:?}");
            self.assert_answers(&scope, &view).await;
        }
        let off = self.warehouse.check_rollups(&view, 0..u32::MAX).await.unwrap();
        assert_eq!(off, [], "{view:?}");
        clean_hours
    }
}

impl World {
    /// Answers, part of which has been in memory since earlier views, are those over the receipts.
    async fn assert_answers(&self, scope: &Scope, view: &RollupView) {
        let nothing = RollupView::none();
        let (ours, plain) = (self.warehouse.usage(view), self.warehouse.usage(&nothing));
        for hours in [3, 40, 300] {
            let filter = Filter {
                from_ms: self.now_ms - hours * HOUR_MS + 7,
                to_ms: self.now_ms + 2 * HOUR_MS,
                ..Filter::default()
            };
            assert_eq!(
                ours.dashboard(scope, &filter, 3).await.unwrap(),
                plain.dashboard(scope, &filter, 3).await.unwrap(),
                "{filter:?} {view:?}"
            );
            assert_eq!(
                ours.top_content(scope, &filter, 3).await.unwrap(),
                plain.top_content(scope, &filter, 3).await.unwrap(),
                "{filter:?} {view:?}"
            );
            let half_hours: Vec<i64> = (0..2 * hours + 5)
                .map(|half| filter.from_ms - 7 + half * HOUR_MS / 2)
                .collect();
            let (metric, group) = (Metric::Receipts, GroupBy::Purpose);
            assert_eq!(
                ours.timeseries(scope, &filter, metric, &half_hours, group, 9)
                    .await
                    .unwrap(),
                plain
                    .timeseries(scope, &filter, metric, &half_hours, group, 9)
                    .await
                    .unwrap(),
                "{filter:?} {view:?}"
            );
        }
    }
}

fn mixed_of_none(publishers: &[&str]) -> String {
    mixed(publishers, &Hours::default(), &RollupView::none())
}

/// What an answer is made of, in every member of the rolled rows.
fn mixed(publishers: &[&str], clean: &Hours, view: &RollupView) -> String {
    let clean: Vec<String> = clean
        .ranges()
        .map(|hours| format!("hour BETWEEN {} AND {}", hours.start, hours.end - 1))
        .collect();
    let clean = if clean.is_empty() {
        "0".to_owned()
    } else {
        format!("({})", clean.join(" OR "))
    };
    let whose: Vec<String> = publishers.iter().map(|name| format!("'{name}'")).collect();
    let whose = format!("publisher IN ({})", whose.join(", "));
    let counted = format!(
        "(publisher, hour, version) IN (SELECT publisher, hour, max(version) FROM rollup_buckets
            WHERE {} GROUP BY publisher, hour)",
        view.versions_condition()
    );
    format!(
        "SELECT * FROM
        (
         SELECT 'client', publisher, toString(client), purpose, sum(n), min(first), max(last), argMax(name, (last, name)),
            argMax(org, (last, org)), toString(arraySort(groupUniqArray(text)))
         FROM
         (
            SELECT publisher, client_id AS client, toString(purpose) AS purpose, receipts AS n, first_ms AS first, last_ms AS last,
                toString(name) AS name, toString(organization) AS org, toString(client_version) AS text
            FROM usage_by_client WHERE {whose} AND {clean} AND {counted}
            UNION ALL
            SELECT publisher, client_id, toString(purpose), 1, toUnixTimestamp64Milli(timestamp), toUnixTimestamp64Milli(timestamp),
                toString(client_name), toString(organization), toString(client_version)
            FROM (SELECT *, toUInt32(intDiv(toUnixTimestamp64Milli(timestamp), 3600000)) AS hour FROM receipts FINAL)
            WHERE {whose} AND NOT {clean}
         )
         GROUP BY publisher, client, purpose
         UNION ALL
         SELECT 'entry', publisher, toString(entry), toString(client), sum(n), min(first), max(last), argMax(url, (last, url)), '',
            toString(arraySort(groupUniqArray(text)))
         FROM
         (
            SELECT publisher, entry_id AS entry, client_id AS client, receipts AS n, first_ms AS first, last_ms AS last, url,
                url AS text
            FROM usage_by_entry WHERE {whose} AND {clean} AND {counted}
            UNION ALL
            SELECT publisher, entry_id, client_id, 1, toUnixTimestamp64Milli(timestamp), toUnixTimestamp64Milli(timestamp), url, url
            FROM (SELECT *, toUInt32(intDiv(toUnixTimestamp64Milli(timestamp), 3600000)) AS hour FROM receipts FINAL)
            WHERE {whose} AND NOT {clean}
         )
         GROUP BY publisher, entry, client
        )
        ORDER BY ALL FORMAT TSV"
    )
}

#[test]
fn rolled_rows_tell_what_the_receipts_tell_whatever_comes() {
    run(async {
        let mut world = World::new(rand::random()).await;
        let mut again = Vec::new();
        let mut clean_hours = 0;
        for _ in 0..14 {
            for _ in 0..world.random.random_range(0..3) {
                world.block(&mut again).await;
            }
            world.now_ms += world.random.random_range(0..2) * HOUR_MS / 2;
            match world.random.random_range(0..8) {
                0 => {
                    // A roll that doesn't come to its end.
                    let plan = world.plan().await;
                    let number = world.number(&plan);
                    let mut steps = plan.into_steps(number).unwrap();
                    steps.truncate(world.random.random_range(0..=steps.len()));
                    for step in steps {
                        world.warehouse.roll_step(step).await.unwrap();
                    }
                }
                1 => world.roll_all().await,
                2 if world.random.random_range(0..3) == 0 => erase(&mut world, true).await,
                _ => {
                    let plan = world.plan().await;
                    if plan.is_needed() {
                        let number = world.number(&plan);
                        world.warehouse.roll(plan, number, 100).await.unwrap();
                    }
                }
            }
            clean_hours += world.assert_exact().await;
        }
        assert!(clean_hours > 0, "never was anything read from rolled rows");
        assert!(world.warehouse.recent_receipts() > 0, "nothing was held");
        world.roll_all().await;
        assert!(
            world.assert_exact().await > 4 * 190,
            "everything that is settled is rolled"
        );
    });
}

/// Erases what one publisher's receipts so far tell of their clients.
async fn erase(world: &mut World, to_the_end: bool) {
    let publisher = PUBLISHERS[world.random.random_range(0..3)];
    let erasure = MetadataErasure {
        scope: Scope::of(vec![publisher.to_owned()]),
        before_ms: world.now_ms,
    };
    assert!(to_the_end);
    world
        .warehouse
        .erase_metadata(&erasure, std::time::Duration::ZERO)
        .await
        .unwrap();
    assert!(world.warehouse.metadata_left(&erasure).await.unwrap().is_none());
}

/// A roll cut off after any of its statements, and those of another one before and after the rest of it.
#[test]
fn a_roll_counts_whole_or_not_at_all_also_beside_another() {
    run(async {
        let mut world = World::new(7).await;
        let mut again = Vec::new();
        for _ in 0..4 {
            world.block(&mut again).await;
        }
        world.roll_all().await;
        for cut in 0..6 {
            world.block(&mut again).await;
            let bounds = RollBounds {
                settled_ms: world.now_ms,
                rows_max: 1_000,
                clean_from: Some(CleanFrom::default()),
                even_day: Some(world.even_day()),
            };
            let plan = world
                .warehouse
                .plan_roll(&world.committed(), &bounds, &[])
                .await
                .unwrap();
            let number = world.number(&plan);
            let mut first = plan.into_steps(number).unwrap();
            let rest = first.split_off(cut.min(first.len() - 1));
            for step in first {
                world.warehouse.roll_step(step).await.unwrap();
            }
            world.assert_exact().await;
            // What comes now touches hours that the one under way has read already.
            world.block(&mut again).await;
            if cut % 2 == 0 {
                world.roll_all().await;
            }
            world.assert_exact().await;
            for step in rest {
                world.warehouse.roll_step(step).await.unwrap();
                world.assert_exact().await;
            }
            world.block(&mut again).await;
            world.assert_exact().await;
            world.roll_all().await;
            world.assert_exact().await;
            world.now_ms += HOUR_MS;
        }
    });
}

#[test]
fn without_its_marks_nothing_is_believed_until_it_is_rolled_anew() {
    run(async {
        let mut world = World::new(11).await;
        let mut again = Vec::new();
        world.block(&mut again).await;
        world.roll_all().await;
        assert!(!world.view().await.is_none());
        // A verifier of before: rows without marks.
        let receipt = world.receipt();
        insert(&world.warehouse, &[(receipt, position(0, world.next_offset, 0))]).await;
        world.next_offset += 1;
        assert!(world.view().await.is_none());
        world.block(&mut again).await;
        assert!(world.view().await.is_none(), "also with later marks");
        world.roll_all().await;
        assert!(world.assert_exact().await > 0);
        // Another life of the log.
        let other = CommittedOffset {
            epoch: 2,
            partition: 0,
            next_offset: 0,
        };
        assert!(world.warehouse.rollup_view(&[other]).await.unwrap().is_none());
        // A partition more is another matter: it is marked from its beginning.
        let more = CommittedOffset {
            epoch: 1,
            partition: 1,
            next_offset: 0,
        };
        let committed = [world.committed()[0], more];
        assert!(!world.warehouse.rollup_view(&committed).await.unwrap().is_none());
        let unmarked = CommittedOffset { next_offset: 1, ..more };
        let committed = [world.committed()[0], unmarked];
        assert!(world.warehouse.rollup_view(&committed).await.unwrap().is_none());
    });
}

#[test]
fn an_erasure_is_seen_at_once_and_its_rolled_rows_go() {
    run(async {
        let mut world = World::new(13).await;
        let mut again = Vec::new();
        for _ in 0..5 {
            world.block(&mut again).await;
        }
        world.roll_all().await;
        let erasure = MetadataErasure {
            scope: Scope::of(vec!["a.example".to_owned()]),
            before_ms: world.now_ms + 2 * HOUR_MS,
        };
        let found = world.warehouse.metadata_left(&erasure).await.unwrap();
        assert!(found.receipts > 0 && found.rolled > 0, "{found:?}");
        let clean = |view: RollupView, name: &str| !view.clean_hours(&Scope::of(vec![name.to_owned()])).is_empty();
        assert!(clean(world.view().await, "a.example"));
        world
            .warehouse
            .erase_metadata(&erasure, std::time::Duration::ZERO)
            .await
            .unwrap();
        assert!(world.warehouse.metadata_left(&erasure).await.unwrap().is_none());
        assert!(!clean(world.view().await, "a.example") && clean(world.view().await, "b.example"));
        world.assert_exact().await;
        world.roll_all().await;
        assert!(clean(world.view().await, "a.example"));
        world.assert_exact().await;
        assert!(world.warehouse.metadata_left(&erasure).await.unwrap().is_none());
        let told = "SELECT countIf(name != '') FROM usage_by_client WHERE publisher = 'a.example'";
        assert_eq!(sql(world.warehouse.database(), told).await, "0\n");
    });
}

#[test]
fn rows_that_do_not_count_any_more_go_after_a_day() {
    run(async {
        let mut world = World::new(17).await;
        let mut again = Vec::new();
        let rows = "SELECT (SELECT count() FROM usage_by_client), (SELECT count() FROM usage_by_entry), (SELECT count() FROM rollup_buckets)";
        for _ in 0..3 {
            for _ in 0..3 {
                world.block(&mut again).await;
                world.roll_all().await;
            }
            world.pass_a_day().await;
            world.assert_exact().await;
        }
        let before = sql(world.warehouse.database(), rows).await;
        world.warehouse.reset_rollups().await.unwrap();
        assert!(world.view().await.is_none());
        world.roll_all().await;
        world.assert_exact().await;
        world.pass_a_day().await;
        world.assert_exact().await;
        assert_eq!(
            sql(world.warehouse.database(), rows).await,
            before,
            "nothing superseded was left"
        );
    });
}

//! Queries over the real engine: the ends of lists and ranges, and which table answers. That the
//! numbers are right is compared over HTTP, by `analytics-api/tests/exact`.

mod harness;
#[path = "../../../../warehouse/tests/engine/receipt.rs"]
mod receipt;

use std::collections::BTreeSet;

use usage::{DashboardStats, GroupBy, Metric, Ranking, RankingPage, RankingSort, Usage};
use uuid::Uuid;
use warehouse::{Below, Filter, MemberFilter, QueryScope, SqlStatement, WarehouseError};

use self::harness::{batch, compensate, count, insert};
use self::receipt::{NOON_MS, Receipt};
use crate::engine::{fresh, run};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
const METRICS: [Metric; 3] = [Metric::Receipts, Metric::Clients, Metric::Content];
const GROUPS: [&[GroupBy]; 8] = [
    &[],
    &[GroupBy::Purpose],
    &[GroupBy::Client],
    &[GroupBy::Entry],
    &[GroupBy::Model],
    &[GroupBy::Operator],
    &[GroupBy::Operator, GroupBy::Purpose],
    &[GroupBy::Model, GroupBy::Client],
];

fn always() -> Filter {
    Filter {
        from_ms: i64::MIN,
        to_ms: i64::MAX,
        ..Filter::default()
    }
}

fn news() -> QueryScope {
    QueryScope::of(vec!["news.example".to_owned()])
}

fn by_id(rows_max: u32) -> RankingPage {
    RankingPage {
        sort: RankingSort::Id,
        is_descending: false,
        ..RankingPage::top(rows_max)
    }
}

/// Receipts of the twenty days before noon, on, just before and just after half hours; `begin` is
/// the number of the first.
fn receipts(begin: u32, count: u32) -> Vec<Receipt> {
    let receipt = |number: u32| {
        let offset_ms = i64::from(number % 3) - 1;
        Receipt {
            timestamp_ms: NOON_MS - i64::from(number * 7 % 960) * HOUR_MS / 2 - offset_ms,
            entry_id: Uuid::from_u128(u128::from(number % 5)),
            url: format!("https://news.example/{}", number % 5),
            client_id: Uuid::from_u128(u128::from(number % 4)),
            client_name: format!("client {}", number % 4),
            purpose: ["training", "inference", "research"][number as usize % 3].to_owned(),
            model_id: ["", "model"][number as usize % 2].to_owned(),
            operator: ["", "ai.example"][number as usize % 7 / 4].to_owned(),
            ..Receipt::new(u128::from(number))
        }
    };
    (begin..begin + count).map(receipt).collect()
}

/// Compares the answers of two tables to a query of the news.
macro_rules! alike {
    ($one:ident, $other:ident, $filter:ident, $query:ident($($argument:expr),*)) => {
        let scope = news();
        let (found, expected) = tokio::join!(
            $one.$query(&scope, $filter, $($argument),*),
            $other.$query(&scope, $filter, $($argument),*)
        );
        assert_eq!(found.unwrap(), expected.unwrap(), "{} {:?}", stringify!($query), $filter);
    };
}

/// Asserts that two tables answer each query without an ID alike.
async fn assert_alike(one: &Usage, other: &Usage, filter: &Filter) {
    alike!(one, other, filter, dashboard(5));
    for sort in [RankingSort::Receipts, RankingSort::LastSeen, RankingSort::Name] {
        let page = RankingPage {
            sort,
            ..RankingPage::top(5)
        };
        alike!(one, other, filter, top_content(&page, None));
        alike!(one, other, filter, top_clients(&page, None));
    }
    let page = RankingPage::top(5);
    let uses = by_id(5);
    alike!(one, other, filter, entry_clients(&uses));
    alike!(one, other, filter, by_model(&page));
    alike!(one, other, filter, by_operator(&page));
    alike!(one, other, filter, by_purpose());
    for unit_ms in [HOUR_MS, DAY_MS] {
        let begin_ms = (NOON_MS - 21 * DAY_MS) / DAY_MS * DAY_MS;
        let boundaries: Vec<i64> = (0..22 * DAY_MS / unit_ms)
            .map(|unit| begin_ms + unit * unit_ms)
            .collect();
        for (metric, group_by) in METRICS
            .into_iter()
            .flat_map(|metric| GROUPS.map(|group| (metric, group)))
        {
            alike!(one, other, filter, timeseries(metric, &boundaries, group_by, 3));
        }
    }
}

/// Asserts that two tables answer queries about an entry and a client alike, which also read names
/// from `receipts`.
async fn assert_details_alike(one: &Usage, other: &Usage, filter: &Filter) {
    alike!(one, other, filter, content(Uuid::from_u128(1), 5));
    alike!(one, other, filter, client(Uuid::from_u128(1), 5));
}

#[test]
fn an_empty_scope_sees_nothing() {
    run(async {
        let usage = fresh().await;
        insert(&usage, &[Receipt::new(1)], 0).await;
        let (nobody, filter) = (QueryScope::default(), always());
        let id = Uuid::from_u128(7);
        assert_eq!(
            usage.dashboard(&nobody, &filter, 5).await.unwrap(),
            DashboardStats::default()
        );
        let top = RankingPage::top(5);
        assert_eq!(
            usage.by_model(&nobody, &filter, &top).await.unwrap(),
            Ranking::default()
        );
        assert_eq!(
            usage.top_content(&nobody, &filter, &top, None).await.unwrap(),
            Ranking::default()
        );
        assert_eq!(
            usage.top_clients(&nobody, &filter, &top, None).await.unwrap(),
            Ranking::default()
        );
        assert_eq!(
            usage.entry_clients(&nobody, &filter, &by_id(5)).await.unwrap(),
            Ranking::default()
        );
        assert!(usage.entries_with_url(&nobody, "news", 5).await.unwrap().is_empty());
        assert_eq!(usage.content(&nobody, &filter, id, 5).await.unwrap().total_receipts, 0);
        assert_eq!(usage.client(&nobody, &filter, id, 5).await.unwrap().total_receipts, 0);
        let points = usage.timeseries(&nobody, &filter, Metric::Receipts, &[0], &[], 5);
        assert!(points.await.unwrap().is_empty());
        let found = usage.dashboard(&news(), &filter, 0).await.unwrap();
        assert_eq!((found.total_receipts, found.top_content.len()), (1, 0));
    });
}

#[test]
fn uses_of_entries_by_clients_add_up_to_both_lists() {
    run(async {
        let usage = fresh().await;
        insert(&usage, &receipts(0, 400), 0).await;
        let filter = Filter {
            from_ms: NOON_MS - 9 * DAY_MS - 5,
            to_ms: NOON_MS - DAY_MS - 7,
            ..Filter::default()
        };
        let mut whole = Vec::new();
        for rows_max in [1_000, 7, 1] {
            let (mut pairs, mut page) = (Vec::new(), by_id(rows_max));
            loop {
                let found = usage.entry_clients(&news(), &filter, &page).await.unwrap();
                assert!(found.items.len() <= rows_max as usize);
                pairs.extend(found.items);
                page.after = found.next;
                if page.after.is_none() {
                    break;
                }
            }
            if whole.is_empty() {
                whole.clone_from(&pairs);
            }
            assert_eq!(pairs, whole, "pages of {rows_max}");
        }
        assert_eq!(whole.len(), 5 * 4);
        let entries = usage.top_content(&news(), &filter, &by_id(9), None).await.unwrap();
        for entry in entries.items.into_iter().map(|one| one.content) {
            let mine = whole.iter().filter(|pair| pair.entry_id == entry.entry_id);
            assert!(mine.clone().all(|pair| pair.url == entry.url));
            assert_eq!(
                mine.clone().map(|pair| pair.by_trust.proven).sum::<u64>(),
                entry.by_trust.proven
            );
            assert_eq!(mine.map(|pair| pair.by_trust.total()).sum::<u64>(), entry.receipt_count);
        }
        let clients = usage.top_clients(&news(), &filter, &by_id(9), None).await.unwrap();
        for client in clients.items {
            let mine = whole.iter().filter(|pair| pair.client_id == client.client_id);
            let names = (&client.name, &client.organization, &client.operator);
            assert!(
                mine.clone()
                    .all(|pair| (&pair.name, &pair.organization, &pair.operator) == names)
            );
            assert_eq!(
                mine.map(|pair| pair.by_trust.total()).sum::<u64>(),
                client.receipt_count
            );
        }
    });
}

#[test]
fn whole_days_are_answered_without_receipts() {
    run(async {
        let (stored, counted) = (fresh().await, fresh().await);
        insert(&stored, &receipts(0, 300), 0).await;
        // Counted, but not stored.
        count(&counted, &[batch(&receipts(0, 300), 0)]).await;
        let days = Filter {
            from_ms: (NOON_MS - 9 * DAY_MS) / DAY_MS * DAY_MS,
            to_ms: NOON_MS / DAY_MS * DAY_MS,
            ..Filter::default()
        };
        for filter in [always(), days] {
            assert!(stored.dashboard(&news(), &filter, 5).await.unwrap().total_receipts > 50);
            assert_alike(&counted, &stored, &filter).await;
        }
        // A range that cuts a half hour needs the receipts.
        let cut = Filter {
            // Behind the receipt number 1.
            to_ms: NOON_MS - 7 * HOUR_MS / 2 + 1,
            ..always()
        };
        let found = counted.dashboard(&news(), &cut, 5).await.unwrap();
        assert_ne!(found, stored.dashboard(&news(), &cut, 5).await.unwrap());
    });
}

#[test]
fn compensated_receipts_show_nowhere() {
    run(async {
        let (usage, expected) = (fresh().await, fresh().await);
        for usage in [&usage, &expected] {
            insert(usage, &receipts(0, 200), 0).await;
        }
        let mut lost = receipts(1_000, 200);
        for receipt in &mut lost {
            // Keys of their own: one that is compensated in part would keep its times.
            receipt.url.push_str("?lost");
            receipt.model_id.push_str(" lost");
        }
        let lost = batch(&lost, 1_000);
        count(&usage, std::slice::from_ref(&lost)).await;
        compensate(&usage, lost).await;
        for is_merged in [false, true] {
            for to_ms in [i64::MAX, NOON_MS - 3 * DAY_MS, NOON_MS - 3 * DAY_MS + 1] {
                let filter = Filter { to_ms, ..always() };
                assert_alike(&usage, &expected, &filter).await;
                assert_details_alike(&usage, &expected, &filter).await;
            }
            if !is_merged {
                let merge = SqlStatement::new("OPTIMIZE TABLE usage FINAL");
                usage.warehouse().execute("test", merge).await.unwrap();
            }
        }
    });
}

#[test]
fn lists_of_texts_are_the_first_hundred() {
    run(async {
        let usage = fresh().await;
        let receipt = |number: u32| Receipt {
            timestamp_ms: NOON_MS - i64::from(number),
            url: format!("https://news.example/7?{number:03}"),
            client_version: format!("1.{:03}", 200 - number),
            ..Receipt::new(u128::from(number))
        };
        let receipts: Vec<Receipt> = (0..150).map(receipt).collect();
        insert(&usage, &receipts, 0).await;
        for to_ms in [i64::MAX, NOON_MS + 1] {
            let filter = Filter { to_ms, ..always() };
            let found = usage.content(&news(), &filter, Uuid::from_u128(7), 1).await.unwrap();
            let urls: Vec<String> = (0..100).map(|number| receipt(number).url).collect();
            assert_eq!(found.urls, urls);
            let found = usage.client(&news(), &filter, Uuid::from_u128(9), 1).await.unwrap();
            let versions: Vec<String> = (0..100).map(|number| receipt(149 - number).client_version).collect();
            assert_eq!(found.keys[0].versions, versions);
            assert_eq!(found.top_content[0].url, receipt(0).url);
        }
    });
}

#[test]
fn a_month_of_minutes_is_the_longest_series() {
    run(async {
        let usage = fresh().await;
        insert(&usage, &receipts(0, 300), 0).await;
        let (scope, filter) = (news(), always());
        let sum = async |boundaries: &[i64], group_by: &[GroupBy]| {
            let points = usage.timeseries(&scope, &filter, Metric::Receipts, boundaries, group_by, 3);
            let points = points.await.unwrap();
            points.iter().map(|point| point.value).sum::<u64>()
        };
        let begin_ms = NOON_MS - 31 * DAY_MS;
        let mut boundaries: Vec<i64> = (0..44_640).map(|minute| begin_ms + minute * MINUTE_MS).collect();
        assert_eq!(sum(&boundaries, &[]).await, 300);
        assert!(sum(&boundaries, &[GroupBy::Entry]).await > 150);
        // Years of hours in another time zone cut more half hours than a statement lists.
        let hours = (0..44_640).map(|hour| NOON_MS + 15 * MINUTE_MS - hour * HOUR_MS);
        let hours: Vec<i64> = hours.rev().collect();
        assert_eq!(sum(&hours, &[GroupBy::Purpose]).await, 300);
        boundaries.push(NOON_MS);
        let refused = usage.timeseries(&scope, &filter, Metric::Receipts, &boundaries, &[], 3);
        assert!(matches!(refused.await, Err(WarehouseError::TooLarge { .. })));
    });
}

#[test]
fn of_receipts_of_one_millisecond_the_greatest_text_counts() {
    run(async {
        let usage = fresh().await;
        // The greatest text of the millisecond also has a receipt that is later on the same day.
        let receipt = |number: u128, later_ms: i64, text: &str, purpose: &str| Receipt {
            timestamp_ms: NOON_MS + later_ms,
            url: format!("https://news.example/7?{text}"),
            client_name: text.to_owned(),
            purpose: purpose.to_owned(),
            ..Receipt::new(number)
        };
        let receipts = [
            receipt(1, 0, "a", "training"),
            receipt(2, 0, "b", "training"),
            receipt(3, 5, "b", "training"),
            receipt(4, 5, "c", "research"),
        ];
        insert(&usage, &receipts, 0).await;
        for (to_ms, purpose, text) in [
            (NOON_MS + 1, None, "b"),
            (i64::MAX, None, "c"),
            (i64::MAX, Some("training"), "b"),
            (NOON_MS + 1, Some("training"), "b"),
        ] {
            let purpose = MemberFilter::among(purpose.map(str::to_owned).into_iter().collect());
            let filter = Filter {
                to_ms,
                purpose,
                ..always()
            };
            let found = usage
                .top_content(&news(), &filter, &RankingPage::top(5), None)
                .await
                .unwrap();
            assert_eq!(found.items[0].content.url, format!("https://news.example/7?{text}"));
            let found = usage
                .top_clients(&news(), &filter, &RankingPage::top(5), None)
                .await
                .unwrap();
            assert_eq!(found.items[0].name, text);
            let found = usage.content(&news(), &filter, Uuid::from_u128(7), 5).await.unwrap();
            assert_eq!(found.top_clients[0].name, text);
        }
    });
}

#[test]
fn a_domains_subdomains_are_found_by_the_primary_key() {
    run(async {
        let usage = fresh().await;
        // 50 domains with 40 hosts each.
        let hosts = (0..2_000u32).map(|number| Receipt {
            publisher: format!("h{}.d{}.example", number / 50, number % 50),
            ..Receipt::new(u128::from(number))
        });
        insert(&usage, &hosts.collect::<Vec<_>>(), 0).await;
        let below = |domain: usize, except: &[&str]| Below {
            parent: format!("d{domain}.example"),
            except: except.iter().map(ToString::to_string).collect(),
        };
        let scope = |own: &[&str], below: Vec<Below>| QueryScope {
            publishers: own.iter().map(ToString::to_string).collect(),
            below,
        };
        let ask = async |scope: &QueryScope, select: &str| {
            let sql = select.replace("{scope}", &scope.condition());
            usage
                .warehouse()
                .one::<String>("test", scope.bind(SqlStatement::new(sql)))
                .await
        };
        for (scope, receipts, granules_max) in [
            (scope(&["d7.example", "h1.d8.example"], vec![below(7, &[])]), 41, 3),
            (scope(&[], vec![below(7, &["h1.d7.example"]), below(17, &[])]), 79, 4),
            (
                scope(&["h1.d49.example"], (0..20).map(|one| below(one, &[])).collect()),
                801,
                9,
            ),
        ] {
            let count = "SELECT toString(sum(receipts)) FROM usage WHERE grain = 'client' AND {scope}";
            assert_eq!(ask(&scope, count).await.unwrap(), receipts.to_string(), "{scope:?}");
            let explained = "SELECT arrayStringConcat(groupArray(explain), '\n') FROM (
                EXPLAIN indexes = 1 SELECT sum(receipts) FROM usage WHERE grain = 'client' AND {scope})";
            let plan = ask(&scope, explained).await.unwrap();
            let (_, granules) = plan.rsplit_once("Granules: ").unwrap();
            let (read, of) = granules.split_once('/').unwrap();
            let of: u32 = of.split_whitespace().next().unwrap().parse().unwrap();
            assert!(read.parse::<u32>().unwrap() <= granules_max && of > 16, "{plan}");
        }
    });
}

/// A receipt of one of 10,000 entries, by one of 2,000 clients.
fn one_of_many(number: u32) -> Receipt {
    Receipt {
        timestamp_ms: NOON_MS - i64::from(number % 20) * DAY_MS,
        entry_id: Uuid::from_u128(u128::from(number % 10_000) + 1),
        client_id: Uuid::from_u128(u128::from(number % 2_000) + 1),
        ..Receipt::new(u128::from(number))
    }
}

/// IDs on all pages of a ranking of entries or clients, while receipts from `next_number` on
/// arrive.
async fn walked(
    usage: &Usage,
    (sort, is_descending): (RankingSort, bool),
    is_content: bool,
    next_number: &mut u32,
) -> Vec<Uuid> {
    let mut found = Vec::new();
    let mut page = RankingPage {
        sort,
        is_descending,
        ..RankingPage::top(700)
    };
    loop {
        let next = if is_content {
            let ranking = usage.top_content(&news(), &always(), &page, None).await.unwrap();
            assert_eq!(ranking.total, 10_000);
            found.extend(ranking.items.iter().map(|entry| entry.content.entry_id));
            ranking.next
        } else {
            let ranking = usage.top_clients(&news(), &always(), &page, None).await.unwrap();
            assert_eq!(ranking.total, 2_000);
            found.extend(ranking.items.iter().map(|client| client.client_id));
            ranking.next
        };
        let Some(next) = next else { return found };
        page.after = Some(next);
        let arriving: Vec<Receipt> = (0..5).map(|one| one_of_many(*next_number + one * 1_777)).collect();
        insert(usage, &arriving, u64::from(*next_number)).await;
        *next_number += 10_000;
    }
}

#[test]
fn long_lists_are_complete_while_receipts_arrive() {
    run(async {
        let usage = fresh().await;
        insert(&usage, &(0..10_000).map(one_of_many).collect::<Vec<_>>(), 0).await;
        let mut next_number = 10_003;
        for (is_content, rows) in [(true, 10_000), (false, 2_000)] {
            for is_descending in [false, true] {
                // IDs never change: nothing is missing, and nothing occurs twice.
                let found = walked(&usage, (RankingSort::Id, is_descending), is_content, &mut next_number).await;
                assert_eq!(found.len(), rows);
                assert!(found.is_sorted_by(|one, next| if is_descending { one > next } else { one < next }));
            }
            // A row that gains receipts only moves up: it may be missing, but occurs once.
            let found = walked(&usage, (RankingSort::Receipts, true), is_content, &mut next_number).await;
            let distinct: BTreeSet<_> = found.iter().collect();
            assert_eq!(distinct.len(), found.len());
            assert!(found.len() <= rows && found.len() + 80 > rows);
        }
    });
}

#[test]
fn a_position_is_one_of_any_text() {
    run(async {
        let usage = fresh().await;
        // Long models with one beginning, a character that the limit cuts, and a NUL.
        let models = [
            "",
            "m",
            "M",
            "m\0x",
            &"m".repeat(200),
            &"m".repeat(201),
            &"\u{f6}".repeat(100),
        ];
        let receipts = models.iter().zip(0..).map(|(model, number)| Receipt {
            model_id: (*model).to_owned(),
            client_name: format!("{model}'s"),
            client_id: Uuid::from_u128(number),
            ..Receipt::new(number)
        });
        insert(&usage, &receipts.collect::<Vec<_>>(), 0).await;
        for sort in [RankingSort::Id, RankingSort::Receipts, RankingSort::Name] {
            let (mut found, mut names) = (BTreeSet::new(), BTreeSet::new());
            let mut page = RankingPage {
                sort,
                ..RankingPage::top(1)
            };
            for number in 1..=models.len() {
                let ranking = usage.by_model(&news(), &always(), &page).await.unwrap();
                found.extend(ranking.items.into_iter().map(|model| model.key));
                let clients = usage.top_clients(&news(), &always(), &page, None).await.unwrap();
                if sort == RankingSort::Name {
                    page.after = clients.next;
                    names.extend(clients.items.into_iter().map(|client| client.name));
                    assert_eq!(names.len(), number);
                } else {
                    page.after = ranking.next;
                    assert_eq!(found.len(), number);
                }
            }
            assert_eq!(page.after, None, "{sort:?}");
        }
    });
}

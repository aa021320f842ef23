//! Mails about numbers: they say what the API answers at the same position, once, and alerts come
//! only where there is something to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use accounts::{
    Accounts, AccountsConfig, MailSubject, MailedReport, NewKey, PeriodReport, ReportChoice, ReportedUse, Scope,
    Subject, Tier, User,
};
use analytics_api::{AnalyticsConfig, Deps, Reporter};
use blocks::{AcceptedRow, Rows};
use serde_json::{Value, json};
use service::health::Health;
use usage::Usage;
use uuid::Uuid;
use warehouse::{Target, Warehouse, WarehouseConfig};

use crate::progress::FakeProgress;
use crate::rows::{client, entry, ms, payload_hash, row, url};
use crate::stack::{Server, Stack};

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

/// Numbers receipts, so that none is a duplicate of another.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// An account with a domain of its own, beside a clock and a position that the test sets.
struct World {
    domain: &'static str,
    account_id: String,
    user: User,
    key: String,
    clock: Arc<AtomicI64>,
    progress: Arc<FakeProgress>,
    deps: Deps,
}

/// Uses by one client at one time.
#[derive(Clone, Copy)]
struct Used {
    at: &'static str,
    client: u8,
    operator: &'static str,
    entry: u8,
    times: u32,
}

fn used(at: &'static str, client: u8, operator: &'static str, times: u32) -> Used {
    Used {
        at,
        client,
        operator,
        entry: client,
        times,
    }
}

async fn user(accounts: &Accounts, name: &str) -> User {
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: name.to_owned(),
        email: Some(format!("{name}@mail.test").parse().unwrap()),
        name: None,
    };
    accounts.sign_in(&subject).await.unwrap()
}

impl World {
    /// At `now`, with everything counted.
    async fn new(stack: &Stack, domain: &'static str, now: &str) -> Self {
        let clock = Arc::new(AtomicI64::new(ms(now)));
        let reader = Arc::clone(&clock);
        let dir = stack.dir.path();
        let accounts =
            Accounts::open_with_clock(&AccountsConfig::default(), dir, move || reader.load(Ordering::SeqCst))
                .await
                .unwrap();
        let user = user(&accounts, domain).await;
        let account_id = accounts.own_account(&user.id).await.unwrap().unwrap();
        let new = NewKey {
            domains: vec![domain.parse().unwrap()],
            account_id: Some(account_id.clone()),
            tier: Some(Tier::Enterprise),
            is_limited: false,
            name: "test".to_owned(),
            scopes: vec![Scope::Read],
            expires_at_ms: ms(now) + 100 * 24 * HOUR_MS,
        };
        let key = accounts.create_publisher_key(new).await.unwrap().issued.api_key;
        let progress = Arc::new(FakeProgress::default());
        let deps = Deps {
            accounts,
            progress: progress.clone(),
            health: Health::new(),
            ..stack.deps.clone()
        };
        let world = Self {
            domain,
            account_id,
            user,
            key,
            clock,
            progress,
            deps,
        };
        world.complete(now, MINUTE_MS);
        world
    }

    /// Everything before `at` is counted, and that was `age_ms` ago.
    fn complete(&self, at: &str, age_ms: i64) {
        self.progress.complete_ms.store(ms(at), Ordering::SeqCst);
        self.clock.store(ms(at) + age_ms, Ordering::SeqCst);
    }

    fn reporter(&self) -> Reporter {
        Self::reporter_on(self.deps.clone())
    }

    fn reporter_on(deps: Deps) -> Reporter {
        let config = AnalyticsConfig {
            watermark_age_ms_max: 0,
            ..AnalyticsConfig::default()
        };
        Reporter::new(config, deps)
    }

    /// The number of mails that a round queues, and of its queries: each reads the progress first,
    /// as the round does.
    async fn counted_round(&self, reporter: &Reporter) -> (u64, u64) {
        let before = self.progress.reads.load(Ordering::SeqCst);
        let mails = reporter.round().await.unwrap();
        (mails, self.progress.reads.load(Ordering::SeqCst) - before - 1)
    }

    /// The number of mails that a round queues after a restart.
    async fn round(&self) -> u64 {
        self.reporter().round().await.unwrap()
    }

    async fn choose(&self, user: &User, choice: ReportChoice) {
        let accounts = &self.deps.accounts;
        assert!(
            accounts
                .choose_reports(&self.account_id, &user.id, &choice)
                .await
                .unwrap()
        );
    }

    /// The mails that are queued, as they are sent.
    async fn mails(&self) -> Vec<(String, MailedReport)> {
        let (accounts, mut mails) = (&self.deps.accounts, Vec::new());
        while let Some(mail) = accounts.claim_mail("here", MINUTE_MS).await.unwrap() {
            accounts.mail_sent(&mail.id, "here").await.unwrap();
            let MailSubject::Report { account_name, report } = mail.about else {
                panic!("{mail:?}");
            };
            assert_eq!(account_name, self.domain);
            mails.push((mail.to, *report));
        }
        mails
    }

    async fn insert(&self, uses: &[Used]) {
        let mut rows = Rows::default();
        for one in uses {
            for _ in 0..one.times {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let receipt_id = Uuid::from_u128((7 << 96) | u128::from(number));
                rows.push_accepted(&AcceptedRow {
                    publisher: self.domain,
                    timestamp_ms: ms(one.at),
                    receipt_id,
                    payload_hash: &payload_hash(receipt_id, 1),
                    position: (9_u128 << 96) | u128::from(number) << 16,
                    url: &url(entry(one.entry)),
                    client_name: &format!("Client {}", one.client),
                    key_fingerprint: &[one.client; 32],
                    operator: one.operator,
                    ..row(client(one.client), entry(one.entry))
                });
            }
        }
        let (accepted, _) = rows.batches().unwrap();
        let usage = Usage::new(self.deps.warehouse.clone());
        usage.insert_counted(&[accepted]).await.unwrap();
    }

    async fn get(&self, server: &Server, path: &str) -> Value {
        let answer = server.get(path, &self.key, &[]).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }
}

fn listed(uses: &[ReportedUse]) -> Value {
    uses.iter().map(|one| json!([one.name, one.uses])).collect()
}

fn shown(answer: &Value, list: &str, name: &str) -> Value {
    let rows = answer[list].as_array().unwrap();
    rows.iter().map(|one| json!([one[name], one["receiptCount"]])).collect()
}

pub(crate) async fn mails_of_a_week_and_a_month_have_the_numbers_of_the_api(stack: &Stack) {
    let world = World::new(stack, "reports.example", "2026-03-25T12:00:00Z").await;
    world
        .insert(&[
            used("2026-02-10T10:00:00Z", 1, "known.example", 3),
            used("2026-03-17T10:00:00Z", 1, "known.example", 4),
            used("2026-03-23T00:00:00Z", 1, "known.example", 5),
            used("2026-03-25T10:00:00Z", 2, "new.example", 2),
            used("2026-03-29T23:59:59.999Z", 3, "", 3),
            used("2026-03-30T00:00:00Z", 4, "later.example", 7),
        ])
        .await;
    let both = ReportChoice {
        weekly: true,
        monthly: true,
        ..ReportChoice::default()
    };
    world.choose(&world.user, both).await;
    // The week before ended before the mail was chosen, and this one isn't over.
    world.complete("2026-03-29T23:59:59.999Z", MINUTE_MS);
    assert_eq!(world.round().await, 0);
    world.complete("2026-03-30T00:00:00Z", MINUTE_MS);
    assert_eq!(world.round().await, 1);
    assert_eq!(world.round().await, 0);
    let mails = world.mails().await;
    let [(to, MailedReport::Weekly(week))] = &mails[..] else {
        panic!("{mails:?}");
    };
    assert_eq!(to, "reports.example@mail.test");
    let PeriodReport {
        from_ms, to_ms, uses, ..
    } = *week;
    assert_eq!(
        (from_ms, to_ms),
        (ms("2026-03-23T00:00:00Z"), ms("2026-03-30T00:00:00Z"))
    );
    assert_eq!((uses, week.uses_before, week.unproven), (10, 4, 3));
    assert_eq!(listed(&week.new_operators), json!([["new.example", 2]]));
    assert_eq!(week.new_operators_total, 1);
    let proven: Vec<bool> = week.top_services.iter().map(|one| one.is_proven).collect();
    assert_eq!(proven, [true, false, true]);

    let server = Server::start(AnalyticsConfig::default(), world.deps.clone()).await;
    let range = "from=2026-03-23&to=2026-03-30";
    let path = format!("/api/v1/analytics/dashboard?{range}&compare=previous&limit=5");
    let dashboard = world.get(&server, &path).await;
    assert_eq!(dashboard["completeThrough"], "2026-03-30T00:00:00.000Z");
    assert_eq!(dashboard["totalReceipts"], week.uses);
    assert_eq!(dashboard["uniqueClients"], week.services);
    assert_eq!(dashboard["previous"]["totalReceipts"], week.uses_before);
    assert_eq!(dashboard["previous"]["uniqueClients"], week.services_before);
    assert_eq!(dashboard["byTrust"]["unproven"]["totalReceipts"], week.unproven);
    assert_eq!(shown(&dashboard, "topContent", "title"), listed(&week.top_content));
    let path = format!("/api/v1/analytics/clients?{range}&limit=5");
    let clients = world.get(&server, &path).await;
    assert_eq!(shown(&clients, "clients", "name"), listed(&week.top_services));

    // After an outage of weeks, the newest week alone and the month, by replicas at one time.
    world.complete("2026-04-20T07:00:00Z", MINUTE_MS);
    let (one, two) = (world.reporter(), world.reporter());
    let (one, two) = tokio::join!(one.round(), two.round());
    assert_eq!(one.unwrap() + two.unwrap(), 2);
    let mails = world.mails().await;
    assert_eq!(mails.len(), 2);
    let month = mails.iter().find_map(|(_, report)| match report {
        MailedReport::Monthly(month) => Some(month),
        _ => None,
    });
    let path = "/api/v1/analytics/dashboard?from=2026-03-01&to=2026-04-01&compare=previous";
    let dashboard = world.get(&server, path).await;
    let month = month.unwrap();
    assert_eq!((month.uses, month.uses_before), (21, 3));
    assert_eq!(dashboard["totalReceipts"], month.uses);
    assert_eq!(dashboard["previous"]["totalReceipts"], month.uses_before);
    world.choose(&world.user, ReportChoice::default()).await;
    server.stop().await;
    world.deps.accounts.close().await;
}

pub(crate) async fn a_new_operator_is_reported_once_to_whom_it_is_new(stack: &Stack) {
    let world = World::new(stack, "newcomers.example", "2026-03-20T00:00:00Z").await;
    let choice = ReportChoice {
        new_operator: true,
        ..ReportChoice::default()
    };
    world
        .insert(&[
            used("2026-03-02T10:00:00Z", 1, "known.example", 3),
            used("2026-03-19T10:00:00Z", 2, "yesterday.example", 3),
        ])
        .await;
    world.choose(&world.user, choice).await;
    world.complete("2026-03-21T00:00:00Z", MINUTE_MS);
    world
        .insert(&[
            used("2026-03-20T10:00:00Z", 1, "known.example", 1),
            used("2026-03-20T10:00:00Z", 2, "yesterday.example", 1),
            used("2026-03-20T10:00:00Z", 3, "", 1),
        ])
        .await;
    assert_eq!(world.round().await, 0);
    world
        .insert(&[used("2026-03-20T11:00:00Z", 4, "lyra.example", 2)])
        .await;
    assert_eq!(world.round().await, 1);
    let lyra = MailedReport::NewOperator {
        operator: "lyra.example".to_owned(),
        uses: 2,
        from_ms: ms("2026-03-20T00:01:00Z"),
    };
    assert_eq!(world.mails().await, [("newcomers.example@mail.test".to_owned(), lyra)]);
    // Who chose the alert later knows it already.
    let link = world
        .deps
        .accounts
        .create_login_link(Some(&world.account_id), accounts::AccountRole::Reader);
    let link = link.await.unwrap();
    let reader = world.deps.accounts.use_login_link(&link).await.unwrap().unwrap();
    world.choose(&reader, choice).await;
    world
        .insert(&[used("2026-03-20T12:00:00Z", 4, "lyra.example", 5)])
        .await;
    for day in ["2026-03-21T12:00:00Z", "2026-03-26T00:00:00Z", "2026-04-02T00:00:00Z"] {
        world.complete(day, MINUTE_MS);
        assert_eq!(world.round().await, 0, "{day}");
    }
    for user in [&world.user, &reader] {
        world.choose(user, ReportChoice::default()).await;
    }
    world.deps.accounts.close().await;
}

pub(crate) async fn a_day_above_the_limit_is_reported_once_after_one_that_was_not(stack: &Stack) {
    let world = World::new(stack, "unproven.example", "2026-03-10T00:00:00Z").await;
    let choice = ReportChoice {
        unproven_percent: Some(30),
        ..ReportChoice::default()
    };
    world.choose(&world.user, choice).await;
    world
        .insert(&[
            // All unproven, and too few to say something.
            used("2026-03-10T10:00:00Z", 1, "", 99),
            // Just the limit.
            used("2026-03-11T10:00:00Z", 1, "", 30),
            used("2026-03-11T10:00:00Z", 2, "known.example", 70),
            used("2026-03-12T10:00:00Z", 1, "", 31),
            used("2026-03-12T10:00:00Z", 2, "known.example", 69),
            used("2026-03-13T10:00:00Z", 1, "", 100),
            used("2026-03-14T10:00:00Z", 2, "known.example", 100),
            used("2026-03-15T23:59:59Z", 1, "", 100),
        ])
        .await;
    let mut reported = Vec::new();
    for day in 11..=17 {
        world.complete(&format!("2026-03-{day}T00:00:00Z"), MINUTE_MS);
        let queued = world.round().await;
        assert_eq!(world.round().await, 0);
        for (_, report) in world.mails().await {
            let MailedReport::Unproven {
                from_ms,
                uses,
                unproven,
                percent,
            } = report
            else {
                panic!("{report:?}");
            };
            assert_eq!(from_ms, ms(&format!("2026-03-{}T00:00:00Z", day - 1)));
            reported.push((day - 1, queued, uses, unproven, percent));
        }
    }
    assert_eq!(reported, [(12, 1, 100, 31, 30), (15, 1, 100, 100, 30)]);
    world.choose(&world.user, ReportChoice::default()).await;
    world.deps.accounts.close().await;
}

pub(crate) async fn a_silence_is_reported_once_and_not_in_an_outage(stack: &Stack) {
    let world = World::new(stack, "silent.example", "2026-03-10T00:00:00Z").await;
    let choice = ReportChoice {
        silent_hours: Some(24),
        ..ReportChoice::default()
    };
    world.choose(&world.user, choice).await;
    // Nothing was ever there.
    world.complete("2026-03-12T00:00:00Z", MINUTE_MS);
    assert_eq!(world.round().await, 0);
    world.insert(&[used("2026-03-12T10:00:00Z", 1, "", 1)]).await;
    world.complete("2026-03-13T09:59:59.999Z", MINUTE_MS);
    assert_eq!(world.round().await, 0);
    // Receipts may have come that aren't counted yet.
    world.complete("2026-03-13T10:00:00Z", 11 * MINUTE_MS);
    assert_eq!(world.round().await, 0);
    world.complete("2026-03-13T10:00:00Z", MINUTE_MS);
    assert_eq!(world.round().await, 1);
    let silence = MailedReport::Silence {
        last_ms: ms("2026-03-12T10:00:00Z"),
        hours: 24,
    };
    assert_eq!(world.mails().await, [("silent.example@mail.test".to_owned(), silence)]);
    world.complete("2026-03-15T00:00:00Z", MINUTE_MS);
    assert_eq!(world.round().await, 0);
    // The next silence, and one that is too old to be one.
    world.insert(&[used("2026-03-15T10:00:00Z", 1, "", 1)]).await;
    world.complete("2026-03-16T12:00:00Z", MINUTE_MS);
    assert_eq!(world.round().await, 1);
    assert_eq!(world.mails().await.len(), 1);
    world.complete("2026-05-01T00:00:00Z", MINUTE_MS);
    assert_eq!(world.round().await, 0);
    world.choose(&world.user, ReportChoice::default()).await;
    world.deps.accounts.close().await;
}

/// An account without a domain comes before, and then nothing of the other can be read.
pub(crate) async fn what_fails_is_reported_by_the_next_round(stack: &Stack) {
    let (weekly, none) = (
        ReportChoice {
            weekly: true,
            ..ReportChoice::default()
        },
        ReportChoice::default(),
    );
    let store = &stack.deps.accounts;
    let homeless = user(store, "homeless").await;
    let account_id = store.own_account(&homeless.id).await.unwrap().unwrap();
    assert!(store.choose_reports(&account_id, &homeless.id, &weekly).await.unwrap());
    let world = World::new(stack, "others.example", "2026-03-25T12:00:00Z").await;
    assert!(account_id < world.account_id);
    world.choose(&world.user, weekly).await;
    world.complete("2026-03-30T00:00:00Z", MINUTE_MS);
    let gone = Target::Socket(stack.dir.path().join("nobody-listens"));
    let deps = Deps {
        warehouse: Warehouse::new(&gone, &WarehouseConfig::default()).unwrap(),
        ..world.deps.clone()
    };
    let failing = World::reporter_on(deps);
    for _ in 0..2 {
        assert_eq!(world.counted_round(&failing).await, (0, 1));
    }
    // Without progress nobody knows what is complete.
    world.progress.away.store(true, Ordering::SeqCst);
    assert!(world.reporter().round().await.is_err());
    world.progress.away.store(false, Ordering::SeqCst);
    assert_eq!(world.round().await, 1);
    assert_eq!(world.mails().await[0].0, "others.example@mail.test");
    world.choose(&world.user, none).await;
    assert!(store.choose_reports(&account_id, &homeless.id, &none).await.unwrap());
    world.deps.accounts.close().await;
}

pub(crate) async fn what_can_not_have_changed_is_not_queried_again(stack: &Stack) {
    let world = World::new(stack, "quiet.example", "2026-03-01T00:00:00Z").await;
    let mut choice = ReportChoice {
        weekly: true,
        new_operator: true,
        unproven_percent: Some(30),
        silent_hours: Some(24),
        ..ReportChoice::default()
    };
    world.choose(&world.user, choice).await;
    world
        .insert(&[
            used("2026-03-09T10:00:00Z", 1, "known.example", 100),
            used("2026-03-10T10:00:00Z", 1, "known.example", 100),
        ])
        .await;
    let reporter = world.reporter();
    let round = async |at: &str| {
        world.complete(&format!("2026-03-{at}"), MINUTE_MS);
        world.counted_round(&reporter).await
    };
    let names = async || {
        let mails = world.mails().await.into_iter();
        let name = |(_, report)| format!("{report:?}").split(' ').next().unwrap().to_owned();
        let mut names: Vec<_> = mails.map(name).collect();
        names.sort_unstable();
        names
    };
    // The week's two queries, and one for each alert. `known.example` is new.
    assert_eq!(round("10T12:00:00Z").await, (2, 5));
    world.mails().await;
    assert_eq!(round("10T12:05:00Z").await, (0, 0));
    assert_eq!(round("10T12:59:59.999Z").await, (0, 0));
    // Operators may be new, and receipts of yesterday late.
    assert_eq!(round("10T13:00:00Z").await, (0, 2));
    world
        .insert(&[
            used("2026-03-10T13:01:00Z", 2, "lyra.example", 1),
            used("2026-03-09T13:00:00Z", 3, "", 100),
        ])
        .await;
    assert_eq!(round("10T13:05:00Z").await, (0, 0));
    assert_eq!(round("10T14:00:00Z").await, (2, 2));
    assert_eq!(names().await, ["NewOperator", "Unproven"]);
    // The day is mailed, so its share isn't queried any more.
    assert_eq!(round("10T15:00:00Z").await, (0, 1));
    // A day ends before the hour does.
    assert_eq!(round("10T23:30:00Z").await, (0, 1));
    assert_eq!(round("10T23:59:00Z").await, (0, 0));
    assert_eq!(round("11T00:00:00Z").await, (0, 2));
    // Silence since the last use that was read is due, but there is a newer one.
    world
        .insert(&[used("2026-03-10T20:00:00Z", 1, "known.example", 1)])
        .await;
    assert_eq!(round("11T10:00:00Z").await, (0, 3));
    assert_eq!(round("11T10:05:00Z").await, (0, 0));
    // What was checked for other choices doesn't count.
    choice.silent_hours = Some(13);
    world.choose(&world.user, choice).await;
    assert_eq!(round("11T10:10:00Z").await, (1, 3));
    assert_eq!(names().await, ["Silence"]);
    assert_eq!(round("11T10:15:00Z").await, (0, 0));
    assert_eq!(round("11T11:10:00Z").await, (0, 3));
    world.choose(&world.user, ReportChoice::default()).await;
    world.deps.accounts.close().await;
}

//! Mails about numbers: who chooses which, and that each occasion has one mail.

use accounts::{
    AccountRole, Accounts, COLLECTIONS, ClaimedMail, MailKind, MailSubject, MailedReport, PeriodReport, ReportChoice,
    ReportedUse,
};
use sqlx::Row;

use super::members::{add, owner, person};
use crate::{Fixture, HOUR_MS, START_MS};

cases! {
    what_is_chosen_is_stored_since_then,
    a_stranger_chooses_nothing,
    accounts_with_subscriptions_are_walked_in_order,
    replicas_queue_one_mail_for_an_occasion,
    a_mail_goes_to_whom_it_is_for_with_its_numbers,
    a_mail_that_nobody_wants_any_more_is_not_sent,
    who_leaves_takes_mails_and_subscriptions_along,
    an_erased_account_leaves_none,
}

const DAY_MS: i64 = 24 * HOUR_MS;

fn weekly() -> MailedReport {
    MailedReport::Weekly(PeriodReport {
        from_ms: START_MS - 7 * DAY_MS,
        to_ms: START_MS,
        uses: 1_204,
        top_services: vec![ReportedUse {
            name: "Lyra \"\u{1f600}\"".to_owned(),
            uses: 7,
            is_proven: true,
        }],
        ..PeriodReport::default()
    })
}

fn silence() -> MailedReport {
    MailedReport::Silence {
        last_ms: START_MS,
        hours: 24,
    }
}

fn all() -> ReportChoice {
    ReportChoice {
        weekly: true,
        monthly: true,
        new_operator: true,
        unproven_percent: Some(30),
        silent_hours: Some(24),
    }
}

async fn choose(accounts: &Accounts, account_id: &str, user_id: &str, choice: ReportChoice) {
    assert!(accounts.choose_reports(account_id, user_id, &choice).await.unwrap());
    assert_eq!(accounts.report_choice(account_id, user_id).await.unwrap(), choice);
}

async fn queue(accounts: &Accounts, account_id: &str, user_id: &str, occasion: &str, report: &MailedReport) -> bool {
    let queued = accounts.queue_report(account_id, user_id, occasion, report);
    queued.await.unwrap()
}

async fn claim(accounts: &Accounts) -> Option<ClaimedMail> {
    accounts.claim_mail("here", 60_000).await.unwrap()
}

async fn rows(fixture: &Fixture, table: &str) -> i64 {
    let query = format!("SELECT COUNT(*) FROM {table}");
    let query = sqlx::query(sqlx::AssertSqlSafe(query));
    query.fetch_one(&fixture.raw().await).await.unwrap().get(0)
}

async fn what_is_chosen_is_stored_since_then(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let none = accounts.report_choice(&account, &anna.id).await.unwrap();
    assert_eq!(none, ReportChoice::default());
    let only_weekly = ReportChoice {
        weekly: true,
        ..ReportChoice::default()
    };
    choose(&accounts, &account, &anna.id, only_weekly).await;
    fixture.pass_ms(HOUR_MS);
    choose(&accounts, &account, &anna.id, all()).await;
    // Again the same: nothing new for the trail.
    choose(&accounts, &account, &anna.id, all()).await;
    let found = accounts.next_subscribed_account("").await.unwrap().unwrap();
    let [subscription] = &found.subscriptions[..] else {
        panic!("{found:?}");
    };
    assert_eq!(subscription.user_id, anna.id);
    assert_eq!(subscription.weekly_since_ms, Some(START_MS));
    assert_eq!(subscription.monthly_since_ms, Some(START_MS + HOUR_MS));
    assert_eq!(subscription.new_operator_since_ms, Some(START_MS + HOUR_MS));
    // Off and on: since now.
    choose(&accounts, &account, &anna.id, ReportChoice::default()).await;
    assert!(accounts.next_subscribed_account("").await.unwrap().is_none());
    fixture.pass_ms(HOUR_MS);
    choose(&accounts, &account, &anna.id, only_weekly).await;
    let found = accounts.next_subscribed_account("").await.unwrap().unwrap();
    assert_eq!(found.subscriptions[0].weekly_since_ms, Some(START_MS + 2 * HOUR_MS));
    let trail = accounts.trail_page(&account, None, 100).await.unwrap().items;
    let noted: Vec<_> = trail
        .iter()
        .rev()
        .filter(|one| one.action == "reports.choose" && one.actor == format!("user:{}", anna.id))
        .map(|one| one.detail.as_str())
        .collect();
    let everything = "weekly, monthly, new operators, above 30% unproven, 24 h without receipts";
    assert_eq!(noted, ["weekly", everything, "none", "weekly"]);
}

async fn a_stranger_chooses_nothing(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (_, account) = owner(&accounts, "anna").await;
    let bert = person(&accounts, "bert").await;
    for (account_id, user_id) in [(account.as_str(), bert.id.as_str()), ("acc_none", &bert.id)] {
        assert!(!accounts.choose_reports(account_id, user_id, &all()).await.unwrap());
        assert!(!queue(&accounts, account_id, user_id, "1", &weekly()).await);
    }
    assert_eq!(rows(&fixture, "report_subscriptions").await, 0);
    assert_eq!(rows(&fixture, "mails").await, 0);
}

async fn accounts_with_subscriptions_are_walked_in_order(fixture: Fixture) {
    let accounts = fixture.open().await;
    let mut expected = Vec::new();
    for name in ["anna", "bert", "carla", "dora"] {
        let (user, account) = owner(&accounts, name).await;
        let colleague = person(&accounts, &format!("{name}s-colleague")).await;
        add(&fixture, &account, &colleague, AccountRole::Reader).await;
        if name != "bert" {
            choose(&accounts, &account, &user.id, all()).await;
            choose(&accounts, &account, &colleague.id, all()).await;
            expected.push(account);
        }
    }
    expected.sort();
    let (mut found, mut after) = (Vec::new(), String::new());
    while let Some(one) = accounts.next_subscribed_account(&after).await.unwrap() {
        after.clone_from(&one.principal.account_id);
        assert_eq!(one.subscriptions.len(), 2);
        found.push(one.principal.account_id);
    }
    assert_eq!(found, expected);
}

async fn replicas_queue_one_mail_for_an_occasion(fixture: Fixture) {
    let replicas = [fixture.open().await, fixture.open().await];
    let (anna, account) = owner(&replicas[0], "anna").await;
    choose(&replicas[0], &account, &anna.id, all()).await;
    let tasks: Vec<_> = (0..8)
        .map(|number| (replicas[number % 2].clone(), account.clone(), anna.id.clone()))
        .map(|(replica, account, user)| {
            tokio::spawn(async move { queue(&replica, &account, &user, "2027-01-04", &weekly()).await })
        })
        .collect();
    let mut queued = 0;
    for task in tasks {
        queued += u32::from(task.await.unwrap());
    }
    assert_eq!(queued, 1);
    // Another occasion, another kind.
    assert!(queue(&replicas[0], &account, &anna.id, "2027-01-11", &weekly()).await);
    assert!(queue(&replicas[0], &account, &anna.id, "2027-01-04", &silence()).await);
    let has = async |kind, occasion| {
        replicas[1]
            .has_report(&account, &anna.id, kind, occasion)
            .await
            .unwrap()
    };
    assert!(has(MailKind::Weekly, "2027-01-04").await);
    assert!(!has(MailKind::Monthly, "2027-01-04").await);
    assert_eq!(rows(&fixture, "mails").await, 3);
}

async fn a_mail_goes_to_whom_it_is_for_with_its_numbers(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (_, account) = owner(&accounts, "anna").await;
    let reader = person(&accounts, "rita").await;
    add(&fixture, &account, &reader, AccountRole::Reader).await;
    choose(&accounts, &account, &reader.id, all()).await;
    assert!(queue(&accounts, &account, &reader.id, "2027-01-04", &weekly()).await);
    let mail = claim(&accounts).await.unwrap();
    assert_eq!((mail.kind, mail.to.as_str()), (MailKind::Weekly, "rita@mail.test"));
    let MailSubject::Report { account_name, report } = &mail.about else {
        panic!("{mail:?}");
    };
    assert_eq!(**report, weekly());
    assert!(!account_name.is_empty());
    // It is the Message-ID, and the position in an export.
    assert!(mail.id.len() == 36 && !mail.id.contains(&reader.id), "{}", mail.id);
    accounts.mail_sent(&mail.id, "here").await.unwrap();
    assert!(!queue(&accounts, &account, &reader.id, "2027-01-04", &weekly()).await);
    assert_eq!(claim(&accounts).await, None);
    let too_long = MailedReport::NewOperator {
        operator: "x".repeat(20_000),
        uses: 1,
        from_ms: 0,
    };
    let refused = accounts.queue_report(&account, &reader.id, "x", &too_long).await;
    assert!(refused.unwrap_err().to_string().contains("longer than"));
    for name in ["reportSubscriptions", "mails"] {
        let collection = COLLECTIONS.iter().find(|one| one.name == name).unwrap();
        let exported = accounts.collection_page(&account, collection, None, 10).await.unwrap();
        assert_eq!(exported.len(), 1);
        assert!(format!("{exported:?}").contains(&reader.id));
    }
}

async fn a_mail_that_nobody_wants_any_more_is_not_sent(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    choose(&accounts, &account, &anna.id, all()).await;
    assert!(queue(&accounts, &account, &anna.id, "off", &weekly()).await);
    let others = ReportChoice { weekly: false, ..all() };
    choose(&accounts, &account, &anna.id, others).await;
    assert_eq!(claim(&accounts).await, None);
    // Old ones: an alert after a week, a month after a month.
    assert!(queue(&accounts, &account, &anna.id, "old", &silence()).await);
    assert!(
        queue(
            &accounts,
            &account,
            &anna.id,
            "old",
            &MailedReport::Monthly(PeriodReport::default())
        )
        .await
    );
    fixture.pass_ms(7 * DAY_MS);
    let mail = claim(&accounts).await.unwrap();
    assert_eq!(mail.kind, MailKind::Monthly);
    accounts
        .mail_failed(&mail.id, "here", 23 * DAY_MS, "no answer")
        .await
        .unwrap();
    assert_eq!(claim(&accounts).await, None);
    fixture.pass_ms(23 * DAY_MS);
    assert_eq!(claim(&accounts).await, None);
    assert_eq!(accounts.outbox().await.unwrap().waiting, 0);
}

async fn who_leaves_takes_mails_and_subscriptions_along(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let (bert, berts) = owner(&accounts, "bert").await;
    let rita = person(&accounts, "rita").await;
    add(&fixture, &account, &bert, AccountRole::Reader).await;
    add(&fixture, &account, &rita, AccountRole::Reader).await;
    for (account_id, user) in [(&account, &anna), (&account, &bert), (&berts, &bert), (&account, &rita)] {
        choose(&accounts, account_id, &user.id, all()).await;
        assert!(queue(&accounts, account_id, &user.id, "1", &weekly()).await);
    }
    // Bert is in another account, too, whose mails he gets.
    accounts.remove_member(&account, &anna.id, &bert.id).await.unwrap();
    assert_eq!(rows(&fixture, "report_subscriptions").await, 3);
    assert!(
        !accounts
            .has_report(&account, &bert.id, MailKind::Weekly, "1")
            .await
            .unwrap()
    );
    assert!(
        accounts
            .has_report(&berts, &bert.id, MailKind::Weekly, "1")
            .await
            .unwrap()
    );
    assert!(!queue(&accounts, &account, &bert.id, "2", &weekly()).await);
    accounts.erase_user(&rita.id).await.unwrap();
    assert_eq!(rows(&fixture, "report_subscriptions").await, 2);
    assert_eq!(rows(&fixture, "mails").await, 2);
}

async fn an_erased_account_leaves_none(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    choose(&accounts, &account, &anna.id, all()).await;
    assert!(queue(&accounts, &account, &anna.id, "1", &weekly()).await);
    accounts.request_deletion(&account, HOUR_MS, "user:anna").await.unwrap();
    fixture.pass_ms(HOUR_MS);
    assert!(accounts.begin_account_erasure(&account).await.unwrap());
    for erasure in accounts.open_erasures().await.unwrap() {
        while accounts.erase_some(&erasure.id).await.unwrap() {}
    }
    for table in ["report_subscriptions", "mails", "users", "accounts"] {
        assert_eq!(rows(&fixture, table).await, 0, "{table}");
    }
}

//! When verifications warn and end, and what becomes of their mails.

use accounts::{
    Accounts, ChallengeRequest, ClaimedMail, Expiries, MailKind, MailSubject, Outbox, Subject, URGENT_MS,
    VERIFICATION_MS, Verification, VerificationMethod, WARNING_MS,
};
use sqlx::Row;

use crate::{Fixture, HOUR_MS, START_MS, account_of, domains};

cases! {
    each_kind_is_queued_once,
    a_verification_warns_at_90_days_urges_at_30_and_ends,
    a_late_look_sends_the_urgent_one_only,
    what_is_renewed_or_given_back_sends_nothing,
    a_mail_is_claimed_by_one_and_passed_on_when_its_time_is_over,
    a_refused_mail_ends_and_a_failed_one_comes_again,
    an_account_without_an_address_waits_for_one,
    two_replicas_share_an_outbox,
}

const LEASE_MS: i64 = 60_000;

/// The account of a user with an address, if any.
async fn account(accounts: &Accounts, email: Option<&str>) -> String {
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: "owner".to_owned(),
        email: email.map(|email| email.parse().unwrap()),
        name: None,
    };
    account_of(accounts, &accounts.sign_in(&subject).await.unwrap()).await
}

async fn verify(accounts: &Accounts, account_id: &str, domain: &str) -> Verification {
    let request = ChallengeRequest {
        account_id,
        actor: "key:test",
        domains: &domains(domain),
        method: VerificationMethod::Dns,
        include_subdomains: Some(false),
    };
    let issued = accounts.create_challenges(&request).await.unwrap();
    accounts.verify("key:test", &issued[0].challenge).await.unwrap()
}

/// A verified domain of an account that can be written to.
async fn publisher(accounts: &Accounts, domain: &str) -> Verification {
    let account_id = account(accounts, Some("owner@publisher.test")).await;
    verify(accounts, &account_id, domain).await
}

async fn look(accounts: &Accounts) -> (u64, u64, u64) {
    let Expiries {
        warnings,
        urgent,
        ended,
        more,
    } = accounts.look_for_expiries().await.unwrap();
    assert!(!more);
    (warnings, urgent, ended)
}

async fn claim(accounts: &Accounts) -> Option<ClaimedMail> {
    accounts.claim_mail("here", LEASE_MS).await.unwrap()
}

async fn send(accounts: &Accounts, mail: &ClaimedMail) {
    accounts.mail_sent(&mail.id, "here").await.unwrap();
}

async fn each_kind_is_queued_once(fixture: Fixture) {
    let replicas = [fixture.open().await, fixture.open().await];
    for number in 0..10 {
        publisher(&replicas[0], &format!("d{number}.example")).await;
    }
    for (moved_ms, wanted) in [
        (VERIFICATION_MS - WARNING_MS, (10, 0, 0)),
        (WARNING_MS - URGENT_MS, (0, 10, 0)),
        (URGENT_MS, (0, 0, 10)),
    ] {
        fixture.pass_ms(moved_ms);
        let tasks: Vec<_> = (0..6)
            .map(|number| replicas[number % 2].clone())
            .map(|replica| tokio::spawn(async move { look(&replica).await }))
            .collect();
        let mut sum = (0, 0, 0);
        for task in tasks {
            let (warnings, urgent, ended) = task.await.unwrap();
            sum = (sum.0 + warnings, sum.1 + urgent, sum.2 + ended);
        }
        assert_eq!(sum, wanted);
    }
    let raw = fixture.raw().await;
    let count = |question: &'static str| sqlx::query(question).fetch_one(&raw);
    assert_eq!(count("SELECT COUNT(*) FROM mails").await.unwrap().get::<i64, _>(0), 30);
    let noted = count("SELECT COUNT(*) FROM trail WHERE action = 'domain.expire' AND actor = 'service'");
    assert_eq!(noted.await.unwrap().get::<i64, _>(0), 10);
}

async fn a_verification_warns_at_90_days_urges_at_30_and_ends(fixture: Fixture) {
    let accounts = fixture.open().await;
    let verification = publisher(&accounts, "example.com").await;
    fixture.pass_ms(VERIFICATION_MS - WARNING_MS - 1);
    assert_eq!(look(&accounts).await, (0, 0, 0));
    assert_eq!(claim(&accounts).await, None);
    fixture.pass_ms(1);
    assert_eq!(look(&accounts).await, (1, 0, 0));
    let mail = claim(&accounts).await.unwrap();
    assert_eq!(
        mail,
        ClaimedMail {
            id: format!("{}.warning", verification.id),
            kind: MailKind::Warning,
            to: "owner@publisher.test".to_owned(),
            about: MailSubject::Domain {
                domain: "example.com".to_owned(),
                id: verification.id.clone(),
                at_ms: START_MS + VERIFICATION_MS,
            },
            attempts: 1,
        }
    );
    send(&accounts, &mail).await;
    fixture.pass_ms(WARNING_MS - URGENT_MS - 1);
    assert_eq!(look(&accounts).await, (0, 0, 0));
    fixture.pass_ms(1);
    assert_eq!(look(&accounts).await, (0, 1, 0));
    let mail = claim(&accounts).await.unwrap();
    assert_eq!(mail.kind, MailKind::Urgent);
    send(&accounts, &mail).await;
    fixture.pass_ms(URGENT_MS - 1);
    assert_eq!(look(&accounts).await, (0, 0, 0));
    fixture.pass_ms(1);
    assert_eq!(look(&accounts).await, (0, 0, 1));
    let mail = claim(&accounts).await.unwrap();
    assert_eq!(
        (mail.kind, mail.id),
        (MailKind::Expired, format!("{}.expired", verification.id))
    );
    assert_eq!(look(&accounts).await, (0, 0, 0));
}

async fn a_late_look_sends_the_urgent_one_only(fixture: Fixture) {
    let accounts = fixture.open().await;
    publisher(&accounts, "example.com").await;
    fixture.pass_ms(VERIFICATION_MS - WARNING_MS);
    assert_eq!(look(&accounts).await, (1, 0, 0));
    // No server took the first one all that time.
    fixture.pass_ms(WARNING_MS - URGENT_MS + HOUR_MS);
    assert_eq!(look(&accounts).await, (0, 1, 0));
    let mail = claim(&accounts).await.unwrap();
    assert_eq!(mail.kind, MailKind::Urgent);
    send(&accounts, &mail).await;
    assert_eq!(claim(&accounts).await, None);
    assert_eq!(accounts.outbox().await.unwrap(), Outbox::default());
    // Nobody was there for a long time: the end is noted, and no mail is worth sending.
    fixture.pass_ms(URGENT_MS + 31 * 24 * HOUR_MS);
    assert_eq!(look(&accounts).await, (0, 0, 1));
    assert_eq!(claim(&accounts).await, None);
}

async fn what_is_renewed_or_given_back_sends_nothing(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account_id = account(&accounts, Some("owner@publisher.test")).await;
    for domain in ["renewed.example", "revoked.example"] {
        verify(&accounts, &account_id, domain).await;
    }
    fixture.pass_ms(VERIFICATION_MS - WARNING_MS);
    assert_eq!(look(&accounts).await, (2, 0, 0));
    verify(&accounts, &account_id, "renewed.example").await;
    let domain = &domains("revoked.example")[0];
    assert!(
        accounts
            .revoke_verification(&account_id, "key:test", domain)
            .await
            .unwrap()
    );
    assert_eq!(claim(&accounts).await, None);
    assert_eq!(accounts.outbox().await.unwrap(), Outbox::default());
    fixture.pass_ms(WARNING_MS);
    assert_eq!(look(&accounts).await, (0, 0, 0));
    // The renewed one warns again, a year on.
    fixture.pass_ms(VERIFICATION_MS - 2 * WARNING_MS);
    assert_eq!(look(&accounts).await, (1, 0, 0));
    let about = claim(&accounts).await.unwrap().about;
    assert!(
        matches!(&about, MailSubject::Domain { domain, .. } if domain == "renewed.example"),
        "{about:?}"
    );
}

async fn a_mail_is_claimed_by_one_and_passed_on_when_its_time_is_over(fixture: Fixture) {
    let (here, there) = (fixture.open().await, fixture.open().await);
    publisher(&here, "example.com").await;
    fixture.pass_ms(VERIFICATION_MS - URGENT_MS);
    look(&here).await;
    let mail = claim(&here).await.unwrap();
    assert_eq!(there.claim_mail("there", LEASE_MS).await.unwrap(), None);
    fixture.pass_ms(LEASE_MS);
    // It died before it sent anything.
    let again = there.claim_mail("there", LEASE_MS).await.unwrap().unwrap();
    assert_eq!((again.id.as_str(), again.attempts), (mail.id.as_str(), 2));
    // Or it only slept: what it says doesn't count any more.
    here.mail_sent(&mail.id, "here").await.unwrap();
    here.mail_failed(&mail.id, "here", 0, "late").await.unwrap();
    assert_eq!(there.outbox().await.unwrap().waiting, 1);
    there.mail_sent(&mail.id, "there").await.unwrap();
    fixture.pass_ms(LEASE_MS);
    assert_eq!(claim(&here).await, None);
}

async fn a_refused_mail_ends_and_a_failed_one_comes_again(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account_id = account(&accounts, Some("owner@publisher.test")).await;
    for domain in ["a.example", "b.example"] {
        verify(&accounts, &account_id, domain).await;
    }
    fixture.pass_ms(VERIFICATION_MS - URGENT_MS);
    look(&accounts).await;
    let (first, second) = (claim(&accounts).await.unwrap(), claim(&accounts).await.unwrap());
    accounts
        .mail_refused(&first.id, "here", "550 no such user")
        .await
        .unwrap();
    let long = "451 later".repeat(1_000);
    accounts.mail_failed(&second.id, "here", HOUR_MS, &long).await.unwrap();
    let (waiting, refused) = (1, 1);
    assert_eq!(accounts.outbox().await.unwrap(), Outbox { waiting, refused });
    fixture.pass_ms(HOUR_MS - 1);
    assert_eq!(claim(&accounts).await, None);
    fixture.pass_ms(1);
    let again = claim(&accounts).await.unwrap();
    assert_eq!((again.id, again.attempts), (second.id, 2));
    assert_eq!(claim(&accounts).await, None);
}

async fn an_account_without_an_address_waits_for_one(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account_id = account(&accounts, None).await;
    verify(&accounts, &account_id, "example.com").await;
    fixture.pass_ms(VERIFICATION_MS - URGENT_MS);
    look(&accounts).await;
    assert_eq!(claim(&accounts).await, None);
    assert_eq!(accounts.outbox().await.unwrap().waiting, 1);
    let raw = fixture.raw().await;
    sqlx::query("UPDATE users SET email = 'late@publisher.test'")
        .execute(&raw)
        .await
        .unwrap();
    fixture.pass_ms(24 * HOUR_MS);
    assert_eq!(claim(&accounts).await.unwrap().to, "late@publisher.test");
    let stored = sqlx::query("SELECT COUNT(*) FROM mails WHERE id LIKE '%@%' OR problem LIKE '%@%'");
    assert_eq!(
        stored.fetch_one(&raw).await.unwrap().get::<i64, _>(0),
        0,
        "an outbox holds no addresses"
    );
}

async fn two_replicas_share_an_outbox(fixture: Fixture) {
    let replicas = [fixture.open().await, fixture.open().await];
    let account_id = account(&replicas[0], Some("owner@publisher.test")).await;
    for number in 0..12 {
        verify(&replicas[0], &account_id, &format!("d{number}.example")).await;
    }
    fixture.pass_ms(VERIFICATION_MS - URGENT_MS);
    look(&replicas[0]).await;
    let mut tasks = Vec::new();
    for number in 0..4 {
        let (replica, holder) = (replicas[number % 2].clone(), format!("holder {number}"));
        tasks.push(tokio::spawn(async move {
            let mut sent = Vec::new();
            while let Some(mail) = replica.claim_mail(&holder, LEASE_MS).await.unwrap() {
                replica.mail_sent(&mail.id, &holder).await.unwrap();
                sent.push(mail.id);
            }
            sent
        }));
    }
    let mut sent = Vec::new();
    for task in tasks {
        sent.extend(task.await.unwrap());
    }
    let distinct: std::collections::HashSet<_> = sent.iter().collect();
    assert_eq!((sent.len(), distinct.len()), (12, 12));
}

//! Each mail is sent once across a crash at any step. That replicas share an outbox is tested in
//! `crates/accounts/tests/contract`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use accounts::{
    AccountRole, Accounts, AccountsConfig, ChallengeRequest, ErasedEntries, MailedReport, NewErasure, Outbox,
    ReportChoice, RequestedErasure, SecretToken, Subject, URGENT_MS, VERIFICATION_MS, VerificationMethod,
};
use publisher_api::{Postman, SmtpConfig};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::mail_server::MailServer;
use crate::stack::START_MS;

/// Longer than any lease.
const LEASE_MS: i64 = 3_600_000;

/// A store and the clock of its replicas.
struct Fixture {
    clock: Arc<AtomicI64>,
    data: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self {
            clock: Arc::new(AtomicI64::new(START_MS)),
            data: tempfile::tempdir().unwrap(),
        }
    }

    async fn open(&self) -> Accounts {
        let clock = Arc::clone(&self.clock);
        let config = AccountsConfig {
            wait_ms_max: 60_000,
            ..AccountsConfig::default()
        };
        let data: &Path = self.data.path();
        Accounts::open_with_clock(&config, data, move || clock.load(Ordering::SeqCst))
            .await
            .unwrap()
    }

    fn pass_ms(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
    }
}

/// Verified domains of an account that can be written to.
async fn publisher(accounts: &Accounts, email: &str, domains: &[&str]) {
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: email.to_owned(),
        email: Some(email.parse().unwrap()),
        name: None,
    };
    let user = accounts.sign_in(&subject).await.unwrap();
    let account_id = accounts.own_account(&user.id).await.unwrap().unwrap();
    let domains: Vec<_> = domains.iter().map(|domain| domain.parse().unwrap()).collect();
    let request = ChallengeRequest {
        account_id: &account_id,
        actor: "key:test",
        domains: &domains,
        method: VerificationMethod::Dns,
        include_subdomains: Some(false),
    };
    for issued in accounts.create_challenges(&request).await.unwrap() {
        accounts.verify("key:test", &issued.challenge).await.unwrap();
    }
}

fn message_ids(mails: &[String]) -> HashSet<String> {
    let id = |mail: &String| {
        mail.lines()
            .find(|line| line.starts_with("Message-ID: "))
            .unwrap()
            .to_owned()
    };
    mails.iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_the_text_costs_nothing() {
    let (server, fixture) = (MailServer::start(), Fixture::new());
    let accounts = fixture.open().await;
    publisher(&accounts, "owner@publisher.test", &["example.com"]).await;
    fixture.pass_ms(VERIFICATION_MS - URGENT_MS);
    server.set("hold-rcpt");
    let dying = Postman::new(fixture.open().await, server.config(), None);
    let dying = tokio::spawn(async move { dying.round(&CancellationToken::new()).await });
    server.reached("rcpt").await;
    dying.abort();
    let _ = dying.await;
    server.unset("hold-rcpt");
    let other = Postman::new(accounts.clone(), server.config(), None);
    assert_eq!(
        other.round(&CancellationToken::new()).await.unwrap().sent,
        0,
        "it may live yet"
    );
    fixture.pass_ms(LEASE_MS);
    assert_eq!(other.round(&CancellationToken::new()).await.unwrap().sent, 1);
    assert_eq!(server.taken().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_after_the_server_took_it_sends_it_again_under_the_same_message_id() {
    let (server, fixture) = (MailServer::start(), Fixture::new());
    let accounts = fixture.open().await;
    publisher(&accounts, "owner@publisher.test", &["example.com"]).await;
    fixture.pass_ms(VERIFICATION_MS - URGENT_MS);
    server.set("hold-data");
    let dying = Postman::new(fixture.open().await, server.config(), None);
    let dying = tokio::spawn(async move { dying.round(&CancellationToken::new()).await });
    server.reached("data").await;
    dying.abort();
    let _ = dying.await;
    server.unset("hold-data");
    let other = Postman::new(accounts.clone(), server.config(), None);
    for sent in [1, 0, 0] {
        fixture.pass_ms(LEASE_MS);
        assert_eq!(other.round(&CancellationToken::new()).await.unwrap().sent, sent);
    }
    let taken = server.taken();
    assert_eq!((taken.len(), message_ids(&taken).len()), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_is_asked_again_and_a_refusal_is_final() {
    let (server, fixture) = (MailServer::start(), Fixture::new());
    let accounts = fixture.open().await;
    publisher(&accounts, "owner@publisher.test", &["example.com"]).await;
    publisher(&accounts, "nobody@publisher.test", &["example.org"]).await;
    fixture.pass_ms(VERIFICATION_MS - URGENT_MS);
    server.set("busy");
    let postman = Postman::new(accounts.clone(), server.config(), None);
    let stop = CancellationToken::new();
    assert_eq!(postman.round(&stop).await.unwrap().failed, 2);
    let outbox = accounts.outbox().await.unwrap();
    assert_eq!((outbox.waiting, outbox.refused), (1, 1));
    server.unset("busy");
    assert_eq!(postman.round(&stop).await.unwrap().sent, 0, "not at once");
    fixture.pass_ms(60_000);
    assert_eq!(postman.round(&stop).await.unwrap().sent, 1);
    // No server at all: it waits again.
    let mails = server.taken();
    drop(server);
    assert_eq!(mails.len(), 1);
    fixture.pass_ms(URGENT_MS);
    let gone = postman.round(&stop).await.unwrap();
    assert_eq!((gone.ended, gone.sent, gone.failed), (2, 0, 2));
    assert_eq!(accounts.outbox().await.unwrap().waiting, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_mails_wait_for_one() {
    let (server, fixture) = (MailServer::start(), Fixture::new());
    let accounts = fixture.open().await;
    publisher(&accounts, "owner@publisher.test", &["example.com"]).await;
    fixture.pass_ms(VERIFICATION_MS - URGENT_MS);
    let stop = CancellationToken::new();
    let without = Postman::new(accounts.clone(), SmtpConfig::default(), None);
    let round = without.round(&stop).await.unwrap();
    assert_eq!((round.queued, round.sent), (1, 0));
    assert_eq!(accounts.outbox().await.unwrap().waiting, 1);
    let with = Postman::new(accounts, server.config(), None);
    assert_eq!(with.round(&stop).await.unwrap().sent, 1);
}

/// The mail's link works, also if the first attempt to send it got no answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invitation_arrives_with_a_link_that_works() {
    let (server, fixture) = (MailServer::start(), Fixture::new());
    let accounts = fixture.open().await;
    let subject = |name: &str| Subject {
        issuer: "https://id.example".to_owned(),
        subject: name.to_owned(),
        email: Some(format!("{name}@publisher.test").parse().unwrap()),
        name: None,
    };
    let owner = accounts.sign_in(&subject("owner")).await.unwrap();
    let account_id = accounts.own_account(&owner.id).await.unwrap().unwrap();
    let to = "guest@elsewhere.test".parse().unwrap();
    let invited = accounts
        .invite(&account_id, &owner.id, AccountRole::Editor, Some(&to))
        .await;
    assert!(invited.unwrap().1.is_none());
    let postman = Postman::new(accounts.clone(), server.config(), Some("https://receipts.example"));
    assert_eq!(postman.round(&CancellationToken::new()).await.unwrap().sent, 1);
    let mail = server.taken().remove(0).replace("=\r\n", "").replace("=3D", "=");
    assert!(
        mail.contains("owner@publisher.test invites you") && mail.contains("To: guest@elsewhere.test"),
        "{mail}"
    );
    let link = mail
        .lines()
        .find_map(|line| line.strip_prefix("https://receipts.example/api/v1/auth/join/"));
    let token = SecretToken::parse(link.unwrap().trim()).unwrap();
    let guest = accounts
        .accept_invitation(&token, Some(&subject("guest")))
        .await
        .unwrap();
    let held = accounts.memberships(&guest.unwrap().id).await.unwrap();
    assert_eq!((held.len(), held[0].role), (1, AccountRole::Editor));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_go_to_the_member_who_chose_them() {
    let (server, fixture) = (MailServer::start(), Fixture::new());
    let accounts = fixture.open().await;
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: "owner".to_owned(),
        email: Some("owner@publisher.test".parse().unwrap()),
        name: None,
    };
    let user = accounts.sign_in(&subject).await.unwrap();
    let account_id = accounts.own_account(&user.id).await.unwrap().unwrap();
    let choice = ReportChoice {
        new_operator: true,
        ..ReportChoice::default()
    };
    assert!(accounts.choose_reports(&account_id, &user.id, &choice).await.unwrap());
    let report = MailedReport::NewOperator {
        operator: "lyra.example".to_owned(),
        uses: 1_204,
        from_ms: START_MS,
    };
    let queued = accounts.queue_report(&account_id, &user.id, "lyra.example", &report);
    assert!(queued.await.unwrap());
    let postman = Postman::new(accounts.clone(), server.config(), Some("https://receipts.example"));
    assert_eq!(postman.round(&CancellationToken::new()).await.unwrap().sent, 1);
    let mail = server.taken().remove(0).replace("=\r\n", "").replace("=3D", "=");
    for part in [
        "To: owner@publisher.test",
        "a new company, lyra.example",
        "1,204 uses since",
        "https://receipts.example/dashboard#/?operator=lyra.example\r\n",
        "https://receipts.example/dashboard#/settings/mails\r\n",
    ] {
        assert!(mail.contains(part), "{part}: {mail}");
    }
    assert_eq!(mail.matches("https://").count(), 2, "{mail}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_step_of_an_erasure_is_reported_by_one_mail() {
    let (server, fixture) = (MailServer::start(), Fixture::new());
    let accounts = fixture.open().await;
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: "owner".to_owned(),
        email: Some("owner@publisher.test".parse().unwrap()),
        name: None,
    };
    let user = accounts.sign_in(&subject).await.unwrap();
    let account_id = accounts.own_account(&user.id).await.unwrap().unwrap();
    let replicas = [
        Postman::new(accounts.clone(), server.config(), None),
        Postman::new(fixture.open().await, server.config(), None),
    ];
    let request = async || {
        let request = NewErasure {
            entries: ErasedEntries::All,
            ..NewErasure::default()
        };
        match accounts
            .request_erasure(&account_id, "key:0123", request, LEASE_MS)
            .await
            .unwrap()
        {
            RequestedErasure::Taken(erasure) => erasure.id,
            refused => panic!("{refused:?}"),
        }
    };
    // The mails since the last time, whichever replica sends them.
    let mut seen = 0;
    let mut reported = async || {
        for postman in &replicas {
            postman.round(&CancellationToken::new()).await.unwrap();
        }
        let new = server.taken().split_off(seen);
        seen += new.len();
        new
    };
    let is = |mails: &[String], parts: &[&str]| {
        let [mail] = mails else { panic!("{mails:?}") };
        for part in ["owner@publisher.test", "What: all entries", "by key:0123"]
            .iter()
            .chain(parts)
        {
            assert!(mail.contains(part), "{part}: {mail}");
        }
    };
    let id = request().await;
    let way_back = format!("DELETE /api/v1/publisher/erasures/{id}");
    is(
        &reported().await,
        &["Subject: An erasure was requested: all entries", &way_back],
    );
    accounts.cancel_erasure(&account_id, &id, "key:0123").await.unwrap();
    accounts.cancel_erasure(&account_id, &id, "key:0123").await.unwrap();
    is(
        &reported().await,
        &["Subject: An erasure was cancelled: all entries", &id],
    );
    let id = request().await;
    is(&reported().await, &["Subject: An erasure was requested", &id]);
    fixture.pass_ms(LEASE_MS);
    assert_eq!(accounts.begin_scheduled_erasures().await.unwrap(), 1);
    assert!(!accounts.erase_some(&id).await.unwrap());
    assert_eq!(reported().await, [""; 0]);
    assert!(accounts.finish_erasure(&id).await.unwrap());
    let certificate = format!("GET /api/v1/publisher/erasures/{id}");
    is(
        &reported().await,
        &["Subject: An erasure is done: all entries", &certificate],
    );
    assert_eq!(reported().await, [""; 0]);
    assert_eq!(accounts.outbox().await.unwrap(), Outbox::default());
}

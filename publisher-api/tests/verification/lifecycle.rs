//! The life cycle of verified domains, with the API's own jobs at work against a real DNS server
//! and a real SMTP server.

use std::time::Duration;

use accounts::{KeyRequest, Scope, Subject};
use publisher_api::PublisherConfig;
use serde_json::{Value, json};

use crate::checks::{FILE, GENERATE, STATUS, check, generate, text};
use crate::mail_server::MailServer;
use crate::stack::{DAY_MS, Stack};
use crate::world::World;

/// Between two rounds of the jobs.
const ROUND_MS: u64 = 20;

struct Life {
    world: World,
    stack: Stack,
    mails: MailServer,
}

impl Life {
    async fn start() -> Self {
        let (world, mails) = (World::start().await, MailServer::start());
        let config = PublisherConfig {
            expiry_interval_ms: ROUND_MS,
            ..PublisherConfig::default()
        };
        let (client, smtp) = (world.client(), mails.config());
        let stack = Stack::start_with(config, |deps| {
            deps.outbound = client;
            deps.smtp = smtp;
        })
        .await;
        Self { world, stack, mails }
    }

    /// A key of an account whose person has the address `<name>@mail.test`.
    async fn account(&self, name: &str) -> String {
        let subject = Subject {
            issuer: "https://id.example".to_owned(),
            subject: name.to_owned(),
            email: Some(format!("{name}@mail.test").parse().unwrap()),
            name: None,
        };
        let accounts = &self.stack.deps.accounts;
        let user = accounts.sign_in(&subject).await.unwrap();
        let account_id = accounts.own_account(&user.id).await.unwrap().unwrap();
        let request = KeyRequest {
            domains: None,
            name: "test".to_owned(),
            scopes: vec![Scope::Read, Scope::Write],
            expires_at_ms: accounts.now_ms() + 1_000 * DAY_MS,
        };
        accounts
            .create_key(&account_id, request, "user:test")
            .await
            .unwrap()
            .api_key
    }

    async fn token(&self, key: &str, domain: &str) -> String {
        let request = json!({"domain": domain, "method": "dns"});
        let made = self
            .stack
            .server
            .json("POST", GENERATE, key, &request)
            .await
            .expect(200);
        text(&made["token"]).to_owned()
    }

    /// Publishes these tokens of domains, and no others.
    fn publish(&self, tokens: &[(&str, &str)]) {
        let texts: Vec<_> = tokens
            .iter()
            .map(|(domain, token)| (format!("_service-verification.{domain}"), format!("\"{token}\"")))
            .collect();
        let texts: Vec<_> = texts
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        self.world.texts(&texts);
    }

    async fn check(&self, key: &str, domain: &str) -> Value {
        self.stack.server.get(&check(domain), key).await.expect(200)
    }

    async fn status(&self, key: &str, domain: &str) -> Value {
        let path = format!("{STATUS}?domain={domain}");
        self.stack.server.get(&path, key).await.expect(200)["domains"][0].clone()
    }

    /// Waits until the jobs have come to where `is_so` holds of a domain's status.
    async fn until(&self, key: &str, domain: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..500 {
            let status = self.status(key, domain).await;
            if is_so(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(ROUND_MS)).await;
        }
        panic!("{domain} isn't {what}: {}", self.status(key, domain).await);
    }

    /// Waits for a mail to `name` whose subject has `part`.
    async fn mail(&self, name: &str, part: &str) {
        let to = format!("To: {name}@mail.test");
        for _ in 0..500 {
            let is_there = |mail: &String| {
                mail.contains(&to)
                    && mail
                        .lines()
                        .any(|line| line.starts_with("Subject:") && line.contains(part))
            };
            if self.mails.taken().iter().any(is_there) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(ROUND_MS)).await;
        }
        panic!("no mail to {name} about {part}: {:?}", self.mails.taken());
    }

    async fn failures(&self, domain: &str) -> i64 {
        let owned = self
            .stack
            .deps
            .accounts
            .owned_domain(&domain.parse().unwrap())
            .await
            .unwrap();
        owned.unwrap().verification.proof_failures
    }

    /// Waits until so many checks in a row didn't find the proof.
    async fn missed(&self, domain: &str, failures: i64) {
        for _ in 0..500 {
            if self.failures(domain).await == failures {
                return;
            }
            tokio::time::sleep(Duration::from_millis(ROUND_MS)).await;
        }
        panic!("{domain}: {} failures, not {failures}", self.failures(domain).await);
    }

    /// Waits until no check of the domain's proof is due.
    async fn checked(&self, domain: &str) {
        let accounts = &self.stack.deps.accounts;
        for _ in 0..500 {
            let owned = accounts.owned_domain(&domain.parse().unwrap()).await.unwrap();
            if owned.unwrap().proof_next_at_ms > Some(accounts.now_ms()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(ROUND_MS)).await;
        }
        panic!("the proof of {domain} isn't checked");
    }

    /// An account's key, and the published tokens of `shop.test` and `other.test`.
    async fn with_two_proofs() -> (Self, String, [String; 2]) {
        let life = Self::start().await;
        let key = life.account("owner").await;
        let tokens = [
            life.token(&key, "shop.test").await,
            life.token(&key, "other.test").await,
        ];
        life.publish(&[("shop.test", &tokens[0]), ("other.test", &tokens[1])]);
        (life, key, tokens)
    }

    /// Time for some rounds that are to change nothing.
    async fn some_rounds(&self) {
        tokio::time::sleep(Duration::from_millis(15 * ROUND_MS)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_is_gone_suspends_the_domain_until_it_is_back() {
    let (life, key, [gone, stays]) = Life::with_two_proofs().await;
    let verified = life.check(&key, "shop.test").await;
    assert_eq!(
        (&verified["verified"], &life.check(&key, "other.test").await["verified"]),
        (&json!(true), &json!(true))
    );
    let entry = json!({"url": "https://shop.test/1", "title": "One"});
    let made = life
        .stack
        .server
        .json("POST", "/api/v1/publisher/entries", &key, &entry)
        .await
        .expect(201);
    let entry_path = format!("/api/v1/publisher/entries/{}", text(&made["entryId"]));
    // The weekly check finds both, and three daily ones don't find the one.
    life.stack.pass_ms(7 * DAY_MS);
    life.checked("shop.test").await;
    assert_eq!(life.failures("shop.test").await, 0);
    life.publish(&[("other.test", &stays)]);
    life.stack.pass_ms(7 * DAY_MS);
    for failures in 1..=3 {
        life.missed("shop.test", failures).await;
        life.some_rounds().await;
        assert_eq!(
            life.failures("shop.test").await,
            failures,
            "the next check is a day later"
        );
        life.stack.pass_ms(DAY_MS);
    }
    let suspended = life
        .until(&key, "shop.test", "suspended", |status| status["reason"] == "suspended")
        .await;
    assert_eq!(
        (&suspended["status"], &suspended["expiresAt"]),
        (&json!("unverified"), &verified["expiresAt"])
    );
    assert!(suspended["suspendedAt"].is_string());
    assert_eq!(life.status(&key, "other.test").await["status"], "verified");
    life.mail("owner", "shop.test is suspended").await;
    // As after an expiry: what is there can be read, and nothing new is accepted.
    life.stack.server.get(&entry_path, &key).await.expect(200);
    let refused = life
        .stack
        .server
        .json(
            "POST",
            "/api/v1/publisher/entries",
            &key,
            &json!({"url": "https://shop.test/2", "title": "Two"}),
        )
        .await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let reported = life.check(&key, "shop.test").await;
    assert_eq!(
        (&reported["verified"], &reported["reason"]),
        (&json!(false), &json!("suspended")),
        "{reported}"
    );
    // The owner's check restores it at once.
    life.publish(&[("other.test", &stays), ("shop.test", &gone)]);
    let restored = life.check(&key, "shop.test").await;
    assert_eq!(
        (&restored["verified"], &restored["expiresAt"]),
        (&json!(true), &verified["expiresAt"]),
        "{restored}"
    );
    assert_eq!(life.status(&key, "shop.test").await["status"], "verified");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_restores_a_domain_too() {
    let (life, key, [gone, stays]) = Life::with_two_proofs().await;
    life.check(&key, "shop.test,other.test").await;
    life.publish(&[("other.test", &stays)]);
    life.stack.pass_ms(7 * DAY_MS);
    for failures in 1..=3 {
        life.missed("shop.test", failures).await;
        life.stack.pass_ms(DAY_MS);
    }
    life.until(&key, "shop.test", "suspended", |status| status["reason"] == "suspended")
        .await;
    life.publish(&[("other.test", &stays), ("shop.test", &gone)]);
    life.stack.pass_ms(DAY_MS);
    life.until(&key, "shop.test", "restored", |status| status["status"] == "verified")
        .await;
}

/// A resolver of ours that doesn't answer, or one that denies everything, suspends nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_of_ours_that_fails_suspends_nobody() {
    let life = Life::start().await;
    let key = life.account("owner").await;
    let names = ["file.test", "other.test", "page.test", "shop.test"];
    let mut tokens = Vec::new();
    for name in names {
        tokens.push((name, life.token(&key, name).await));
    }
    let published: Vec<_> = tokens.iter().map(|(name, token)| (*name, token.as_str())).collect();
    life.publish(&published);
    // Two are due a day before the others, which are their witnesses.
    life.check(&key, "file.test,other.test").await;
    life.stack.pass_ms(DAY_MS);
    life.check(&key, "page.test,shop.test").await;
    life.publish(&[]);
    life.stack.pass_ms(6 * DAY_MS);
    for _ in 0..5 {
        life.some_rounds().await;
        for name in names {
            assert_eq!(life.failures(name).await, 0, "{name}: the witnesses are gone too");
        }
        life.stack.pass_ms(2 * 3_600_000);
    }
    life.world.dns.freeze().unwrap();
    life.stack.pass_ms(7 * DAY_MS);
    for _ in 0..3 {
        life.stack.pass_ms(DAY_MS);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    for name in names {
        assert_eq!(
            life.failures(name).await,
            0,
            "{name}: silence counts nothing where nobody answers"
        );
    }
    life.world.dns.thaw().unwrap();
    // The network is back, without one of the proofs.
    life.publish(&published[1..]);
    life.stack.pass_ms(DAY_MS);
    life.missed("file.test", 1).await;
    assert_eq!(life.failures("shop.test").await, 0);
}

/// DNS works, and something in between answers every HTTPS request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_https_suspends_nobody_although_dns_works() {
    let life = Life::start().await;
    let key = life.account("owner").await;
    let token = life.token(&key, "shop.test").await;
    life.publish(&[("shop.test", &token)]);
    let mut files = Vec::new();
    for name in ["file.test", "other.test"] {
        let made = generate(&life.stack, &key, name, "https").await;
        let value = text(&made["record"]["value"]).to_owned();
        life.world.page(name, FILE, 200, &value);
        files.push((name, value));
    }
    life.check(&key, "shop.test,file.test").await;
    life.stack.pass_ms(DAY_MS);
    // Due a day later, so it's the witness.
    life.check(&key, "other.test").await;
    for (name, _) in &files {
        life.world.page(name, FILE, 404, "blocked");
    }
    life.stack.pass_ms(6 * DAY_MS);
    life.checked("shop.test").await;
    life.some_rounds().await;
    assert_eq!(life.failures("file.test").await, 0, "no file can be read");
    let (witness, value) = &files[1];
    life.world.page(witness, FILE, 200, value);
    life.stack.pass_ms(2 * 3_600_000);
    life.missed("file.test", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_account_gets_a_domain_once_its_holders_proof_is_gone() {
    let life = Life::start().await;
    let (mine, theirs) = (life.account("mine").await, life.account("theirs").await);
    let old = life.token(&mine, "shop.test").await;
    life.publish(&[("shop.test", &old)]);
    assert_eq!(life.check(&mine, "shop.test").await["verified"], true);
    assert_eq!(life.status(&mine, "shop.test").await["contested"], false);
    // The other account's other domain is verified by the same check, and witnesses the network.
    let (new, other) = (
        life.token(&theirs, "shop.test").await,
        life.token(&theirs, "other.test").await,
    );
    life.publish(&[("shop.test", &new), ("other.test", &other)]);
    let both = check("shop.test,other.test");
    let held = async || life.stack.server.get(&both, &theirs).await.refused(409, "domain_held");
    held().await;
    assert_eq!(life.status(&theirs, "other.test").await["status"], "verified");
    life.mail("mine", "another account has proven shop.test").await;
    life.mail("theirs", "shop.test is another account's").await;
    let status = life.status(&mine, "shop.test").await;
    assert_eq!(
        (&status["status"], &status["contested"]),
        (&json!("verified"), &json!(true))
    );
    let status = life.status(&theirs, "shop.test").await;
    assert_eq!(
        (&status["reason"], &status["contested"]),
        (&json!("pending"), &json!(false))
    );
    let mails = life.mails.taken().len();
    for failures in 1..=3 {
        held().await;
        assert_eq!(life.status(&mine, "shop.test").await["status"], "verified");
        life.stack.pass_ms(DAY_MS);
        life.missed("shop.test", failures).await;
    }
    life.mail("mine", "shop.test is suspended").await;
    life.mail("theirs", "shop.test is free").await;
    assert_eq!(life.mails.taken().len(), mails + 2, "repeated checks send nothing");
    let verified = life.check(&theirs, "shop.test").await;
    assert_eq!(verified["verified"], true, "{verified}");
    let path = format!("{STATUS}?domain=shop.test");
    life.stack.server.get(&path, &mine).await.refused(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contested_holder_whose_proof_is_published_keeps_its_domain() {
    let life = Life::start().await;
    let (mine, theirs) = (life.account("mine").await, life.account("theirs").await);
    let old = life.token(&mine, "shop.test").await;
    life.publish(&[("shop.test", &old)]);
    life.check(&mine, "shop.test").await;
    let new = life.token(&theirs, "shop.test").await;
    life.publish(&[("shop.test", &new), ("shop.test", &old)]);
    let held = async || {
        life.stack
            .server
            .get(&check("shop.test"), &theirs)
            .await
            .refused(409, "domain_held")
    };
    for _ in 0..8 {
        held().await;
        life.stack.pass_ms(DAY_MS);
        life.checked("shop.test").await;
        assert_eq!(life.failures("shop.test").await, 0);
    }
    assert_eq!(life.status(&mine, "shop.test").await["status"], "verified");
    // A renewal ends the daily checks.
    let newer = life.token(&mine, "shop.test").await;
    life.publish(&[("shop.test", &newer)]);
    assert_eq!(life.check(&mine, "shop.test").await["verified"], true);
    assert_eq!(life.status(&mine, "shop.test").await["contested"], false);
}

//! Services and commands on Kafka, PostgreSQL, Redis and ClickHouse. Each has accounts with exactly
//! the rights of docs/production.md.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use serde_json::{Value, json};
use service::instant::now_ms;
use test_engines::{ClickHouse, ClickHouseUser, Kafka, Postgres, Redis};

use crate::command::{key, ndjson, receipt, receipts, receipts_with, sign};
use crate::running::{get, post, until};
use crate::serve::Service;

const PASSWORD: &str = "secret";
const DOMAIN: &str = "news.example";

const DOCUMENT: &str = include_str!("../../../docs/production.md");

/// A broker with the documented accounts and their rights.
fn kafka() -> Kafka {
    let rights: Vec<&str> = DOCUMENT.lines().filter_map(|line| line.strip_prefix("$add ")).collect();
    let name = |options: &&'static str| options.strip_prefix("User:")?.split(' ').next();
    let users: BTreeSet<&str> = rights.iter().filter_map(name).collect();
    assert_eq!(users.len(), 4, "{users:?}");
    let kafka = Kafka::start_with_users(&Vec::from_iter(users)).unwrap();
    for options in rights {
        kafka.add_acls(&format!("--allow-principal {options}")).unwrap();
    }
    kafka
}

/// The documented rights on ClickHouse by account.
fn accounts() -> Vec<ClickHouseUser> {
    let mut accounts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in DOCUMENT.lines() {
        let Some((grant, rest)) = line.split_once(" TO receipts_") else {
            continue;
        };
        let account = rest.split(';').next().unwrap();
        accounts.entry(account).or_default().push(grant.to_owned());
    }
    assert_eq!(
        accounts.keys().copied().collect::<Vec<_>>(),
        ["analytics", "publisher", "tools", "writer"]
    );
    let user = |(name, grants): (&str, Vec<String>)| ClickHouseUser {
        name: name.to_owned(),
        password: PASSWORD.to_owned(),
        grants,
    };
    accounts.into_iter().map(user).collect()
}

#[test]
fn every_service_and_command_works_with_the_documented_rights() {
    let folder = tempfile::tempdir().unwrap();
    let (kafka, postgres, redis) = (kafka(), Postgres::start().unwrap(), Redis::start().unwrap());
    let security = kafka.security().unwrap();
    for statement in DOCUMENT.lines().filter(|line| line.starts_with("CREATE ")) {
        postgres.psql("postgres", statement).unwrap();
    }
    let user: Vec<&str> = DOCUMENT
        .lines()
        .find(|line| line.starts_with("ACL SETUSER "))
        .unwrap()
        .split(' ')
        .collect();
    redis.cli(&user).unwrap();
    let clickhouse = ClickHouse::start_with_users(1, &accounts()).unwrap();
    let (acknowledgement, _) = key(folder.path(), "Ed25519");
    let config = folder.path().join("receipts.toml");
    let text = format!(
        "[data]\ndir = {:?}\n[gateway]\nacknowledgement_keys = [{acknowledgement:?}]\n\
         [kafka]\nbrokers = {:?}\nreplication_factor = 1\nmin_insync_replicas = 1\n\
         security_protocol = 'sasl_ssl'\nsasl_mechanism = 'SCRAM-SHA-512'\nssl_ca = {:?}\n\
         [accounts]\nurl = {:?}\n[warehouse]\nurl = {:?}\n\
         [redis]\nurl = {:?}\nuser = 'receipts'\npassword = 'PASSWORD'\n\
         [publisher]\nerasure_delay_hours = 0\nerasure_interval_ms = 200\n",
        folder.path().join("data"),
        kafka.bootstrap(),
        security.certificates.ca,
        postgres
            .url("receipts")
            .replace("postgres://postgres@", "postgres://receipts@"),
        clickhouse.url(0),
        redis.url(),
    );
    std::fs::write(&config, text).unwrap();
    // Accounts of Kafka and of ClickHouse.
    let of = |user, account| {
        [
            ("RECEIPTS_CONFIG", config.to_str().unwrap()),
            ("RECEIPTS_KAFKA_SASL_USERNAME", user),
            ("RECEIPTS_KAFKA_SASL_PASSWORD", &security.login.password),
            ("RECEIPTS_WAREHOUSE_USER", account),
            ("RECEIPTS_WAREHOUSE_PASSWORD", PASSWORD),
        ]
    };
    let tool = |args: &[&str]| receipts_with(&of("receipts-tools", "tools"), args, b"");
    receipts_with(&of("receipts-tools", "writer"), &["migrate"], b"").expect(0);
    let scopes = "read,erase";
    let made = tool(&["keys", "create", "--domain", DOMAIN, "--scope", scopes, "--json"]).expect(0);
    let api_key = made.json()["apiKey"].as_str().unwrap().to_owned();

    let log = |name: &str| folder.path().join(format!("{name}.log"));
    let start = |name, user, account| {
        let file = std::fs::File::create(log(name)).unwrap();
        Service::start_logging(name, &[], &of(user, account), Stdio::from(file))
    };
    let services = [
        start("gateway", "receipts-gateway", "none"),
        start("verifier", "receipts-verifier", "none"),
        start("writer", "receipts-writer", "writer"),
        start("analytics-api", "none", "analytics"),
        start("publisher-api", "none", "publisher"),
    ];
    for service in &services {
        until("readiness", || service.is_ready());
    }
    let [gateway, _, writer, analytics, publisher] = &services;

    let (signing_key, public) = key(folder.path(), "ECDSA-P256");
    let signed = sign(&signing_key, &[(); 5].map(|()| receipt(&public)));
    let mut tampered = signed[4].clone();
    tampered["usage"]["context"] = json!("changed");
    let lines = ndjson(&[&signed[..], &[tampered]].concat());
    let send = [
        "send",
        "--url",
        &gateway.address,
        "--key",
        signing_key.to_str().unwrap(),
    ];
    receipts(&send, lines.as_bytes()).expect(0);
    until("the numbers", || {
        get(&analytics.address, "/api/v1/analytics/dashboard", &api_key).1["totalReceipts"] == 5
    });

    for group in ["writer", "evidence"] {
        let series = format!("receipts_writer_horizon_timestamp_seconds{{group=\"{group}\",shard=\"0\"}}");
        until("the horizon", || writer.metric(&series).is_some());
        let left_s = writer.metric(&series).unwrap() - now_ms() as f64 / 1_000.0;
        // By default Kafka keeps verdicts for three days.
        assert!((258_000.0..=259_201.0).contains(&left_s), "{group}: {left_s}");
    }

    for args in [
        &["audit"][..],
        &["rejected", "list"],
        &["rejected", "replay"],
        &["usage", "check"],
        &["usage", "rebuild", "--publisher", DOMAIN],
        &["repair"],
        &["rewind"],
    ] {
        tool(args).expect(0);
    }

    let headers = format!("Authorization: Bearer {api_key}\r\nContent-Type: application/json\r\n");
    let body = br#"{"receiptClientMetadata":true}"#;
    let erasures = "/api/v1/publisher/erasures";
    let (status, answer) = post(&publisher.address, erasures, &headers, body);
    assert_eq!(status, 202, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let erasure = format!("{erasures}/{}", answer["erasureId"].as_str().unwrap());
    until("the erasure", || {
        get(&publisher.address, &erasure, &api_key).1["state"] == "done"
    });

    for api in [analytics, publisher] {
        assert_eq!(api.metric("receipts_limiter_degraded"), Some(0.0), "Redis");
    }
    for name in ["gateway", "verifier", "writer", "analytics-api", "publisher-api"] {
        let lines = std::fs::read_to_string(log(name)).unwrap();
        let refused = lines.lines().find(|line| line.contains("authorization failed"));
        assert_eq!(refused, None, "{name}");
    }
}

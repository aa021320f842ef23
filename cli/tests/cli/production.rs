//! Services and commands on Kafka, PostgreSQL and ClickHouse. Each has an account of ClickHouse
//! with exactly the rights of docs/production.md.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use service::instant::now_ms;
use test_engines::{ClickHouse, ClickHouseUser, Kafka, Postgres};

use crate::command::{key, ndjson, receipt, receipts, receipts_with, sign};
use crate::running::{get, post, until};
use crate::serve::Service;

const PASSWORD: &str = "secret";
const DOMAIN: &str = "news.example";

/// The documented rights on ClickHouse by account.
fn accounts() -> Vec<ClickHouseUser> {
    let mut accounts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in include_str!("../../../docs/production.md").lines() {
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
    let (kafka, postgres) = (Kafka::start().unwrap(), Postgres::start().unwrap());
    postgres.create_database("receipts").unwrap();
    let clickhouse = ClickHouse::start_with_users(1, &accounts()).unwrap();
    let (acknowledgement, _) = key(folder.path(), "Ed25519");
    let config = folder.path().join("receipts.toml");
    let text = format!(
        "[data]\ndir = {:?}\n[gateway]\nacknowledgement_keys = [{acknowledgement:?}]\n\
         [kafka]\nbrokers = {:?}\nreplication_factor = 1\nmin_insync_replicas = 1\n\
         [accounts]\nurl = {:?}\n[warehouse]\nurl = {:?}\n\
         [publisher]\nerasure_delay_hours = 0\nerasure_interval_ms = 200\n",
        folder.path().join("data"),
        kafka.bootstrap(),
        postgres.url("receipts"),
        clickhouse.url(0),
    );
    std::fs::write(&config, text).unwrap();
    let of = |account| {
        [
            ("RECEIPTS_CONFIG", config.to_str().unwrap()),
            ("RECEIPTS_WAREHOUSE_USER", account),
            ("RECEIPTS_WAREHOUSE_PASSWORD", PASSWORD),
        ]
    };
    let tool = |args: &[&str]| receipts_with(&of("tools"), args, b"");
    receipts_with(&of("writer"), &["migrate"], b"").expect(0);
    let scopes = "read,erase";
    let made = tool(&["keys", "create", "--domain", DOMAIN, "--scope", scopes, "--json"]).expect(0);
    let api_key = made.json()["apiKey"].as_str().unwrap().to_owned();

    let start = |name, account| Service::start(name, &[], &of(account));
    let services = [
        start("gateway", "none"),
        start("verifier", "none"),
        start("writer", "writer"),
        start("analytics-api", "analytics"),
        start("publisher-api", "publisher"),
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
}

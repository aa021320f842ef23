//! A real Prometheus beside `receipts up`: what is recorded is what the list says, down to the
//! labels' values; the chart's rules load and are quiet; every question of the dashboards is one.

use std::path::{Path, PathBuf};

use crate::command::{key, ndjson, receipt, receipts, sign};
use crate::running::{Up, get, on, text, until};
use serde_json::{Value, json};
use service::metrics::MetricDoc;
use service::metrics::labels::{Values, values_of};
use test_engines::Prometheus;

fn files(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../helm/receipts/files")
        .join(folder)
}

/// Every `expr` of a dashboard, with its variables filled in.
fn questions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(question) = members.get("expr").and_then(Value::as_str) {
                let question = question.replace("$namespace", ".*").replace("$release", ".*");
                found.push(question.replace("$__rate_interval", "1m"));
            }
            members.values().for_each(|member| questions(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| questions(item, found)),
        _ => {}
    }
}

/// The query with which each runbook confirms its alert.
fn runbook_queries() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks");
    let pages = std::fs::read_dir(folder).unwrap();
    let texts = pages.map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap());
    let query = |text: String| Some(text.split_once("```promql\n")?.1.split_once("\n```")?.0.to_owned());
    let found: Vec<String> = texts.filter_map(query).collect();
    assert!(found.len() > 30, "{found:?}");
    found
}

/// Receipts in, some of them wrong, and a few questions, so that most of what is recorded shows.
fn use_everything(up: &Up, dir: &Path, data: &Path) {
    let made = on(data, &["keys", "create", "--domain", "news.example", "--json"])
        .expect(0)
        .json();
    let (key_path, public) = key(dir, "Ed25519");
    let mut signed = sign(&key_path, &[(); 30].map(|()| receipt(&public)));
    signed[3]["usage"]["context"] = json!("changed");
    let (gateway, analytics, key_text) = (up.url("gateway"), up.url("analytics"), key_path.to_str().unwrap());
    let send = ["send", "--url", &*gateway, "--key", key_text, "--json"];
    receipts(&send, ndjson(&signed).as_bytes()).expect(0);
    receipts(&[&send[..], &["--batch", "10"]].concat(), ndjson(&signed).as_bytes()).expect(0);
    receipts(&send, b"{\"version\":\"1.0.0\"}\n").expect(1);
    let api_key = made["apiKey"].as_str().unwrap();
    until("the verifier", || {
        get(&analytics, "/api/v1/analytics/dashboard", api_key).1["totalReceipts"].as_u64() >= Some(29)
    });
    for (address, status) in [("/api/v1/analytics/clients/nobody", 400), ("/nowhere", 404)] {
        assert_eq!(get(&analytics, address, api_key).0, status);
    }
    assert_eq!(get(&analytics, "/api/v1/analytics/dashboard", "rcpt_nonsense").0, 401);
}

#[test]
fn prometheus_finds_what_the_list_says_and_the_rules_are_quiet() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    on(&data, &["keys", "create", "--domain", "other.example"]).expect(0);
    let up = Up::start(&data);
    let metrics = up.url("metrics");
    let target = metrics.strip_prefix("http://").unwrap();
    let server = Prometheus::start(&[("receipts", target)], &files("rules").join("*.yaml")).unwrap();
    use_everything(&up, dir.path(), &data);

    until("the target and a round of every rule", || {
        let targets = server.json("/api/v1/targets?state=active").unwrap();
        let targets = targets["data"]["activeTargets"].as_array().unwrap().clone();
        let groups = server.json("/api/v1/rules").unwrap();
        let groups = groups["data"]["groups"].as_array().unwrap().clone();
        let rules: Vec<_> = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap())
            .collect();
        assert!(rules.len() > 30, "{} rules", rules.len());
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
        targets.iter().all(|target| target["health"] == "up") && rules.iter().all(|rule| rule["health"] == "ok")
    });
    // A sound installation wakes nobody: nothing fires, and nothing of it is about to.
    until("counted checks", || {
        !server.query("receipts_audit_checks_total > 0").unwrap().is_empty()
    });
    let firing = server.json("/api/v1/alerts").unwrap()["data"]["alerts"].clone();
    let firing: Vec<_> = firing
        .as_array()
        .unwrap()
        .iter()
        .filter(|alert| alert["state"] == "firing")
        .collect();
    assert!(firing.is_empty(), "{firing:?}");

    // Every series is of the list, with its labels and their values.
    let mut seen = std::collections::BTreeSet::new();
    for series in server.series("{__name__=~\"receipts_.+\"}").unwrap() {
        let name = series["__name__"].as_str().unwrap();
        let row = MetricDoc::of_series(name).unwrap_or_else(|| panic!("{name} isn't in METRICS as what it is"));
        seen.insert(row.name);
        for (label, value) in series.as_object().unwrap() {
            if ["__name__", "job", "instance", "le"].contains(&label.as_str()) {
                continue;
            }
            assert!(row.labels.contains(&label.as_str()), "{name} has a label {label}");
            if let Some(Values::OneOf(values)) = values_of(row.name, label) {
                let value = value.as_str().unwrap();
                assert!(
                    values.contains(&value),
                    "{name} {label} is {value}, which the list doesn't have"
                );
            }
        }
    }
    for area in [
        "gateway",
        "log",
        "verifier",
        "writer",
        "warehouse",
        "api",
        "accounts",
        "audit",
        "watermark",
        "component",
    ] {
        let prefix = format!("receipts_{area}_");
        assert!(
            seen.iter().any(|name| name.starts_with(&prefix)),
            "nothing of {area}: {seen:?}"
        );
    }

    let faults = Prometheus::lint(&text(&metrics, "/metrics")).unwrap();
    assert_eq!(faults, "", "promtool check metrics");

    for query in runbook_queries() {
        server.query(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
    }
    for entry in std::fs::read_dir(files("dashboards")).unwrap() {
        let path = entry.unwrap().path();
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut found = Vec::new();
        questions(&dashboard, &mut found);
        assert!(found.len() > 4, "{}", path.display());
        for question in found {
            // Another status than 200 is a question that Prometheus can't read.
            server
                .query(&question)
                .unwrap_or_else(|error| panic!("{question}: {error}"));
        }
    }
    assert_eq!(up.stop(), 0);
}

//! Strangers who sign with their own keys under the names and client IDs of others, against a real
//! `receipts up`: no proven number, name or client changes, and theirs are shown apart.

use std::path::{Path, PathBuf};

use crate::command::{key, ndjson, receipt, receipts, sign};
use crate::running::{Up, get, new_api_key, on, until};
use serde_json::{Value, json};

/// The client ID of the operator's model.
const KNOWN: &str = "7d1f6f63-5d0c-4a63-9a5e-0c5c7f1a2b03";
/// A client ID that a stranger uses before the operator claims it.
const SQUATTED: &str = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10";
/// The client ID of a sender without an operator.
const HONEST: &str = "3b1f6f63-5d0c-4a63-9a5e-0c5c7f1a2b04";

/// A key with the names that are claimed with it.
struct Sender {
    private: PathBuf,
    public: String,
    name: &'static str,
}

impl Sender {
    fn new(dir: &Path, folder: &str, name: &'static str) -> Self {
        let dir = dir.join(folder);
        std::fs::create_dir(&dir).unwrap();
        let (private, public) = key(&dir, "Ed25519");
        Self { private, public, name }
    }

    fn public_file(&self) -> PathBuf {
        self.private.with_extension("key.pub")
    }

    /// Signed receipts under a client ID.
    fn sign(&self, client_id: &str, count: usize) -> Vec<Value> {
        let unsigned: Vec<Value> = (0..count)
            .map(|_| {
                let mut receipt = receipt(&self.public);
                receipt["client"]["id"] = json!(client_id);
                receipt["client"]["name"] = json!(self.name);
                receipt["client"]["organization"] = json!("OpenAI");
                receipt
            })
            .collect();
        sign(&self.private, &unsigned)
    }

    fn send(&self, up: &Up, signed: &[Value]) {
        let (url, key) = (up.url("gateway"), self.private.to_str().unwrap());
        let args = ["send", "--url", &url, "--key", key, "--batch", "100", "--json"];
        let sent = receipts(&args, ndjson(signed).as_bytes()).expect(0).json();
        assert_eq!(sent["accepted"]["receipts"], signed.len());
    }
}

/// A running service with a publisher and an operator.
struct World {
    up: Up,
    api_key: String,
    data: PathBuf,
}

impl World {
    fn ask(&self, path: &str) -> Value {
        let (status, answer) = get(&self.up.url("analytics"), path, &self.api_key);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// An answer that has everything that was acknowledged until now.
    fn settled(&self, path: &str) -> Value {
        let now = jiff::Timestamp::now();
        let mut answer = Value::Null;
        until("the watermark", || {
            answer = self.ask(path);
            let through = answer["completeThrough"].as_str().unwrap_or("1970-01-01T00:00:00Z");
            through.parse::<jiff::Timestamp>().unwrap() > now
        });
        answer
    }

    /// Waits until a receipt that is sent with `sender`'s key has this trust: the verifier follows
    /// the account store within seconds. Returns how many receipts that took.
    fn until_stamped(&self, sender: &Sender, client_id: &str, is_good: impl Fn(&Value) -> bool) -> usize {
        let mut count = 0;
        until("the stamp", || {
            let signed = sender.sign(client_id, 1);
            sender.send(&self.up, &signed);
            count += 1;
            let id = signed[0]["receiptId"].as_str().unwrap();
            let mut status = Value::Null;
            until("the outcome", || {
                status = self.ask(&format!("/api/v1/receipts/{id}"));
                status["status"] != "unknown"
            });
            is_good(&status)
        });
        count
    }
}

/// The rows of clients: ID, key's fingerprint, operator, name, receipts.
fn rows(answer: &Value) -> Vec<(String, String, Value, String, u64)> {
    let text = |row: &Value, member: &str| row[member].as_str().unwrap().to_owned();
    let mut rows: Vec<_> = answer["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                text(row, "clientId"),
                text(row, "keyFingerprint"),
                row["operator"].clone(),
                text(row, "name"),
                row["receiptCount"].as_u64().unwrap(),
            )
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.4));
    rows
}

fn is_proven(status: &Value) -> bool {
    status["receipts"][0]["trust"] == "proven"
}

#[test]
fn strangers_change_no_proven_number_name_or_client() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = new_api_key(&data, "news.example", &[]);
    on(&data, &["accounts", "set-tier", "news.example", "enterprise"]).expect(0);
    let operator = Sender::new(dir.path(), "operator", "Model");
    let rival = Sender::new(dir.path(), "rival", "Rival");
    let stranger = Sender::new(dir.path(), "stranger", "Renamed");
    let another = Sender::new(dir.path(), "another", "Renamed again");
    for (domain, sender) in [("lab.example", &operator), ("rival.example", &rival)] {
        on(&data, &["keys", "create", "--domain", domain]).expect(0);
        on(&data, &["operators", "create", domain]).expect(0);
        let public = sender.public_file();
        on(
            &data,
            &["operators", "add-key", domain, "--key", public.to_str().unwrap()],
        )
        .expect(0);
    }
    let up = Up::start(&data);
    let world = World { up, api_key, data };

    operator.send(&world.up, &operator.sign(KNOWN, 20));
    // One request of 100 moves the total, and no proven number.
    stranger.send(&world.up, &stranger.sign(KNOWN, 100));
    another.send(&world.up, &another.sign(KNOWN, 30));
    let answer = world.settled("/api/v1/analytics/dashboard");
    assert_eq!(answer["totalReceipts"], 150);
    assert_eq!(answer["byTrust"]["proven"]["totalReceipts"], 20);
    assert_eq!(answer["byTrust"]["unproven"]["totalReceipts"], 130);
    let proven = world.ask("/api/v1/analytics/dashboard?trust=proven");
    assert_eq!(
        (&proven["totalReceipts"], &proven["uniqueClients"]),
        (&json!(20), &json!(1))
    );

    // Each key is a row, with its own name.
    let found = rows(&world.ask("/api/v1/analytics/clients"));
    let names: Vec<(&str, &str, u64)> = found
        .iter()
        .map(|row| (row.0.as_str(), row.3.as_str(), row.4))
        .collect();
    assert_eq!(
        names,
        [
            (KNOWN, "Renamed", 100),
            (KNOWN, "Renamed again", 30),
            (KNOWN, "Model", 20)
        ]
    );
    let operators: Vec<&Value> = found.iter().map(|row| &row.2).collect();
    assert_eq!(operators, [&Value::Null, &Value::Null, &json!("lab.example")]);
    assert!(found[0].1 != found[1].1 && found[1].1 != found[2].1);
    let found = rows(&world.ask("/api/v1/analytics/clients?trust=proven"));
    assert_eq!((found.len(), found[0].3.as_str(), found[0].4), (1, "Model", 20));
    let client = world.ask(&format!("/api/v1/analytics/clients/{KNOWN}"));
    let names: Vec<&Value> = client["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| &key["name"])
        .collect();
    assert_eq!(names, ["Renamed", "Renamed again", "Model"], "each key's own: {client}");
    assert_eq!(client.get("name"), None);
    // Every number counts clients as the list does.
    assert_eq!(
        (&answer["uniqueClients"], &client["uniqueClients"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(
        answer["topOperators"],
        json!([{"operator": "lab.example", "receiptCount": 20}])
    );

    let rivals = claims_only_mark(&world, &operator, &rival, &stranger);
    revoked_keys_prove_nothing_that_arrives_later(&world, &operator, 25 + rivals);
    receipts_from_before_the_first_verification(&world, &stranger);
}

/// A claim rejects nobody's receipts: it marks those of other keys. Returns the other operator's
/// proven receipts.
fn claims_only_mark(world: &World, operator: &Sender, rival: &Sender, stranger: &Sender) -> usize {
    rival.send(&world.up, &rival.sign(SQUATTED, 3));
    let before = stranger.sign(SQUATTED, 10);
    stranger.send(&world.up, &before);
    stranger.send(&world.up, &stranger.sign(HONEST, 10));
    world.settled("/api/v1/analytics/dashboard");
    on(&world.data, &["operators", "claim", "lab.example", SQUATTED]).expect(0);
    // Anybody with a domain can claim any ID.
    on(&world.data, &["operators", "claim", "rival.example", HONEST]).expect(0);
    // The other operator's key isn't the claimant's.
    let tries = world.until_stamped(rival, SQUATTED, |status| !is_proven(status));
    operator.send(&world.up, &operator.sign(SQUATTED, 5));
    stranger.send(&world.up, &stranger.sign(SQUATTED, 40));
    stranger.send(&world.up, &stranger.sign(HONEST, 10));

    let client = world.settled(&format!("/api/v1/analytics/clients/{SQUATTED}"));
    let keys: Vec<_> = client["keys"].as_array().unwrap().iter().collect();
    let of = |name: &str| *keys.iter().find(|key| key["name"] == name).unwrap();
    let rivals = 3 + tries - 1;
    assert_eq!(of("Model")["byTrust"], json!({"proven": 5, "unproven": 0}), "{client}");
    assert_eq!(
        of("Renamed")["byTrust"],
        json!({"proven": 0, "unproven": 50}),
        "{client}"
    );
    assert_eq!(
        of("Rival")["byTrust"],
        json!({"proven": rivals, "unproven": 1}),
        "{client}"
    );
    assert_eq!(client["uniqueClients"], 3);
    let claimants = |name: &str| &of(name)["clientIdClaimedBy"];
    assert_eq!(claimants("Model"), &Value::Null);
    for name in ["Renamed", "Rival"] {
        assert_eq!(claimants(name), &json!(["lab.example"]), "{client}");
    }
    // The sender whose ID a stranger claimed loses no receipt, and the claimant is named.
    let client = world.ask(&format!("/api/v1/analytics/clients/{HONEST}"));
    assert_eq!(client["totalReceipts"], 20, "{client}");
    assert_eq!(client["keys"][0]["clientIdClaimedBy"], json!(["rival.example"]));
    assert_eq!(world.ask("/api/v1/analytics/refusals")["totalRefused"], 0);
    let status = world.ask(&format!(
        "/api/v1/receipts/{}",
        before[0]["receiptId"].as_str().unwrap()
    ));
    assert_eq!((&status["status"], is_proven(&status)), (&json!("verified"), false));
    assert_eq!(status["receipts"][0]["clientIdClaimedBy"], json!(["lab.example"]));
    rivals
}

fn revoked_keys_prove_nothing_that_arrives_later(world: &World, operator: &Sender, before: usize) {
    let proven = || world.settled("/api/v1/analytics/dashboard?trust=proven")["totalReceipts"].clone();
    assert_eq!(proven(), before);
    let shown = on(&world.data, &["operators", "show", "lab.example", "--json"])
        .expect(0)
        .json();
    let thumbprint = shown["keys"][0]["thumbprint"].as_str().unwrap();
    on(&world.data, &["operators", "end-key", "lab.example", thumbprint]).expect(0);
    // The ended key is a stranger's from now on.
    let tries = world.until_stamped(operator, KNOWN, |status| !is_proven(status));
    operator.send(&world.up, &operator.sign(KNOWN, 7));
    assert_eq!(proven(), before + tries - 1, "what had arrived stays proven");
    // A new period proves what arrives in it.
    on(
        &world.data,
        &[
            "operators",
            "add-key",
            "lab.example",
            "--key",
            operator.public_file().to_str().unwrap(),
        ],
    )
    .expect(0);
    let again = world.until_stamped(operator, KNOWN, is_proven);
    assert_eq!(proven(), before + tries - 1 + 1);
    assert!(again >= 1);
}

/// Receipts that arrive before anybody has verified the domain count in no total, unless a query
/// includes them.
fn receipts_from_before_the_first_verification(world: &World, stranger: &Sender) {
    let of_late = |count| {
        let unsigned: Vec<Value> = (0..count)
            .map(|_| {
                let mut receipt = receipt(&stranger.public);
                receipt["content"]["publisher"] = json!("late.example");
                receipt["content"]["url"] = json!("https://late.example/lead");
                receipt
            })
            .collect();
        sign(&stranger.private, &unsigned)
    };
    stranger.send(&world.up, &of_late(200));
    world.settled("/api/v1/analytics/dashboard");
    let api_key = new_api_key(&world.data, "late.example", &[]);
    let ask = |path: &str| {
        let (status, answer) = get(&world.up.url("analytics"), path, &api_key);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    let total = |query: &str| {
        let answer = ask(&format!("/api/v1/analytics/dashboard?{query}"));
        let counts = ["totalReceipts", "uniqueClients", "receiptsBeforeVerification"];
        counts.map(|name| answer[name].as_u64().unwrap())
    };
    assert_eq!(total(""), [0, 0, 200]);
    assert_eq!(total("beforeVerification=include"), [200, 1, 200]);
    assert_eq!(total("beforeVerification=only&trust=unproven"), [200, 1, 200]);
    assert_eq!(total("beforeVerification=only&trust=proven"), [0, 0, 0]);
    assert_eq!(ask("/api/v1/analytics/receipts")["receipts"], json!([]));
    let listed = ask("/api/v1/analytics/receipts?beforeVerification=include&limit=1");
    assert_eq!(listed["receipts"][0]["beforeVerification"], true);
    // Somebody who sent the same again afterwards would change nothing. What is sent now counts.
    stranger.send(&world.up, &of_late(1));
    world.settled("/api/v1/analytics/dashboard");
    assert_eq!(total(""), [1, 1, 200]);
}

//! Floods from addresses of strangers, against a real `receipts up`: batches whose signature is
//! garbage, and well-signed batches full of garbage that compress to almost nothing. Another
//! publisher's sender isn't slowed by an answer of 429, every receipt has an outcome, and the disk
//! holds less than what was sent.
//!
//! `RECEIPTS_FLOOD_S` makes a flood last so many seconds, and `RECEIPTS_FLOOD` selects by name. The
//! tests print the freshness of the other publisher's numbers, and assert no time.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::running::{Up, execute, get, new_api_key, on, post, until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use receipt::{Algorithm, Limits, SigningKey, sign_batch, sign_receipt};
use serde_json::{Value, json};
use test_engines::http::{self, Answer};

/// Receipts of one batch of the second flood; a round has 28,000, fourteen times what is stored.
const RECEIPTS_PER_BATCH: usize = 1_000;
const BATCHES: usize = 28;
const STORED_PER_DAY: usize = 2_000;
/// Garbage in one round, in small batches.
const GARBAGE_BYTES: usize = 198_000;

/// The test's own address, which states those of senders.
const PROXIES: &str = r#"["127.0.0.1"]"#;

/// Makes an API key of a publisher that may ask often.
fn create(data: &Path, domain: &str) -> String {
    new_api_key(data, domain, &["--tier", "enterprise"])
}

/// Answers of one flood.
#[derive(Debug, Default)]
struct Flood {
    acknowledged: usize,
    refused: usize,
    limited: usize,
    bytes: usize,
}

/// Sends a request that a trusted proxy has from the address `from`.
fn post_from(gateway: &str, path: &str, from: &str, headers: &str, body: &[u8]) -> u16 {
    let headers = format!("Content-Type: application/json\r\nX-Forwarded-For: {from}\r\n{headers}");
    post(gateway, path, &headers, body).0
}

impl Flood {
    fn send(&mut self, gateway: &str, from: &str, headers: &str, body: &[u8]) {
        self.bytes += body.len();
        match post_from(gateway, "/api/v1/receipts/batch", from, headers, body) {
            202 => self.acknowledged += 1,
            401 => self.refused += 1,
            429 => self.limited += 1,
            other => panic!("a flood was answered {other}"),
        }
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

/// A batch with a valid signature, whose receipts were changed after they were signed.
fn tampered(key: &SigningKey, publisher: &str, number: usize) -> Vec<u8> {
    let mut one = crate::command::receipt(key.public_key_pem());
    one["content"]["publisher"] = json!(publisher);
    one["content"]["url"] = json!(format!("https://{publisher}/lead"));
    let signed = sign_receipt(&bytes(&one), key, &Limits::default()).unwrap();
    let mut one: Value = serde_json::from_slice(&signed).unwrap();
    one["usage"]["context"] = "changed".into();
    let receipts = vec![one; RECEIPTS_PER_BATCH];
    let batch = json!({"version": "1.0.0", "batchId": format!("b-{number}"), "receipts": receipts});
    sign_batch(&bytes(&batch), key, &Limits::default()).unwrap()
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Bytes that are written in the segments of the logs, and of the tables' present parts.
fn stored(data: &Path) -> (u64, u64) {
    let mut log = 0;
    for file in ["log", "verdicts"]
        .iter()
        .flat_map(|log| std::fs::read_dir(data.join(log)).unwrap())
    {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "segment") {
            log += written(&path);
        }
    }
    let tables = execute(
        data,
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'receipts' FORMAT TSV",
    );
    (log, tables.trim().parse().unwrap())
}

/// Bytes of a segment before the zeros that it was allocated with, in whole blocks.
fn written(segment: &Path) -> u64 {
    let mut file = std::fs::File::open(segment).unwrap();
    let (mut block, mut bytes) = ([0; 4_096], 0);
    while file.read_exact(&mut block).is_ok() && block != [0; 4_096] {
        bytes += block.len() as u64;
    }
    bytes
}

/// A publisher's total.
fn total(up: &Up, api_key: &str) -> u64 {
    let (status, answer) = get(&up.url("analytics"), "/api/v1/analytics/dashboard", api_key);
    assert_eq!(status, 200, "{answer}");
    answer["totalReceipts"].as_u64().unwrap()
}

fn rejected(up: &Up, api_key: &str) -> u64 {
    let (status, answer) = get(&up.url("analytics"), "/api/v1/analytics/refusals", api_key);
    assert_eq!(status, 200, "{answer}");
    answer["totalRefused"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

/// Sends a receipt of `honest.example`, which the gateway and the analytics API accept whatever
/// others do. Returns the time from its acknowledgement until the total had it.
fn send_honestly(up: &Up, key: &SigningKey, api_key: &str, sent: &mut Vec<String>) -> Duration {
    let mut one = crate::command::receipt(key.public_key_pem());
    one["content"]["publisher"] = "honest.example".into();
    one["content"]["url"] = "https://honest.example/lead".into();
    sent.push(one["receiptId"].as_str().unwrap().to_owned());
    let body = sign_receipt(&bytes(&one), key, &Limits::default()).unwrap();
    let signature = STANDARD.encode(key.sign(&body).unwrap());
    let header = format!("X-Service-Signature: {signature}\r\n");
    let status = post_from(&up.url("gateway"), "/api/v1/receipts", "198.51.100.7", &header, &body);
    assert_eq!(status, 202, "an honest sender");
    let acknowledged = Instant::now();
    until("an honest receipt", || total(up, api_key) >= sent.len() as u64);
    acknowledged.elapsed()
}

/// Sends them, one after the other, until `stop` is set.
fn be_honest(up: &Up, api_key: &str, stop: &AtomicBool) -> Vec<Duration> {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let (mut delays, mut sent) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        delays.push(send_honestly(up, &key, api_key, &mut sent));
    }
    delays
}

/// A small batch whose content was changed after it was signed.
fn garbage(key: &SigningKey) -> Vec<u8> {
    let one = crate::command::receipt(key.public_key_pem());
    let one = sign_receipt(&bytes(&one), key, &Limits::default()).unwrap();
    let one: Value = serde_json::from_slice(&one).unwrap();
    let batch = json!({"version": "1.0.0", "batchId": "b", "receipts": [one, one]});
    let signed = sign_batch(&bytes(&batch), key, &Limits::default()).unwrap();
    String::from_utf8(signed)
        .unwrap()
        .replace(r#""batchId":"b""#, r#""batchId":"c""#)
        .into_bytes()
}

/// Both floods, at least once.
fn flood(up: &Up) -> (Flood, Flood) {
    let gateway = up.url("gateway");
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let seconds = std::env::var("RECEIPTS_FLOOD_S").map_or(0, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    let small = garbage(&key);
    let big: Vec<_> = (0..BATCHES)
        .map(|number| compressed(&tampered(&key, "target.example", number)))
        .collect();
    let (mut garbage, mut signed) = (Flood::default(), Flood::default());
    loop {
        for _ in 0..GARBAGE_BYTES / small.len() {
            garbage.send(&gateway, "203.0.113.8", "", &small);
        }
        for body in &big {
            signed.send(&gateway, "203.0.113.9", "Content-Encoding: gzip\r\n", body);
        }
        if Instant::now() >= end {
            return (garbage, signed);
        }
    }
}

#[test]
fn a_flood_costs_others_nothing_and_stores_less_than_it_sends() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (honest_key, target_key) = (create(&data, "honest.example"), create(&data, "target.example"));
    let per_day = STORED_PER_DAY.to_string();
    let settings = [
        ("RECEIPTS_GATEWAY_TRUSTED_PROXIES", PROXIES),
        ("RECEIPTS_VERIFIER_REJECTED_STORED_PER_DAY_MAX", per_day.as_str()),
    ];
    let up = Up::start_set(&data, &settings);

    let before = stored(&data);
    let stop = AtomicBool::new(false);
    let ((garbage, signed), delays) = std::thread::scope(|scope| {
        let honest = scope.spawn(|| be_honest(&up, &honest_key, &stop));
        let sent = flood(&up);
        stop.store(true, Ordering::Relaxed);
        (sent, honest.join().unwrap())
    });
    // Nothing of a batch that wasn't signed by its key is acknowledged.
    assert_eq!(garbage.acknowledged, 0);
    assert!(garbage.refused > 0 && signed.acknowledged > 0 && signed.refused == 0);
    // Each receipt of an acknowledged batch has an outcome.
    let expected = (signed.acknowledged * RECEIPTS_PER_BATCH) as u64;
    until("the verdicts", || rejected(&up, &target_key) >= expected);
    assert_eq!(rejected(&up, &target_key), expected);
    assert_eq!(total(&up, &target_key), 0);
    assert_eq!(total(&up, &honest_key), delays.len() as u64);

    let after = stored(&data);
    let sent = (garbage.bytes + signed.bytes) as u64;
    let (log, tables) = (after.0 - before.0, after.1 - before.1);
    println!("garbage: {garbage:?}");
    println!("signed:  {signed:?}");
    println!("sent {sent} bytes; the log grew by {log}, the tables by {tables}");
    let mut delays = delays;
    delays.sort();
    let at = |share: usize| delays[(delays.len() * share / 100).min(delays.len() - 1)];
    println!(
        "freshness of {} honest receipts: p50 {:?}, p99 {:?}",
        delays.len(),
        at(50),
        at(99)
    );
    assert!(
        log + tables < sent,
        "{log} + {tables} bytes are stored, {sent} were sent"
    );
    assert_eq!(up.stop(), 0);
    on(&data, &["audit"]).expect(0);
}

/// A receipt of a new key, whose own signature is wrong and whose request is signed.
fn wrong(key: &SigningKey) -> (Value, String, Vec<u8>) {
    let mut one = crate::command::receipt(key.public_key_pem());
    one["signatureAlgorithm"] = key.algorithm().as_str().into();
    one["signature"] = STANDARD.encode([7; 64]).into();
    let body = bytes(&one);
    let header = format!(
        "Content-Type: application/json\r\nX-Service-Signature: {}\r\n",
        STANDARD.encode(key.sign(&body).unwrap())
    );
    (one, header, body)
}

fn send_wrong(gateway: &str) -> (SigningKey, Value) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let (one, header, body) = wrong(&key);
    assert_eq!(post(gateway, "/api/v1/receipts", &header, &body).0, 202);
    (key, one)
}

/// `GET` of the analytics API, signed by a sender's key (RFC 9421).
fn ask_signed(url: &str, path: &str, key: &SigningKey, from: &str) -> Answer {
    let now_s = jiff::Timestamp::now().as_second();
    let params = format!(r#"("@method" "@target-uri");created={now_s};expires={}"#, now_s + 60);
    let base = format!("\"@method\": GET\n\"@target-uri\": {url}{path}\n\"@signature-params\": {params}");
    let signature = STANDARD.encode(key.sign(base.as_bytes()).unwrap());
    let pem = key.public_key_pem().lines();
    let public: String = pem.filter(|line| !line.starts_with('-')).collect();
    let headers = format!(
        "X-Forwarded-For: {from}\r\nX-Client-Public-Key: {public}\r\n\
         Signature-Input: sig1={params}\r\nSignature: sig1=:{signature}:\r\n"
    );
    http::request(url, &format!("GET {path}"), &headers, b"").unwrap()
}

/// The body of such an answer.
pub(crate) fn get_signed(url: &str, path: &str, key: &SigningKey) -> Value {
    ask_signed(url, path, key, "198.51.100.7").json()
}

// A drill: the verifier counts 10,000 keys apart.
#[test]
#[ignore = "ten thousand requests: stage-drills runs it"]
fn rejections_of_a_later_sender_are_stored_after_ten_thousand_keys() {
    const KEYS: usize = 10_050;
    const THREADS: usize = 15;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let settings = [
        ("RECEIPTS_GATEWAY_RATE_ADDRESS_VERIFICATIONS_PER_S", "0"),
        ("RECEIPTS_VERIFIER_REJECTED_STORED_PER_DAY_MAX", "100"),
    ];
    let up = Up::start_set(&data, &settings);
    let (gateway, analytics) = (up.url("gateway"), up.url("analytics"));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..KEYS / THREADS {
                    send_wrong(&gateway);
                }
            });
        }
    });
    // One key more, with more than is stored of it.
    let greedy = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let receipts = vec![wrong(&greedy).0; 110];
    let batch = json!({"version": "1.0.0", "batchId": "b", "receipts": receipts});
    let batch = sign_batch(&bytes(&batch), &greedy, &Limits::default()).unwrap();
    let headers = "Content-Type: application/json\r\n";
    assert_eq!(post(&gateway, "/api/v1/receipts/batch", headers, &batch).0, 202);

    let (honest, one) = send_wrong(&gateway);
    let path = format!("/api/v1/receipts/{}", one["receiptId"].as_str().unwrap());
    let mut outcome = Value::Null;
    until("the honest sender's outcome", || {
        outcome = get_signed(&analytics, &path, &honest);
        outcome["status"] == "rejected"
    });
    assert_eq!(outcome["reason"], "bad_signature");
    let missing = format!("/api/v1/receipts/{}", uuid::Uuid::new_v4());
    let unknown = get_signed(&analytics, &missing, &greedy);
    assert_eq!(unknown["status"], "unknown", "{unknown}");
    assert_eq!(unknown["unlistedRejections"][0]["receipts"], 10, "{unknown}");
    assert_eq!(up.stop(), 0);
    on(&data, &["audit"]).expect(0);
}

/// Strangers' threads of one flood.
const STRANGERS: usize = 4;

/// Requests of one flood, by status.
type Answers = BTreeMap<u16, usize>;

/// Sender of one request of a stranger, by its number; returns the status.
type Stranger = Box<dyn Fn(&Up, usize) -> u16 + Sync>;

/// Batches whose receipts have signatures that are wrong and cost as much as right ones.
fn bad_signatures(algorithm: Algorithm) -> Stranger {
    let key = SigningKey::generate(algorithm).unwrap();
    let signature = match algorithm {
        Algorithm::Ed25519 => vec![7; 64],
        Algorithm::Rsa2048 => [&[0][..], &[7; 255]].concat(),
        Algorithm::EcdsaP256 => [&[0x30, 62, 2, 29][..], &[7; 29], &[2, 29], &[7; 29]].concat(),
    };
    let batches = (0..8).map(|number| {
        let receipts: Vec<Value> = (0..RECEIPTS_PER_BATCH)
            .map(|_| {
                let mut one = crate::command::receipt(key.public_key_pem());
                one["signatureAlgorithm"] = key.algorithm().as_str().into();
                one["signature"] = STANDARD.encode(&signature).into();
                one
            })
            .collect();
        let batch = json!({"version": "1.0.0", "batchId": format!("b-{number}"), "receipts": receipts});
        compressed(&sign_batch(&bytes(&batch), &key, &Limits::default()).unwrap())
    });
    let batches: Vec<_> = batches.collect();
    Box::new(move |up, number| {
        let body = &batches[number % batches.len()];
        post_from(
            &up.url("gateway"),
            "/api/v1/receipts/batch",
            "203.0.113.9",
            "Content-Encoding: gzip\r\n",
            body,
        )
    })
}

fn fresh_keys(address: fn(usize) -> String) -> Stranger {
    Box::new(move |up, number| {
        let (_, header, body) = wrong(&SigningKey::generate(Algorithm::Ed25519).unwrap());
        let header = header.replace("Content-Type: application/json\r\n", "");
        post_from(&up.url("gateway"), "/api/v1/receipts", &address(number), &header, &body)
    })
}

/// Everything that a stranger can do without an account, beside a sender and a publisher who notice
/// nothing.
#[test]
#[ignore = "a drill: stage-drills runs it"]
fn floods_of_strangers_cost_an_honest_sender_and_its_publisher_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = create(&data, "honest.example");
    let settings = [
        ("RECEIPTS_GATEWAY_TRUSTED_PROXIES", PROXIES),
        ("RECEIPTS_ANALYTICS_TRUSTED_PROXIES", PROXIES),
    ];
    let up = Up::start_set(&data, &settings);
    let seconds = std::env::var("RECEIPTS_FLOOD_S").map_or(2, |text| text.parse().unwrap());
    let small = garbage(&SigningKey::generate(Algorithm::Ed25519).unwrap());
    let floods: [(&str, Stranger); 8] = [
        (
            "batches that nobody signed",
            Box::new(move |up, _| post_from(&up.url("gateway"), "/api/v1/receipts/batch", "203.0.113.8", "", &small)),
        ),
        ("Ed25519 signatures", bad_signatures(Algorithm::Ed25519)),
        ("RSA signatures", bad_signatures(Algorithm::Rsa2048)),
        ("P-256 signatures", bad_signatures(Algorithm::EcdsaP256)),
        ("fresh keys", fresh_keys(|_| "203.0.113.10".to_owned())),
        (
            "fresh keys of many addresses",
            fresh_keys(|number| format!("198.18.{}.{}", number / 250 % 250, number % 250)),
        ),
        (
            "senders\u{2019} requests",
            Box::new(|up, _| {
                let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
                let path = format!("/api/v1/receipts/{}", uuid::Uuid::new_v4());
                ask_signed(&up.url("analytics"), &path, &key, "203.0.113.11").status
            }),
        ),
        (
            "wrong API keys",
            Box::new(|up, number| {
                let (url, path) = (up.url("analytics"), "/api/v1/analytics/dashboard");
                get(&url, path, &format!("rcpt_{number:032}")).0
            }),
        ),
    ];
    let honest = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let mut sent = Vec::new();
    let only = std::env::var("RECEIPTS_FLOOD").unwrap_or_default();
    for (name, stranger) in floods.iter().filter(|(name, _)| name.contains(&only)) {
        let cpu_before = up.cpu_s();
        let end = Instant::now() + Duration::from_secs(seconds);
        let (answers, mut delays) = std::thread::scope(|scope| {
            let strangers: Vec<_> = (0..STRANGERS)
                .map(|first| {
                    let up = &up;
                    scope.spawn(move || {
                        let mut answers = Answers::new();
                        for number in (first..).step_by(STRANGERS) {
                            if Instant::now() >= end {
                                break;
                            }
                            *answers.entry(stranger(up, number)).or_default() += 1;
                        }
                        answers
                    })
                })
                .collect();
            let mut delays = Vec::new();
            while Instant::now() < end {
                delays.push(send_honestly(&up, &honest, &api_key, &mut sent));
            }
            let mut answers = Answers::new();
            for of_one in strangers.into_iter().map(|stranger| stranger.join().unwrap()) {
                for (status, count) in of_one {
                    *answers.entry(status).or_default() += count;
                }
            }
            (answers, delays)
        });
        delays.sort();
        let at = |share: usize| delays[delays.len() * share / 100];
        println!(
            "{name}: {answers:?}; {:.1} CPU s of the service; {} honest receipts: p50 {:?}, most {:?}",
            up.cpu_s() - cpu_before,
            delays.len(),
            at(50),
            at(99)
        );
    }
    for id in &sent {
        let mut outcome = Value::Null;
        until("the honest sender's outcome", || {
            outcome = get_signed(&up.url("analytics"), &format!("/api/v1/receipts/{id}"), &honest);
            // Long floods leave more outcomes than a key may query in a minute.
            outcome["status"] != "unknown" && outcome["status"] != 429
        });
        assert_eq!(outcome["status"], "verified", "{outcome}");
    }
    assert_eq!(up.stop(), 0);
    on(&data, &["audit"]).expect(0);
}

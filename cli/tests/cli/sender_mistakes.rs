//! The mistakes of docs/sender-mistakes.md, each made against a running service: what its sender
//! sees at once, and later by signed requests, which the commands of docs/outcomes.md make.

use std::path::Path;
use std::process::Command;

use crate::command::key;
use crate::running::{Up, on, post, until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use receipt::{Algorithm, Limits, SigningKey, sign_batch, sign_receipt};
use serde_json::{Value, json};

const ONE: &str = "/api/v1/receipts";
const BATCH: &str = "/api/v1/receipts/batch";
const JSON: &str = "application/json";

/// A request, and the index of the receipt in it that is wrong.
struct Mistake {
    path: &'static str,
    content_type: &'static str,
    signature: Option<String>,
    body: Vec<u8>,
    index: u64,
}

/// Answers that its sender saw.
struct Seen {
    answer: String,
    /// Offset and index of what was acknowledged.
    position: Option<(u64, u64)>,
}

/// A row of the document.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    number: usize,
    answer: String,
    outcome: String,
}

fn documented() -> Vec<Row> {
    let document = include_str!("../../../docs/sender-mistakes.md");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = cells.get(1)?.parse().ok()?;
        Some(Row {
            number,
            answer: (*cells.get(3)?).to_owned(),
            outcome: (*cells.get(4)?).to_owned(),
        })
    };
    document.lines().filter_map(row).collect()
}

struct Sender {
    key: SigningKey,
}

impl Sender {
    fn unsigned(&self) -> Value {
        crate::command::receipt(self.key.public_key_pem())
    }

    fn signed(&self, receipt: &Value) -> Value {
        let bytes = sign_receipt(&bytes(receipt), &self.key, &Limits::default()).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn signature(&self, body: &[u8]) -> String {
        STANDARD.encode(self.key.sign(body).unwrap())
    }

    /// A request with this body, properly signed.
    fn one(&self, body: Vec<u8>) -> Mistake {
        Mistake {
            path: ONE,
            content_type: JSON,
            signature: Some(self.signature(&body)),
            body,
            index: 0,
        }
    }

    fn batch(&self, receipts: &[Value]) -> Mistake {
        let batch = json!({"version": "1.0.0", "batchId": "b-1", "receipts": receipts});
        Mistake {
            path: BATCH,
            content_type: JSON,
            signature: None,
            body: sign_batch_only(&batch, &self.key),
            index: 0,
        }
    }

    /// A well-signed receipt whose member at `pointer` was something else when it was signed, or
    /// which lacks it.
    fn with(&self, pointer: &str, value: Option<Value>) -> Mistake {
        let mut receipt = self.signed(&self.unsigned());
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        let parent = receipt.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => drop(parent.insert(member.to_owned(), value)),
            None => drop(parent.remove(member)),
        }
        self.one(bytes(&receipt))
    }

    fn mistakes(&self) -> Vec<Mistake> {
        let good = || self.signed(&self.unsigned());
        let proper = || self.one(bytes(&good()));
        let other_key = SigningKey::generate(Algorithm::Ed25519).unwrap();
        let private = self.key.to_pkcs8_pem().unwrap();
        let old = format!(
            "{:.3}",
            jiff::Timestamp::now() - jiff::SignedDuration::from_hours(31 * 24)
        );
        let repeated = good();
        let mut reused = self.unsigned();
        reused["receiptId"] = repeated["receiptId"].clone();
        reused["usage"]["context"] = "another".into();
        let mut first = Vec::new();
        for receipt in [&repeated, &repeated, &self.signed(&reused)] {
            first.push(self.one(bytes(receipt)));
        }
        let [original, duplicate, conflict] = <[Mistake; 3]>::try_from(first).ok().unwrap();
        let mut batch = [good(), good()];
        batch[1]["usage"]["context"] = "changed".into();
        let mut changed_batch: Value = serde_json::from_slice(&self.batch(&[good()]).body).unwrap();
        changed_batch["batchId"] = "b-2".into();
        let mut uncanonical = self.unsigned();
        let text = serde_json::to_string_pretty(&uncanonical).unwrap();
        uncanonical["signature"] = self.signature(text.as_bytes()).into();
        uncanonical["signatureAlgorithm"] = "Ed25519".into();
        let twice = String::from_utf8(bytes(&good()))
            .unwrap()
            .replacen('{', r#"{"version":"1.0.0","#, 1);
        let pretty = serde_json::to_vec_pretty(&good()).unwrap();
        vec![
            Mistake {
                signature: None,
                ..proper()
            },
            Mistake {
                signature: Some("07".repeat(64)),
                ..proper()
            },
            Mistake {
                signature: proper().signature,
                body: pretty,
                ..proper()
            },
            {
                let mistake = proper();
                let signature = STANDARD.encode(other_key.sign(&mistake.body).unwrap());
                Mistake {
                    signature: Some(signature),
                    ..mistake
                }
            },
            self.one(self.batch(&[good()]).body),
            self.one(b"receiptId=7&usage=training".to_vec()),
            self.one(twice.into_bytes()),
            Mistake {
                content_type: "text/plain",
                ..proper()
            },
            self.with("/usage", None),
            self.with("/version", Some("1.0".into())),
            self.with("/receiptId", Some("1723".into())),
            self.with("/timestamp", Some("2026-11-23T12:00:00".into())),
            self.with("/timestamp", Some(old.into())),
            self.with("/content/contentHash", Some("ab".repeat(32).into())),
            self.with("/client/publicKey", Some(private.into())),
            Mistake {
                body: bytes(&changed_batch),
                ..self.batch(&[good()])
            },
            self.one(bytes(&uncanonical)),
            Mistake {
                index: 1,
                ..self.batch(&batch)
            },
            duplicate,
            conflict,
            {
                let receipt = good();
                let signature = STANDARD.decode(receipt["signature"].as_str().unwrap()).unwrap();
                self.with("/signature", Some(hex::encode(signature).into()))
            },
            {
                let mut misspelt = self.unsigned();
                misspelt["content"]["publisher"] = "news.exampel".into();
                misspelt["content"]["url"] = "https://news.exampel/lead".into();
                self.one(bytes(&self.signed(&misspelt)))
            },
            // No mistake: what a duplicate and a conflict are compared with. It is sent first.
            original,
        ]
    }
}

/// A batch of receipts as they are, signed as a whole.
fn sign_batch_only(batch: &Value, key: &SigningKey) -> Vec<u8> {
    sign_batch(&bytes(batch), key, &Limits::default()).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

fn send(gateway: &str, mistake: &Mistake) -> Seen {
    let signature = mistake.signature.as_ref();
    let signature = signature.map_or_else(String::new, |text| format!("X-Service-Signature: {text}\r\n"));
    let headers = format!("Content-Type: {}\r\n{signature}", mistake.content_type);
    let (status, answer) = post(gateway, mistake.path, &headers, &mistake.body);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let offset = answer["acknowledgement"]["logPosition"]["offset"].as_u64();
    Seen {
        answer: match answer["code"].as_str() {
            Some(code) => format!("{status} `{code}`"),
            None => status.to_string(),
        },
        position: offset.map(|offset| (offset, mistake.index)),
    }
}

/// Runs the commands of docs/outcomes.md in the folder of `client.key`.
fn outcomes(folder: &Path, analytics: &str) -> Vec<Value> {
    let document = include_str!("../../../docs/outcomes.md");
    let (_, rest) = document.split_once("```sh\n").unwrap();
    let (commands, _) = rest.split_once("```").unwrap();
    let script = commands.replace("http://127.0.0.1:8080", analytics);
    assert!(script.contains(analytics));
    let script = format!("set -eu\n{script}");
    let ran = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{text} {}", String::from_utf8_lossy(&ran.stderr));
    text.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

fn outcome_at(lines: &[Value], (offset, index): (u64, u64)) -> String {
    let is_here = |line: &&Value| line["logPosition"]["offset"] == offset && line["logPosition"]["index"] == index;
    let Some(line) = lines.iter().find(is_here) else {
        return String::new();
    };
    assert!(line["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{line}");
    let reason = line["reason"]
        .as_str()
        .map_or_else(String::new, |reason| format!(" `{reason}`"));
    format!("`{}`{reason}", line["outcome"].as_str().unwrap())
}

#[test]
fn senders_see_what_the_document_says() {
    let documented = documented();
    assert_eq!(documented.len(), 22);
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = key(dir.path(), "Ed25519");
    let pem = std::fs::read_to_string(&path).unwrap();
    std::fs::rename(&path, dir.path().join("client.key")).unwrap();
    let sender = Sender {
        key: SigningKey::from_pkcs8_pem(&pem).unwrap(),
    };
    let data = dir.path().join("data");
    on(&data, &["keys", "create", "--domain", "news.example"]).expect(0);
    let up = Up::start(&data);
    let gateway = up.url("gateway");

    let mut mistakes = sender.mistakes();
    let original = mistakes.pop().unwrap();
    assert_eq!(mistakes.len(), documented.len());
    let good = send(&gateway, &original);
    assert_eq!(good.answer, "202");
    let seen: Vec<Seen> = mistakes.iter().map(|mistake| send(&gateway, mistake)).collect();
    let acknowledged = seen.iter().filter(|seen| seen.position.is_some()).count();
    assert_eq!(acknowledged, 5);

    let mut lines = Vec::new();
    until("the outcomes", || {
        lines = outcomes(dir.path(), &up.url("analytics"));
        lines.len() > acknowledged
    });
    let found: Vec<Row> = (1..)
        .zip(&seen)
        .map(|(number, seen)| Row {
            number,
            answer: seen.answer.clone(),
            outcome: seen
                .position
                .map_or_else(String::new, |position| outcome_at(&lines, position)),
        })
        .collect();
    for (found, documented) in found.iter().zip(&documented) {
        println!(
            "mistake {} ... {}",
            found.number,
            if found == documented { "ok" } else { "FAILED" }
        );
    }
    assert_eq!(found, documented);
    assert_eq!(
        outcome_at(&lines, good.position.unwrap()),
        "",
        "a good receipt has no line"
    );
    // What the 17th is signed over instead.
    let indented = lines.iter().any(|line| {
        let detail = line["detail"].as_str();
        detail.is_some_and(|detail| detail.contains("indented form"))
    });
    assert!(indented, "{lines:?}");
    // One line for each, and the last one.
    assert_eq!(lines.len(), acknowledged + 1);
    assert_eq!(up.stop(), 0);
}

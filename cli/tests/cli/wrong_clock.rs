//! A service whose clock was ahead: no sender gets a false proof that a receipt was lost.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use receipt::{Algorithm, Limits, SigningKey, sign_receipt};
use serde_json::{Value, json};

use crate::command::receipt as unsigned;
use crate::running::{Up, get, on, post, until};

/// Library that is preloaded into a process whose clock is to be wrong.
const WRONG_CLOCK: &str = include_str!("../../../load-tests/src/fleet/wrong_clock.c");

const DAY_S: i64 = 86_400;

/// The clock of `receipts up`, off by what the file says.
struct WrongClock {
    library: PathBuf,
    shift: std::fs::File,
    shift_path: PathBuf,
}

impl WrongClock {
    fn new(dir: &Path) -> Self {
        let (source, library) = (dir.join("wrong_clock.c"), dir.join("wrong_clock.so"));
        std::fs::write(&source, WRONG_CLOCK).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(&source);
        assert!(compiler.status().unwrap().success());
        let shift_path = dir.join("shift");
        std::fs::write(&shift_path, [0; 8]).unwrap();
        let shift = std::fs::File::options().write(true).open(&shift_path).unwrap();
        Self {
            library,
            shift,
            shift_path,
        }
    }

    fn set(&self, shift_s: i64) {
        self.shift.write_all_at(&shift_s.to_ne_bytes(), 0).unwrap();
    }

    fn start(&self, data: &Path) -> Up {
        let variables = [
            ("LD_PRELOAD", self.library.to_str().unwrap()),
            ("RECEIPTS_TEST_CLOCK_SHIFT_FILE", self.shift_path.to_str().unwrap()),
        ];
        Up::start_set(data, &variables)
    }
}

/// Sends a new receipt. Returns its ID, the status and the answer.
fn send(up: &Up, key: &SigningKey) -> (String, u16, Value) {
    let unsigned = unsigned(key.public_key_pem());
    let body = sign_receipt(unsigned.to_string().as_bytes(), key, &Limits::default()).unwrap();
    let signature = STANDARD.encode(key.sign(&body).unwrap());
    let headers = format!("Content-Type: application/json\r\nX-Service-Signature: {signature}\r\n");
    let (status, answer) = post(&up.url("gateway"), "/api/v1/receipts", &headers, &body);
    let id = unsigned["receiptId"].as_str().unwrap().to_owned();
    (id, status, serde_json::from_str(&answer).unwrap())
}

fn instant(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn a_clock_that_was_a_day_ahead_proves_no_loss_once_it_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let (data, clock) = (dir.path().join("data"), WrongClock::new(dir.path()));
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let made = on(
        &data,
        &[
            "keys",
            "create",
            "--domain",
            "news.example",
            "--tier",
            "enterprise",
            "--json",
        ],
    );
    let made = made.expect(0).json();
    let api_key = made["apiKey"].as_str().unwrap();
    let ask = |up: &Up, path: &str| get(&up.url("analytics"), path, api_key);

    clock.set(DAY_S);
    let up = clock.start(&data);
    for _ in 0..6 {
        assert_eq!(send(&up, &key).1, 202);
    }
    let dashboard = "/api/v1/analytics/dashboard";
    until("tomorrow's watermark", || {
        let answer = ask(&up, dashboard).1;
        answer["totalReceipts"] == 6 && instant(&answer["completeThrough"]) > Timestamp::now()
    });
    assert_eq!(up.stop(), 0);

    clock.set(0);
    let up = clock.start(&data);
    for _ in 0..10 {
        let (id, status, answer) = send(&up, &key);
        assert_eq!(status, 202, "{answer}");
        let received = instant(&answer["acknowledgement"]["receivedAt"]);
        until("the outcome", || {
            let (status, outcome) = ask(&up, &format!("/api/v1/receipts/{id}"));
            // Nothing is said while no instant is known.
            if status == 503 {
                return false;
            }
            assert_eq!(status, 200, "{outcome}");
            let through = instant(&outcome["completeThrough"]);
            assert!(through <= Timestamp::now(), "{outcome}");
            let is_verified = outcome["status"] == "verified";
            assert!(
                is_verified || through <= received,
                "a false proof of {received}: {outcome}"
            );
            is_verified
        });
    }
    // A receipt is found before the totals have it.
    until("all to be counted", || ask(&up, dashboard).1["totalReceipts"] == 16);
    assert_eq!(up.stop(), 0);
}

#[test]
fn while_a_clock_has_just_jumped_no_receipt_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (data, clock) = (dir.path().join("data"), WrongClock::new(dir.path()));
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let up = clock.start(&data);
    assert_eq!(send(&up, &key).1, 202);
    clock.set(DAY_S);
    let (_, status, refused) = send(&up, &key);
    assert_eq!((status, &refused["code"]), (503, &json!("clock_stepped")), "{refused}");
    until("readiness names the clock", || {
        let (status, health) = get(&up.url("gateway"), "/readyz", "");
        let reason = health["components"]["clock"]["reason"].as_str();
        status == 503 && reason.is_some_and(|reason| reason.contains("stepped by 86400 s"))
    });
    clock.set(0);
    assert_eq!(send(&up, &key).1, 202);
    let metrics = crate::running::text(&up.url("metrics"), "/metrics");
    assert!(metrics.contains("receipts_gateway_clock_steps_total 1"), "{metrics}");
    assert_eq!(up.stop(), 0);
}

//! Verifications of each algorithm that a sender has made as dear as possible.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use benches::workload;
use criterion::{Criterion, criterion_group, criterion_main};
use receipt::{Algorithm, Arrival, BodyKind, Judge, Judged, Limits, RejectReason};
use serde_json::Value;

/// The ratios are [`Algorithm::verification_cost`]. A sender chooses what is dearest: a signature
/// that is wrong, of RSA with the largest exponent, of ECDSA with 64 bytes that may be either form.
fn cost(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cost of a verification");
    group
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500))
        .sample_size(30);
    let judge = Judge::new(Limits::default(), 1_000);
    for algorithm in Algorithm::ALL {
        let signed = workload::singles(algorithm, 1).unwrap().remove(0);
        let mut receipt: Value = serde_json::from_slice(&signed.body).unwrap();
        let signature = match algorithm {
            Algorithm::Ed25519 => vec![7; 64],
            Algorithm::Rsa2048 => {
                receipt["client"]["publicKey"] = large_exponent(&receipt["client"]["publicKey"]).into();
                [&[0][..], &[7; 255]].concat()
            }
            Algorithm::EcdsaP256 => [&[0x30, 62, 2, 29][..], &[7; 29], &[2, 29], &[7; 29]].concat(),
        };
        receipt["signature"] = STANDARD.encode(signature).into();
        let body = serde_json::to_vec(&receipt).unwrap();
        let arrival = Arrival {
            kind: BodyKind::Receipt,
            body: &body,
            request_signature: None,
            received_at_ms: service::instant::now_ms(),
        };
        let reason = |_, judged: Judged<'_>| match judged {
            Judged::Rejected(rejected) => Some(rejected.reason),
            Judged::Verified(_) => None,
        };
        assert_eq!(judge.judge(&arrival, &reason), [Some(RejectReason::BadSignature)]);
        group.bench_function(algorithm.as_str(), |bench| {
            bench.iter(|| black_box(judge.judge(&arrival, &reason)));
        });
    }
    group.finish();
}

/// An RSA key with the exponent 2^33 - 1 instead of 65537.
fn large_exponent(pem: &Value) -> String {
    let lines = pem.as_str().unwrap().lines();
    let base64: String = lines.filter(|line| !line.starts_with('-')).collect();
    let mut der = STANDARD.decode(base64).unwrap();
    let exponent = der.len() - 5;
    assert_eq!(der[exponent..], [2, 3, 1, 0, 1]);
    der.truncate(exponent);
    der.extend([2, 5, 1, 0xff, 0xff, 0xff, 0xff]);
    // The low bytes of the lengths of what encloses it: two sequences and a bit string.
    for length in [3, 22, 27] {
        der[length] += 2;
    }
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(der)
    )
}

criterion_group!(verification_cost, cost);
criterion_main!(verification_cost);

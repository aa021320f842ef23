//! Steps of a receipt, ours beside the usual ways: parse, canonical bytes and hash, judge; a
//! batch; a block of raw signature checks.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use benches::reference::{self, Library, SignatureAlone};
use benches::workload::{self, Signed};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use receipt::{Algorithm, Arrival, BodyKind, Judge, Judged, KeyCache, Limits, RejectReason, Scratch, SignatureCheck};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500))
        .sample_size(30);
    group
}

fn now_ms() -> i64 {
    service::instant::now_ms()
}

fn parse(criterion: &mut Criterion) {
    let signed = workload::singles(Algorithm::Ed25519, 1).unwrap().remove(0);
    let (limits, now_ms) = (Limits::default(), now_ms());
    let mut scratch = Scratch::default();
    let mut group = group(criterion, "parse");
    group.throughput(Throughput::Bytes(signed.body.len() as u64));
    group.bench_function("ours, strict and typed", |bench| {
        bench.iter(|| {
            let parsed = receipt::parse_receipt(&signed.body, now_ms, &limits, &mut scratch).unwrap();
            black_box(parsed.receipt_id)
        });
    });
    group.bench_function("simd-json tape", |bench| {
        // It parses in place, so that every pass needs a copy; making it isn't timed.
        bench.iter_batched_ref(
            || signed.body.to_vec(),
            |body| black_box(simd_json::to_tape(body).unwrap().0.len()),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("serde_json Value", |bench| {
        bench.iter(|| black_box(serde_json::from_slice::<Value>(&signed.body).unwrap()));
    });
    group.finish();
}

fn canonical(criterion: &mut Criterion) {
    let signed = workload::singles(Algorithm::Ed25519, 1).unwrap().remove(0);
    let mut group = group(criterion, "canonical");
    group.throughput(Throughput::Bytes(signed.body.len() as u64));
    group.bench_function("ours, any JSON", |bench| {
        bench.iter(|| black_box(receipt::canonicalize(&signed.body, 32).unwrap()));
    });
    group.bench_function("serde_json Value + serde_jcs", |bench| {
        bench.iter(|| black_box(reference::canonical(&signed.body).unwrap()));
    });
    group.bench_function("serde_json Value + serde_jcs + sha2", |bench| {
        bench.iter(|| black_box(reference::payload_hash(&signed.body).unwrap()));
    });
    let bytes = reference::canonical(&signed.body).unwrap();
    group.bench_function("sha2 alone", |bench| bench.iter(|| black_box(Sha256::digest(&bytes))));
    group.finish();
}

fn judge(criterion: &mut Criterion) {
    for algorithm in Algorithm::ALL {
        let signed = workload::singles(algorithm, workload::CLIENTS).unwrap();
        let judge = Judge::new(Limits::default(), 1_000);
        let now_ms = now_ms();
        let arrivals: Vec<_> = signed
            .iter()
            .map(|one| one.arrival(BodyKind::Receipt, now_ms))
            .collect();
        for arrival in &arrivals {
            workload::all_verified(&judge, arrival).unwrap();
        }
        let mut group = group(criterion, &format!("judge {algorithm}"));
        group.throughput(Throughput::Elements(signed.len() as u64));
        group.bench_function("ours, whole", |bench| {
            bench.iter(|| {
                for arrival in &arrivals {
                    black_box(judge.judge(arrival, &|index, judged| {
                        let _ = black_box(judged);
                        index
                    }));
                }
            });
        });
        group.bench_function("naive, whole", |bench| {
            bench.iter(|| {
                for one in &signed {
                    black_box(reference::naive_verify(&one.body).unwrap());
                }
            });
        });
        alone(&mut group, "signature alone, usual library", &signed, Library::Usual);
        if algorithm != Algorithm::Ed25519 {
            alone(&mut group, "signature alone, RustCrypto", &signed, Library::RustCrypto);
        }
        group.finish();
    }
}

/// The ratios are [`Algorithm::verification_cost`]. A sender chooses what is dearest: a signature
/// that is wrong, of RSA with the largest exponent, of ECDSA with 64 bytes that may be either form.
fn cost(criterion: &mut Criterion) {
    let mut group = group(criterion, "cost of a verification");
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
            received_at_ms: now_ms(),
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

/// An RSA key with the exponent 2^33 - 1 in the place of 65537.
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

fn alone(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, signed: &[Signed], library: Library) {
    let signatures: Vec<_> = signed
        .iter()
        .map(|one| SignatureAlone::of(&one.body, library).unwrap())
        .collect();
    assert!(signatures.iter().all(SignatureAlone::verify));
    group.bench_function(name, |bench| {
        bench.iter(|| {
            for signature in &signatures {
                black_box(signature.verify());
            }
        });
    });
}

fn batch(criterion: &mut Criterion) {
    let receipts = 1_000;
    let signed = workload::batches(Algorithm::Ed25519, 1, receipts).unwrap().remove(0);
    let (limits, now_ms) = (Limits::default(), now_ms());
    let judge = Judge::new(limits.clone(), 1_000);
    let arrival = signed.arrival(BodyKind::Batch, now_ms);
    workload::all_verified(&judge, &arrival).unwrap();
    let mut group = group(criterion, "batch of 1,000");
    group.throughput(Throughput::Elements(receipts as u64)).sample_size(10);
    group.bench_function("format check, as in the gateway", |bench| {
        bench.iter(|| black_box(receipt::check_batch(&signed.body, now_ms, &limits).unwrap()));
    });
    group.bench_function("serde_json Value", |bench| {
        bench.iter(|| black_box(serde_json::from_slice::<Value>(&signed.body).unwrap()));
    });
    group.bench_function("judge, all cores", |bench| {
        bench.iter(|| black_box(judge.judge(&arrival, &|index, _| index)));
    });
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    group.bench_function("judge, one core", |bench| {
        bench.iter(|| one.install(|| black_box(judge.judge(&arrival, &|index, _| index))));
    });
    group.finish();
}

/// A receipt's parts as `receipts verify --raw-signatures` takes them.
struct RawCheck {
    pem: String,
    message: Vec<u8>,
    signature: Vec<u8>,
}

fn block(criterion: &mut Criterion) {
    let signed = workload::singles(Algorithm::Ed25519, 256).unwrap();
    let raw: Vec<RawCheck> = signed
        .iter()
        .map(|one| {
            let value: Value = serde_json::from_slice(&one.body).unwrap();
            RawCheck {
                pem: value["client"]["publicKey"].as_str().unwrap().to_owned(),
                message: reference::canonical(&one.body).unwrap(),
                signature: STANDARD.decode(value["signature"].as_str().unwrap()).unwrap(),
            }
        })
        .collect();
    let checks: Vec<SignatureCheck<'_>> = raw
        .iter()
        .map(|check| SignatureCheck {
            algorithm: Algorithm::Ed25519,
            public_key_pem: &check.pem,
            message: &check.message,
            signature: &check.signature,
        })
        .collect();
    let keys = KeyCache::new(1_000);
    assert!(receipt::verify_block(&checks, &keys).iter().all(Result::is_ok));
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut group = group(criterion, "block of 256 checks, Ed25519");
    group.throughput(Throughput::Elements(checks.len() as u64));
    group.bench_function("ours, one core", |bench| {
        bench.iter(|| one.install(|| black_box(receipt::verify_block(&checks, &keys))));
    });
    group.bench_function("ours, all cores", |bench| {
        bench.iter(|| black_box(receipt::verify_block(&checks, &keys)))
    });
    alone(&mut group, "verify_strict one by one", &signed, Library::Usual);
    group.finish();
}

criterion_group!(receipts, parse, canonical, judge, cost, batch, block);
criterion_main!(receipts);

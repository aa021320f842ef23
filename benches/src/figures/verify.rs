//! The whole verify step against its signature alone, on one core and on two.

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use receipt::{Algorithm, Arrival, BodyKind, Judge, Judged, Limits};

use super::Setting;
use crate::reference::{Library, SignatureAlone};
use crate::rounds::{Samples, units_per_cpu_second, units_per_second};
use crate::row::{Row, Target};
use crate::workload::{self, Signed};

const SINGLES: usize = 512;
const BATCH_RECEIPTS: usize = 1_000;
/// Keys that the verifier caches by default.
const KEYS_MAX: usize = 10_000;
/// Single receipts that the verifier judges together.
const TOGETHER: usize = 16;
/// Keys of the clients whose receipts a block has.
const BLOCK_KEYS: [usize; 3] = [1, 1_000, 100_000];

pub(super) fn ed25519(setting: &Setting<'_>) -> Result<Vec<Row>> {
    const ALONE: &str = "verify_strict alone (ed25519-dalek), one core";
    // A receipt alone has no other to share lanes with.
    let mut rows = one_core(setting, Algorithm::Ed25519, ALONE, 1.0)?;
    for keys in BLOCK_KEYS {
        rows.push(block(setting, keys, ALONE)?);
    }
    Ok(rows)
}

pub(super) fn rsa(setting: &Setting<'_>) -> Result<Vec<Row>> {
    one_core(
        setting,
        Algorithm::Rsa2048,
        "verification alone (aws-lc-rs), one core",
        1.2,
    )
}

pub(super) fn ecdsa(setting: &Setting<'_>) -> Result<Vec<Row>> {
    one_core(
        setting,
        Algorithm::EcdsaP256,
        "verification alone (aws-lc-rs), one core",
        2.5,
    )
}

/// Single receipts of so many clients, judged as the verifier does. With 100,000 keys no round
/// meets a key of an earlier one.
fn block(setting: &Setting<'_>, keys: usize, reference_is: &str) -> Result<Row> {
    let now_ms = service::instant::now_ms();
    let name = format!("verify-ed25519-block-{keys}");
    let verifier = Judge::new(Limits::default(), KEYS_MAX);
    let pool = pool(1)?;
    setting.progress.step(&name, "signing");
    let singles = workload::unique(&[(Algorithm::Ed25519, keys)], 1, keys.max(SINGLES))?;
    let signatures = signatures(&singles)?;
    let arrivals: Vec<Arrival<'_>> = singles
        .iter()
        .map(|one| one.arrival(BodyKind::Receipt, now_ms))
        .collect();
    workload::all_verified(&verifier, arrivals.first().context("no receipt")?)?;
    setting.progress.step(&name, "judging");
    let mut blocks = arrivals.chunks(TOGETHER).cycle();
    let mut alone = signatures.chunks(TOGETHER).cycle();
    let time = setting.effort.compute_time;
    let samples = Samples::take(
        setting.effort.rounds,
        || {
            let judged = || judge_block(&verifier, blocks.next().unwrap_or_default());
            Ok(pool.install(|| units_per_cpu_second(time, judged)))
        },
        || {
            let verified = || verified(alone.next().unwrap_or_default());
            Ok(pool.install(|| units_per_cpu_second(time, verified)))
        },
    )?;
    let what = format!("whole verify step, Ed25519, blocks of single receipts, {keys} keys");
    Ok(Row::measured(&name, what, "receipts/s", samples)
        .against(reference_is)
        .target(Target::RatioAtLeast(2.5)))
}

/// Judges single receipts together; how many were verified.
fn judge_block(judge: &Judge, arrivals: &[Arrival<'_>]) -> u64 {
    let judged = judge.judge_receipts(arrivals);
    let verified = |judged: &Judged<'_>| matches!(judged, Judged::Verified(_));
    std::hint::black_box(judged)
        .iter()
        .filter(|judged| verified(judged))
        .count() as u64
}

/// Verifies signatures alone; how many are right.
fn verified(signatures: &[SignatureAlone]) -> u64 {
    let verified = |signature: &SignatureAlone| u64::from(std::hint::black_box(signature.verify()));
    signatures.iter().map(verified).sum()
}

/// Judges every receipt of an arrival; how many were verified.
fn judge(judge: &Judge, arrival: &Arrival<'_>) -> usize {
    let verdicts = judge.judge(arrival, &|_, judged| match std::hint::black_box(judged) {
        Judged::Verified(_) => 1,
        Judged::Rejected(_) => 0,
    });
    verdicts.into_iter().sum()
}

fn pool(threads: usize) -> Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(threads).build()?)
}

fn one_core(setting: &Setting<'_>, algorithm: Algorithm, reference_is: &str, least: f64) -> Result<Vec<Row>> {
    let now_ms = service::instant::now_ms();
    let name = format!("verify-{}", algorithm.as_str().to_ascii_lowercase());
    let verifier = Judge::new(Limits::default(), KEYS_MAX);
    let alone_in_pool = pool(1)?;

    setting.progress.step(&name, "single receipts");
    let singles = workload::singles(algorithm, SINGLES)?;
    let signatures = signatures(&singles)?;
    let arrivals: Vec<Arrival<'_>> = singles
        .iter()
        .map(|one| one.arrival(BodyKind::Receipt, now_ms))
        .collect();
    for arrival in &arrivals {
        workload::all_verified(&verifier, arrival)?;
    }
    let samples = compare(setting, &alone_in_pool, &verifier, &arrivals, &signatures)?;
    let first = Row::measured(
        &name,
        format!("whole verify step, {algorithm}, single receipts"),
        "signatures/s",
        samples,
    )
    .against(reference_is)
    .target(Target::RatioAtLeast(least));

    setting.progress.step(&name, "with the request's signature");
    let requests: Vec<Arrival<'_>> = singles
        .iter()
        .zip(&arrivals)
        .map(|(one, arrival)| Arrival {
            request_signature: Some(&one.request_signature),
            ..*arrival
        })
        .collect();
    for arrival in &requests {
        workload::all_verified(&verifier, arrival)?;
    }
    let samples = compare_times(setting, &alone_in_pool, &verifier, &requests, &signatures, 2)?;
    let second = Row::measured(
        &format!("{name}-request"),
        format!("the same with X-Service-Signature: two signatures, {algorithm}"),
        "signatures/s",
        samples,
    )
    .against(reference_is);

    setting.progress.step(&name, "a batch");
    let batch = workload::batches(algorithm, 1, BATCH_RECEIPTS)?;
    let batch = batch.first().context("no batch")?;
    let arrival = batch.arrival(BodyKind::Batch, now_ms);
    workload::all_verified(&verifier, &arrival)?;
    let samples = compare(
        setting,
        &alone_in_pool,
        &verifier,
        &[arrival],
        &batch_signatures(batch)?,
    )?;
    let third = Row::measured(
        &format!("{name}-batch"),
        format!("whole verify step, {algorithm}, a batch of {BATCH_RECEIPTS}, its own signature too"),
        "receipts/s",
        samples,
    )
    .against(format!("{reference_is}; the {BATCH_RECEIPTS} receipts' only"));
    Ok(vec![first, second, third])
}

fn signatures(singles: &[Signed]) -> Result<Vec<SignatureAlone>> {
    let signatures = singles.iter().map(|one| SignatureAlone::of(&one.body, Library::Usual));
    let signatures = signatures.collect::<Result<Vec<_>>>()?;
    ensure!(
        signatures.iter().all(SignatureAlone::verify),
        "the reference refuses a receipt of the workload"
    );
    Ok(signatures)
}

fn batch_signatures(batch: &Signed) -> Result<Vec<SignatureAlone>> {
    let whole: serde_json::Value = serde_json::from_slice(&batch.body)?;
    let receipts = whole
        .get("receipts")
        .and_then(serde_json::Value::as_array)
        .context("a batch without receipts")?;
    let signatures = receipts
        .iter()
        .map(|receipt| SignatureAlone::of(&serde_json::to_vec(receipt)?, Library::Usual));
    let signatures = signatures.collect::<Result<Vec<_>>>()?;
    ensure!(
        signatures.iter().all(SignatureAlone::verify),
        "the reference refuses a receipt of the batch"
    );
    Ok(signatures)
}

fn compare(
    setting: &Setting<'_>,
    pool: &ThreadPool,
    verifier: &Judge,
    arrivals: &[Arrival<'_>],
    signatures: &[SignatureAlone],
) -> Result<Samples> {
    compare_times(setting, pool, verifier, arrivals, signatures, 1)
}

/// `each` is how many signatures a receipt of the arrivals carries. Everything runs on the one
/// thread of `pool`.
fn compare_times(
    setting: &Setting<'_>,
    pool: &ThreadPool,
    verifier: &Judge,
    arrivals: &[Arrival<'_>],
    signatures: &[SignatureAlone],
    each: u64,
) -> Result<Samples> {
    let time = setting.effort.compute_time;
    Samples::take(
        setting.effort.rounds,
        || {
            Ok(pool.install(|| {
                units_per_cpu_second(time, || {
                    arrivals
                        .iter()
                        .map(|arrival| judge(verifier, arrival) as u64 * each)
                        .sum()
                })
            }))
        },
        || Ok(pool.install(|| units_per_cpu_second(time, || verified(signatures)))),
    )
}

pub(super) fn threads(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let now_ms = service::instant::now_ms();
    let verifier = Judge::new(Limits::default(), KEYS_MAX);
    let (one, two) = (pool(1)?, pool(2)?);
    let time = setting.effort.compute_time;

    setting.progress.step("verify-threads", "single receipts");
    let singles = workload::singles(Algorithm::Ed25519, 2 * SINGLES)?;
    let arrivals: Vec<Arrival<'_>> = singles
        .iter()
        .map(|one| one.arrival(BodyKind::Receipt, now_ms))
        .collect();
    let block = || {
        let together = arrivals.par_chunks(TOGETHER);
        together.map(|arrivals| judge_block(&verifier, arrivals)).sum()
    };
    let samples = Samples::take(
        setting.effort.rounds,
        || Ok(two.install(|| units_per_second(time, block))),
        || Ok(one.install(|| units_per_second(time, block))),
    )?;
    let wanted = Target::RatioAtLeast(1.9);
    let block_row = Row::measured(
        "verify-threads",
        "two threads, Ed25519, a block of single receipts",
        "receipts/s",
        samples,
    )
    .against("the same on one thread")
    .target(wanted);

    setting.progress.step("verify-threads", "a batch");
    let batch = workload::batches(Algorithm::Ed25519, 1, BATCH_RECEIPTS)?;
    let arrival = batch.first().context("no batch")?.arrival(BodyKind::Batch, now_ms);
    let pass = || judge(&verifier, &arrival) as u64;
    let samples = Samples::take(
        setting.effort.rounds,
        || Ok(two.install(|| units_per_second(time, pass))),
        || Ok(one.install(|| units_per_second(time, pass))),
    )?;
    let what = format!("two threads, Ed25519, one batch of {BATCH_RECEIPTS}");
    let batch_row = Row::measured("verify-threads-batch", what, "receipts/s", samples)
        .against("the same on one thread")
        .target(wanted);
    Ok(vec![block_row, batch_row])
}

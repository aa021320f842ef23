//! Cost of the gateway's verification of outer signatures: the whole check of a request's body
//! beside the check of its format alone.

use anyhow::{Context, Result};
use rayon::ThreadPoolBuilder;
use receipt::{Algorithm, Judge, Limits, check_batch, check_receipt};

use super::Setting;
use crate::rounds::{Samples, units_per_cpu_second};
use crate::row::Row;
use crate::workload;

const SINGLES: usize = 512;
const BATCHES: [usize; 3] = [20, 200, 1_000];
const KEYS_MAX: usize = 10_000;
const REFERENCE: &str = "the check of the format alone, as a gateway that trusts its log would make it";

pub(super) fn measure(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let now_ms = service::instant::now_ms();
    let (limits, judge) = (Limits::default(), Judge::new(Limits::default(), KEYS_MAX));
    let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
    let time = setting.effort.compute_time;
    let mut rows = Vec::new();
    for algorithm in Algorithm::ALL {
        let name = format!("outer-{}", algorithm.as_str().to_ascii_lowercase());
        setting.progress.step(&name, "single receipts");
        let singles = workload::singles(algorithm, SINGLES)?;
        for one in &singles {
            judge.check_signed_receipt(&one.body, now_ms, &one.request_signature)?;
        }
        let checked = || {
            let checks = singles
                .iter()
                .map(|one| judge.check_signed_receipt(&one.body, now_ms, &one.request_signature));
            checks.map(|checked| u64::from(checked.is_ok())).sum()
        };
        let read = || {
            let checks = singles.iter().map(|one| check_receipt(&one.body, now_ms, &limits));
            checks.map(|checked| u64::from(checked.is_ok())).sum()
        };
        let samples = Samples::take(
            setting.effort.rounds,
            || Ok(pool.install(|| units_per_cpu_second(time, checked))),
            || Ok(pool.install(|| units_per_cpu_second(time, read))),
        )?;
        let what = format!("requests checked by the gateway, {algorithm}, single receipts, one core");
        rows.push(Row::measured(&name, what, "requests/s", samples).against(REFERENCE));
    }
    for count in BATCHES {
        let name = format!("outer-batch-{count}");
        setting.progress.step(&name, "batches");
        let batch = workload::batches(Algorithm::Ed25519, 1, count)?;
        let batch = batch.first().context("no batch")?;
        judge.check_signed_batch(&batch.body, now_ms)?;
        let samples = Samples::take(
            setting.effort.rounds,
            || {
                let check = || u64::from(judge.check_signed_batch(&batch.body, now_ms).is_ok());
                Ok(pool.install(|| units_per_cpu_second(time, check)))
            },
            || {
                let read = || u64::from(check_batch(&batch.body, now_ms, &limits).is_ok());
                Ok(pool.install(|| units_per_cpu_second(time, read)))
            },
        )?;
        let what = format!("requests checked by the gateway, Ed25519, batches of {count}, one core");
        rows.push(Row::measured(&name, what, "requests/s", samples).against(REFERENCE));
    }
    Ok(rows)
}

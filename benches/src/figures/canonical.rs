//! From a body's bytes to its payload hash, without the signature.

use anyhow::{Result, ensure};
use receipt::{Algorithm, Limits, Scratch, payload_hash};

use super::Setting;
use crate::rounds::{Samples, units_per_cpu_second};
use crate::row::{Row, Target};
use crate::{reference, workload};

pub(super) fn measure(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for algorithm in Algorithm::ALL {
        setting.progress.step("canonical", algorithm.as_str());
        let bodies = workload::singles(algorithm, 256)?;
        let limits = Limits::default();
        let mut scratch = Scratch::default();
        for signed in &bodies {
            let ours = payload_hash(&signed.body, &limits, &mut scratch)?;
            ensure!(
                ours == reference::payload_hash(&signed.body)?,
                "the two ways come to different hashes"
            );
        }
        let time = setting.effort.compute_time;
        let samples = Samples::take(
            setting.effort.rounds,
            || {
                Ok(units_per_cpu_second(time, || {
                    for signed in &bodies {
                        let _ = std::hint::black_box(payload_hash(&signed.body, &limits, &mut scratch));
                    }
                    bodies.len() as u64
                }))
            },
            || {
                Ok(units_per_cpu_second(time, || {
                    for signed in &bodies {
                        let _ = std::hint::black_box(reference::payload_hash(&signed.body));
                    }
                    bodies.len() as u64
                }))
            },
        )?;
        let bytes = bodies.iter().map(|signed| signed.body.len()).sum::<usize>() / bodies.len();
        let name = format!("canonical-{}", algorithm.as_str().to_ascii_lowercase());
        let what = format!("parse + canonicalise + SHA-256, {algorithm}, {bytes} B");
        let row = Row::measured(&name, what, "receipts/s", samples)
            .against("serde_json Value + serde_jcs + sha2, one core")
            .target(Target::RatioAtLeast(5.0));
        rows.push(row);
    }
    Ok(rows)
}

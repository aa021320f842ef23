//! From a body's bytes to its payload hash, without the signature.

use anyhow::{Result, ensure};
use receipt::{Algorithm, Limits, Scratch};
use sha2::{Digest, Sha256};

use super::Setting;
use crate::rounds::{Samples, units_per_cpu_second};
use crate::row::{Row, Target};
use crate::{reference, workload};

/// Ours: the strict format check, canonical bytes, SHA-256. The hash is over the receipt without its signature members,
/// here as in the reference.
///
/// # Errors
/// Not a receipt.
fn payload_hash(body: &[u8], received_at_ms: i64, limits: &Limits, scratch: &mut Scratch) -> Result<[u8; 32]> {
    receipt::parse_receipt(body, received_at_ms, limits, scratch)?;
    Ok(Sha256::digest(receipt::canonicalize(body, limits.depth_max)?).into())
}

pub(super) fn measure(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for algorithm in Algorithm::ALL {
        setting.progress.step("canonical", algorithm.as_str());
        let bodies = workload::singles(algorithm, 256)?;
        let now_ms = service::instant::now_ms();
        let limits = Limits::default();
        let mut scratch = Scratch::default();
        for signed in &bodies {
            let ours = payload_hash(&signed.body, now_ms, &limits, &mut scratch)?;
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
                        let _ = std::hint::black_box(payload_hash(&signed.body, now_ms, &limits, &mut scratch));
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

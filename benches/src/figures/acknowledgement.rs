//! Cost of the signed acknowledgement in a 202: the whole body beside its Ed25519 signature alone.

use anyhow::{Context, Result};
use gateway::AcknowledgementKeys;
use gateway::acknowledgement::{Acknowledged, StoredRecord};
use rayon::ThreadPoolBuilder;
use receipt::{Algorithm, SigningKey};
use receipt_log::Position;
use serde_json::Value;
use uuid::Uuid;

use super::Setting;
use crate::rounds::{Samples, units_per_cpu_second};
use crate::row::Row;

const REFERENCE: &str = "the Ed25519 signature alone, over bytes of the same length";

pub(super) fn measure(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let name = "acknowledgement";
    setting.progress.step(name, "a receipt's");
    let keys = AcknowledgementKeys::generate()?;
    let key = SigningKey::generate(Algorithm::Ed25519)?;
    let stored = StoredRecord {
        subject: Acknowledged::Receipt {
            receipt_id: Uuid::from_u128(u128::MAX / 3),
        },
        body_sha256: [0xab; 32],
        position: Position {
            epoch: 1,
            partition: 11,
            offset: 123_456_789,
        },
        received_at_ms: service::instant::now_ms(),
    };
    let mut body: Value = serde_json::from_slice(&keys.queued(std::slice::from_ref(&stored))?.concat())?;
    let signed = body["acknowledgement"].as_object_mut().context("no acknowledgement")?;
    signed.remove("signature").context("no signature")?;
    let message = serde_json::to_vec(&signed)?;
    let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
    let time = setting.effort.compute_time;
    let rows = [
        (name, 1, "bodies of a 202 with a signed acknowledgement, one core"),
        (
            "acknowledgement-64",
            64,
            "the same, of 64 records that are signed together",
        ),
    ];
    let rows = rows.into_iter().map(|(name, count, what)| {
        let records = vec![stored.clone(); count];
        let samples = Samples::take(
            setting.effort.rounds,
            || {
                let whole = || keys.queued(&records).map_or(0, |bodies| bodies.len() as u64);
                Ok(pool.install(|| units_per_cpu_second(time, whole)))
            },
            || {
                let alone = || u64::from(key.sign(&message).is_ok());
                Ok(pool.install(|| units_per_cpu_second(time, alone)))
            },
        )?;
        Ok(Row::measured(name, what, "answers/s", samples).against(REFERENCE))
    });
    rows.collect()
}

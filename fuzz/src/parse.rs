//! The scanner, the format checks and the judge on any bytes.

use std::sync::LazyLock;

use receipt::{Arrival, BodyKind, FaultCode, Judge, Judged, Limits, RejectReason};
use receipt::{canonicalize, check_batch, check_receipt};

/// When the seeds were made.
const NOW_MS: i64 = 1_751_286_896_789;

static JUDGE: LazyLock<Judge> = LazyLock::new(|| Judge::new(Limits::default(), 100));

/// Checks one input.
pub fn run(body: &[u8]) {
    canonical(body);
    let limits = Limits::default();
    let receipt = check_receipt(body, NOW_MS, &limits).map(|_| ());
    judged(BodyKind::Receipt, body, receipt.is_ok());
    let batch = check_batch(body, NOW_MS, &limits).map(|_| ());
    judged(BodyKind::Batch, body, batch.is_ok());
    for (error, faults_max) in [(receipt.err(), 20), (batch.err(), 1_000)] {
        let Some(error) = error else { continue };
        assert!((1..=faults_max).contains(&error.faults.len()));
        assert!(
            error
                .faults
                .iter()
                .all(|fault| fault.pointer.is_empty() || fault.pointer.starts_with('/'))
        );
    }
}

/// Canonical bytes are accepted and unchanged by a second pass, and mean what serde_json read.
fn canonical(body: &[u8]) {
    let reference = serde_json::from_slice::<Unique>(body).is_ok();
    match canonicalize(body, 32) {
        Ok(once) => {
            assert!(reference, "serde_json refuses what we accept");
            assert_eq!(canonicalize(&once, 32).as_deref(), Ok(&once[..]));
        }
        Err(error) => {
            let too_deep = error.faults[0].code == FaultCode::TooDeep;
            assert!(!reference || too_deep, "serde_json accepts what we refuse: {error}");
        }
    }
}

/// The judge refuses whatever the format check refuses, and for no reason of format what it
/// accepts.
fn judged(kind: BodyKind, body: &[u8], well_formed: bool) {
    let arrival = Arrival {
        kind,
        body,
        request_signature: None,
        received_at_ms: NOW_MS,
    };
    let reasons = JUDGE.judge(&arrival, &|_, judged| match judged {
        Judged::Verified(_) => None,
        Judged::Rejected(rejected) => Some(rejected.reason),
    });
    assert!(!reasons.is_empty());
    if well_formed {
        use RejectReason::{BadBatchSignature, BadPublicKey, BadSignature};
        assert!(
            reasons
                .iter()
                .all(|reason| matches!(reason, None | Some(BadSignature | BadBatchSignature | BadPublicKey)))
        );
    } else {
        assert!(reasons.iter().any(|reason| reason.is_some()));
    }
}

/// JSON whose objects have no two members of one name.
struct Unique;

impl<'de> serde::Deserialize<'de> for Unique {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> serde::de::Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Unique, A::Error> {
        while seq.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut names = std::collections::HashSet::new();
        while let Some((name, _)) = map.next_entry::<String, Unique>()? {
            if !names.insert(name) {
                return Err(serde::de::Error::custom("duplicate"));
            }
        }
        Ok(Unique)
    }
}

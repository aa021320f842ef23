//! Ed25519, strictly verified, and faster for keys that are used a lot.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest::{Context, SHA512};
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::{Signature, VerifyingKey};
use ed25519_lanes::{Item, Lanes, Signer};

use crate::KeyError;
use crate::fixed_base::FixedBase;
use crate::tables::{TableStore, Uses};

/// Making a table costs as much as about ten verifications, and one for the lanes as about 40 in
/// lanes.
const USES_BEFORE_TABLE: u32 = 64;
/// At most this many keys have tables, of 215 KB each: 14 MB.
const TABLES_MAX: usize = 64;

/// At most this many keys have tables for the lanes, of 176 KB each: 11 MB.
const LANE_TABLES_MAX: usize = 64;
/// Fewer signatures than this are verified one by one: eight lanes take as long for one as for
/// eight.
const LANES_MIN: usize = 3;

/// The lanes, if this CPU has them.
static LANES: LazyLock<Option<Lanes>> = LazyLock::new(Lanes::detect);
/// The lanes' tables of the keys that are used most.
static LANE_TABLES: LazyLock<TableStore<ed25519_lanes::KeyTable>> =
    LazyLock::new(|| TableStore::new(LANE_TABLES_MAX, USES_BEFORE_TABLE));

/// Tables of the negated points of the keys that are used most.
static KEY_TABLES: LazyLock<TableStore<FixedBase<6>>> =
    LazyLock::new(|| TableStore::new(TABLES_MAX, USES_BEFORE_TABLE));
/// The table of the base point: 655 KB.
static BASE_TABLE: LazyLock<FixedBase<8>> = LazyLock::new(|| FixedBase::new(&ED25519_BASEPOINT_POINT));
/// The canonical encodings of the eight points of small order.
static SMALL_ORDER: LazyLock<[[u8; 32]; 8]> = LazyLock::new(|| EIGHT_TORSION.map(|point| point.compress().to_bytes()));

/// A public key: a point in its canonical encoding, and not of small order.
#[derive(Debug)]
pub(crate) struct Ed25519Key {
    key: VerifyingKey,
    uses: Uses,
    /// The key for the lanes, if this CPU has them.
    in_lanes: Option<ed25519_lanes::Key>,
    uses_in_lanes: Uses,
}

/// A signature to verify.
#[derive(Clone, Copy)]
pub(crate) struct Ed25519Check<'a> {
    pub(crate) key: &'a Ed25519Key,
    pub(crate) message: &'a [u8],
    pub(crate) signature: &'a [u8],
}

impl Ed25519Check<'_> {
    fn verify(&self) -> bool {
        self.key.verify(self.message, self.signature)
    }
}

/// The verdicts of [`Ed25519Key::verify`], in the lanes of the CPU if it has them.
pub(crate) fn verify_all(checks: &[Ed25519Check<'_>]) -> Vec<bool> {
    let Some(lanes) = *LANES else {
        return checks.iter().map(Ed25519Check::verify).collect();
    };
    let rest = checks.len() % 8;
    let in_lanes = if rest < LANES_MIN {
        checks.len() - rest
    } else {
        checks.len()
    };
    let (in_lanes, rest) = checks.split_at(in_lanes);
    let tables: Vec<_> = in_lanes.iter().map(|check| check.key.lane_table(lanes)).collect();
    let items = in_lanes.iter().zip(&tables).map(|(check, table)| {
        let signer = match table {
            Some(table) => Signer::Table(table),
            None => Signer::Key(check.key.in_lanes.as_ref()?),
        };
        Some(Item {
            signer,
            message: check.message,
            signature: check.signature.try_into().ok()?,
        })
    });
    let items: Vec<Option<Item<'_>>> = items.collect();
    let mut verdicts = lanes
        .verify(&items.iter().flatten().copied().collect::<Vec<_>>())
        .into_iter();
    let in_lanes = items.iter().map(|item| item.is_some() && verdicts.next() == Some(true));
    in_lanes.chain(rest.iter().map(Ed25519Check::verify)).collect()
}

impl Ed25519Key {
    /// Decodes a point and refuses what a strict verifier must (RFC 8032 section 5.1.3).
    pub(crate) fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        let bytes = bytes
            .try_into()
            .map_err(|_| KeyError::new("an Ed25519 key has 32 bytes"))?;
        let key =
            VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::new("the key isn't a point of edwards25519"))?;
        if key.is_weak() {
            return Err(KeyError::new("the Ed25519 key is a point of small order"));
        }
        if key.to_edwards().compress().as_bytes() != bytes {
            return Err(KeyError::new("the Ed25519 key's encoding isn't canonical"));
        }
        Ok(Self {
            key,
            uses: Uses::default(),
            in_lanes: LANES.and_then(|lanes| ed25519_lanes::Key::new(lanes, bytes)),
            uses_in_lanes: Uses::default(),
        })
    }

    /// The verdict of `VerifyingKey::verify_strict`, without its decompression of R.
    ///
    /// Strict means: S < L; R decodes; neither R nor A has small order; and the R computed from S,
    /// A and the message, encoded, equals R's bytes. A was checked when the key was loaded. Below,
    /// S and the last equation are checked. Where that equation holds, R's bytes are the encoding
    /// of a point: so R decodes, its encoding is canonical, and it has small order exactly if its
    /// bytes are one of the eight canonical encodings of such points.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = Signature::from_slice(signature) else {
            return false;
        };
        if SMALL_ORDER.contains(signature.r_bytes()) {
            return false;
        }
        let Some(s) = Option::<Scalar>::from(Scalar::from_canonical_bytes(*signature.s_bytes())) else {
            return false;
        };
        // aws-lc-rs hashes in less than half of the time that ed25519-dalek takes.
        let mut hash = Context::new(&SHA512);
        hash.update(signature.r_bytes());
        hash.update(self.key.as_bytes());
        hash.update(message);
        let mut challenge = [0; 64];
        challenge.copy_from_slice(hash.finish().as_ref());
        let k = Scalar::from_bytes_mod_order_wide(&challenge);
        let minus_a = -self.key.to_edwards();
        let table = KEY_TABLES.get(self.key.as_bytes(), &self.uses, || FixedBase::new(&minus_a));
        // `S B - k A`, with the same scalars as `VerifyingKey::verify` computes it.
        let r = match table {
            Some(table) => BASE_TABLE.add_product(&s, table.product(&k)),
            None => EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &minus_a, &s),
        };
        r.compress().as_bytes() == signature.r_bytes()
    }

    /// The key's table for the lanes, if it has or has just earned one.
    fn lane_table(&self, lanes: Lanes) -> Option<Arc<ed25519_lanes::KeyTable>> {
        let key = self.in_lanes.as_ref()?;
        LANE_TABLES.get(self.key.as_bytes(), &self.uses_in_lanes, || {
            ed25519_lanes::KeyTable::new(lanes, key)
        })
    }
}

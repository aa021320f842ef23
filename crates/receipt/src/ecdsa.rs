//! ECDSA with P-256 and SHA-256, and faster for keys that are used a lot.

mod field;
mod inversion;
mod multiples;
mod sums;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest::Digest;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, ParsedPublicKey};
use p256::AffinePoint;
use p256::ecdsa::Signature;
use p256::elliptic_curve::bigint::modular::{ConstMontyForm, ConstMontyParams as _};
use p256::elliptic_curve::bigint::{ArrayEncoding as _, U256, const_monty_params};
use p256::elliptic_curve::sec1::FromSec1Point as _;

use crate::KeyError;
use crate::tables::{TableStore, Uses};
use field::{FieldElement, Prime};
use inversion::invert_all;
use multiples::{CurvePoint, Multiples};
use sums::{Sum, sums};

const_monty_params!(
    Order,
    U256,
    "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
    "Order of P-256."
);
/// A number modulo the order.
type Scalar = ConstMontyForm<Order, { U256::LIMBS }>;

/// Making a table costs as much as up to 30 verifications without one.
const USES_BEFORE_TABLE: u32 = 256;
/// At most this many keys have tables, of 152 KB each: 10 MB.
const TABLES_MAX: usize = 64;

type P256Multiples = Multiples<7>;
type BaseMultiples = Multiples<8>;

static KEY_TABLES: LazyLock<TableStore<P256Multiples>> =
    LazyLock::new(|| TableStore::new(TABLES_MAX, USES_BEFORE_TABLE));
/// The table of the base point: 270 KB.
static BASE_TABLE: LazyLock<BaseMultiples> = LazyLock::new(|| BaseMultiples::new(&AffinePoint::GENERATOR));

/// A public key: a point of P-256 other than infinity.
#[derive(Debug)]
pub(crate) struct P256Key {
    sec1: Box<[u8]>,
    point: AffinePoint,
    // Two, because aws-lc-rs fixes the encoding of signatures when it parses a key.
    der: ParsedPublicKey,
    raw: ParsedPublicKey,
    uses: Uses,
}

impl P256Key {
    /// Decodes a point (SEC 1 section 2.3.4).
    pub(crate) fn new(sec1: &[u8]) -> Result<Self, KeyError> {
        let off_curve = || KeyError::new("the key's point isn't on the curve P-256");
        Ok(Self {
            sec1: sec1.into(),
            point: AffinePoint::from_sec1_bytes(sec1).map_err(|_| off_curve())?,
            der: ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, sec1).map_err(|_| off_curve())?,
            raw: ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, sec1).map_err(|_| off_curve())?,
            uses: Uses::default(),
        })
    }

    /// The verdict of aws-lc-rs on a signature in DER or as 64 raw bytes.
    pub(crate) fn verify(&self, sha256: Digest, signature: &[u8]) -> bool {
        let key = self;
        verify_all(&[P256Check { key, sha256, signature }]) == [true]
    }
}

/// A signature to verify, in DER or as 64 raw bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct P256Check<'a> {
    pub(crate) key: &'a P256Key,
    pub(crate) sha256: Digest,
    pub(crate) signature: &'a [u8],
}

/// The verdicts of aws-lc-rs on signatures, faster the more there are.
///
/// Tables decide where they can. They leave to aws-lc-rs signatures of keys without a table,
/// signatures that have none or both of the encodings, and those whose additions fail.
pub(crate) fn verify_all(checks: &[P256Check<'_>]) -> Vec<bool> {
    let prepared: Vec<_> = checks.iter().map(P256Check::prepare).collect();
    let by_table: Vec<_> = prepared.iter().flatten().collect();
    let mut by_table = are_valid(&by_table).into_iter();
    let verdicts = checks.iter().zip(&prepared).map(|(check, prepared)| {
        let verdict = prepared.as_ref().and_then(|_| by_table.next()?);
        verdict.unwrap_or_else(|| check.verify_by_aws_lc())
    });
    verdicts.collect()
}

impl P256Check<'_> {
    /// The check with its key's table, if that can decide.
    fn prepare(&self) -> Option<PreparedCheck> {
        let key = self.key;
        let table = KEY_TABLES.get(&key.sec1, &key.uses, || P256Multiples::new(&key.point))?;
        let raw = Signature::from_slice(self.signature);
        let signature = match (raw, Signature::from_der(self.signature)) {
            (Ok(signature), Err(_)) | (Err(_), Ok(signature)) => signature,
            _ => return None,
        };
        Some(PreparedCheck::new(table, self.sha256.as_ref(), &signature))
    }

    fn verify_by_aws_lc(&self) -> bool {
        let Self { key, sha256, signature } = self;
        (signature.len() == 64 && key.raw.verify_digest_sig(sha256, signature).is_ok())
            || key.der.verify_digest_sig(sha256, signature).is_ok()
    }
}

/// A signature and the table of its key: r and s, which aren't zero, and the hash e.
struct PreparedCheck {
    table: Arc<P256Multiples>,
    e: U256,
    r: U256,
    s: U256,
}

impl PreparedCheck {
    fn new(table: Arc<P256Multiples>, sha256: &[u8], signature: &Signature) -> Self {
        let (r, s) = signature.split_bytes();
        let [e, r, s] = [sha256, &r, &s].map(U256::from_be_slice);
        Self { table, e, r, s }
    }

    /// Points that add up to the one whose x-coordinate must be r.
    fn addends(&self, inverse_of_s: &Scalar) -> Vec<CurvePoint> {
        let [u1, u2] = [self.e, self.r].map(|factor| {
            let product = Scalar::new(&factor) * inverse_of_s;
            product.retrieve().to_le_byte_array().into()
        });
        // Collected first, so that the CPU waits for its memory once, not at every addition.
        let mut addends = Vec::with_capacity(BaseMultiples::WINDOWS + P256Multiples::WINDOWS);
        BASE_TABLE.append_addends(&u1, &mut addends);
        self.table.append_addends(&u2, &mut addends);
        addends
    }

    /// Whether the sum's x-coordinate is r modulo the order: r itself, or r plus the order.
    fn has_r(&self, sum: &Sum) -> bool {
        let has_x = |x: U256| sum.has_x(&FieldElement::from_be_bytes(&x.to_be_byte_array().into()));
        let above = self.r.wrapping_add(Scalar::MODULUS.as_ref());
        has_x(self.r) || (self.r < above && above < *Prime::PARAMS.modulus().as_ref() && has_x(above))
    }
}

/// Whether signatures are valid (FIPS 186-5 section 6.4.2), by the tables of their keys. `None`
/// where the additions fail.
fn are_valid(checks: &[&PreparedCheck]) -> Vec<Option<bool>> {
    let mut inverses: Vec<_> = checks.iter().map(|check| Scalar::new(&check.s)).collect();
    let invert = |number: &Scalar| number.invert_vartime().unwrap_or(Scalar::ZERO);
    invert_all(&mut inverses, Scalar::ONE, |a, b| a * b, invert);
    let addends = checks
        .iter()
        .zip(&inverses)
        .map(|(check, inverse)| check.addends(inverse));
    let mut addends: Vec<_> = addends.collect();
    let verdicts = checks
        .iter()
        .zip(sums(&mut addends))
        .map(|(check, sum)| Some(check.has_r(&sum?)));
    verdicts.collect()
}

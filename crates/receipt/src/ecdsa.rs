//! ECDSA with P-256 and SHA-256, and faster for keys that are used a lot.

mod field;
mod multiples;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use aws_lc_rs::digest::Digest;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, ParsedPublicKey};
use p256::AffinePoint;
use p256::ecdsa::Signature;
use p256::elliptic_curve::bigint::modular::ConstMontyForm;
use p256::elliptic_curve::bigint::{ArrayEncoding as _, U256, const_monty_params};
use p256::elliptic_curve::sec1::FromSec1Point as _;

use crate::KeyError;
use crate::tables::{TableStore, Uses};
use multiples::{CurvePoint, Multiples, Sum};

const_monty_params!(
    Order,
    U256,
    "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
    "Order of P-256."
);
/// A number modulo the order.
type Scalar = ConstMontyForm<Order, { U256::LIMBS }>;

/// The prime of P-256.
const PRIME: U256 = U256::from_be_hex("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff");

/// Making a table costs as much as about 20 verifications without one.
const USES_BEFORE_TABLE: u32 = 256;
/// At most this many keys have tables, of 152 KB each: 10 MB.
const TABLES_MAX: usize = 64;

type KeyMultiples = Multiples<7>;
type BaseMultiples = Multiples<8>;

static KEY_TABLES: LazyLock<TableStore<KeyMultiples>> =
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
    pub(crate) fn verify(&self, sha256: &Digest, signature: &[u8]) -> bool {
        self.verify_by_table(sha256, signature).unwrap_or_else(|| {
            (signature.len() == 64 && self.raw.verify_digest_sig(sha256, signature).is_ok())
                || self.der.verify_digest_sig(sha256, signature).is_ok()
        })
    }

    /// The verdict by tables. `None` leaves it to aws-lc-rs: without a table, for a signature that
    /// has none or both of the encodings, and where [`is_valid`] has no answer.
    fn verify_by_table(&self, sha256: &Digest, signature: &[u8]) -> Option<bool> {
        let signature = match (Signature::from_slice(signature), Signature::from_der(signature)) {
            (Ok(signature), Err(_)) | (Err(_), Ok(signature)) => signature,
            _ => return None,
        };
        let table = KEY_TABLES.get(&self.sec1, &self.uses, || KeyMultiples::new(&self.point))?;
        is_valid(&table, sha256.as_ref(), &signature)
    }
}

/// Whether a signature is valid (FIPS 186-5 section 6.4.2), by the table of its key. `None` where
/// the additions fail.
fn is_valid(key: &KeyMultiples, sha256: &[u8], signature: &Signature) -> Option<bool> {
    let (r, s) = signature.split_bytes();
    let [e, r, s] = [sha256, &r, &s].map(U256::from_be_slice);
    let inverse = Option::<Scalar>::from(Scalar::new(&s).invert_vartime())?;
    let [u1, u2] = [e, r].map(|factor| (Scalar::new(&factor) * inverse).retrieve());
    let [u1, u2] = [u1, u2].map(|scalar| scalar.to_le_byte_array().into());
    // Collected first, so that the CPU waits for its memory once, not at every addition.
    let addends: Vec<CurvePoint> = BASE_TABLE.addends(&u1).chain(key.addends(&u2)).collect();
    let sum = Sum::of(&addends)?;
    // The sum's x-coordinate modulo the order must be r: x is r, or r plus the order.
    let has_x = |x: U256| sum.has_x(&field::FieldElement::from_be_bytes(&x.to_be_byte_array().into()));
    let above = r.wrapping_add(Scalar::MODULUS.as_ref());
    Some(has_x(r) || (r < above && above < PRIME && has_x(above)))
}

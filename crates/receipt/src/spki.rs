//! Public keys as they are in a receipt: PEM around a SubjectPublicKeyInfo, its structure checked
//! without arithmetic.
//!
//! This is what the format check looks at: label, base64, DER and its lengths (X.690 section 10.1),
//! the algorithm's identifier, and the size of the key. Whether a point is on its curve is for
//! [`crate::PublicKey`] to find out.

use crate::{Algorithm, pem};

/// No supported key has a longer PEM: RSA-2048 with an exponent as long as its modulus takes about
/// 800 bytes.
pub(crate) const PEM_BYTES_MAX: usize = 1_024;

/// The label of a SubjectPublicKeyInfo (RFC 7468 section 13).
pub(crate) const LABEL: &str = "PUBLIC KEY";

/// `SEQUENCE { SEQUENCE { id-Ed25519 }, BIT STRING }` before the 32 bytes of the key (RFC 8410
/// section 4).
const ED25519_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// `SEQUENCE { rsaEncryption, NULL }` (RFC 3279 section 2.3.1).
const RSA_ALGORITHM: [u8; 15] = [
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
/// `SEQUENCE { id-ecPublicKey, secp256r1 }` (RFC 5480 section 2.1.1).
const P256_ALGORITHM: [u8; 21] = [
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
    0x01, 0x07,
];

/// A key's DER and what kind it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spki {
    pub(crate) algorithm: Algorithm,
    pub(crate) der: Vec<u8>,
    /// Offset in `der` at which the key itself begins: 32 bytes, a PKCS#1 `RSAPublicKey`, or an SEC
    /// 1 point.
    pub(crate) key_at: usize,
}

impl Spki {
    /// Reads a PEM; the error says what to change.
    pub(crate) fn from_pem(pem: &str) -> Result<Self, String> {
        if pem.len() > PEM_BYTES_MAX {
            return Err("the PEM is longer than any Ed25519, RSA-2048 or P-256 key's".to_owned());
        }
        let der = pem::decode(pem, LABEL)?;
        Ok(Self::from_der(der)?)
    }

    fn from_der(der: Vec<u8>) -> Result<Self, &'static str> {
        const NOT_DER: &str = "the key must be a SubjectPublicKeyInfo in DER";
        if der.len() == 44 && der.starts_with(&ED25519_HEAD) {
            return Ok(Self {
                algorithm: Algorithm::Ed25519,
                der,
                key_at: ED25519_HEAD.len(),
            });
        }
        let (info, rest) = element(&der, 0x30).ok_or(NOT_DER)?;
        if !rest.is_empty() {
            return Err("remove what follows the SubjectPublicKeyInfo");
        }
        let (algorithm, bits) = if let Some(bits) = info.strip_prefix(&RSA_ALGORITHM) {
            (Algorithm::Rsa2048, bits)
        } else if let Some(bits) = info.strip_prefix(&P256_ALGORITHM) {
            (Algorithm::EcdsaP256, bits)
        } else {
            element(info, 0x30).ok_or(NOT_DER)?;
            return Err("the key must be of the kind Ed25519, RSA (rsaEncryption) or EC on the curve P-256");
        };
        let (bits, rest) = element(bits, 0x03).ok_or(NOT_DER)?;
        let Some((0, key)) = bits.split_first().map(|(&unused, key)| (unused, key)) else {
            return Err(NOT_DER);
        };
        if !rest.is_empty() {
            return Err(NOT_DER);
        }
        match algorithm {
            Algorithm::Rsa2048 => check_rsa(key)?,
            _ => check_point(key)?,
        }
        let key_at = der.len() - key.len();
        Ok(Self { algorithm, der, key_at })
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.der[self.key_at..]
    }
}

/// `SEQUENCE { INTEGER modulus, INTEGER exponent }` (RFC 8017 appendix A.1.1).
fn check_rsa(key: &[u8]) -> Result<(), &'static str> {
    const NOT_RSA: &str = "the RSA key must be an RSAPublicKey in DER";
    let (numbers, rest) = element(key, 0x30).ok_or(NOT_RSA)?;
    let (modulus, exponent) = element(numbers, 0x02).ok_or(NOT_RSA)?;
    let (exponent, end) = element(exponent, 0x02).ok_or(NOT_RSA)?;
    if !rest.is_empty() || !end.is_empty() {
        return Err(NOT_RSA);
    }
    // A positive INTEGER of 2048 bits is a zero byte and 256 more, the first of them with its top
    // bit set.
    if modulus.len() != 257 || modulus[0] != 0 || modulus[1] < 0x80 {
        return Err("the RSA modulus must have exactly 2048 bits");
    }
    if modulus[256] & 1 == 0 {
        return Err("the RSA modulus must be odd");
    }
    let (&first, &last) = exponent.first().zip(exponent.last()).ok_or(NOT_RSA)?;
    let padded = exponent.len() > 1 && first == 0;
    if first >= 0x80 || (padded && exponent[1] < 0x80) {
        return Err(NOT_RSA);
    }
    // NIST SP 800-56B section 6.2: between 2^16 and 2^256. Signatures with small ones have been
    // forged.
    if last & 1 == 0 || exponent.len() - usize::from(padded) < 3 {
        return Err("the RSA exponent must be odd and above 65,536; 65,537 is usual");
    }
    Ok(())
}

/// An SEC 1 point, uncompressed or compressed (RFC 5480 section 2.2).
fn check_point(key: &[u8]) -> Result<(), &'static str> {
    match (key.first(), key.len()) {
        (Some(4), 65) | (Some(2 | 3), 33) => Ok(()),
        _ => Err("the P-256 key must be a point of 65 bytes (uncompressed) or 33 bytes (compressed)"),
    }
}

/// The contents of the DER element at the start, if it has that tag and its length is encoded as
/// DER demands, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, der) = der.split_first()?;
    let (&length, der) = der.split_first()?;
    if found != tag {
        return None;
    }
    let (length, der) = match length {
        0..=0x7f => (usize::from(length), der),
        0x81 => {
            let (&length, der) = der.split_first().filter(|&(&length, _)| length >= 0x80)?;
            (usize::from(length), der)
        }
        0x82 => {
            let (bytes, der) = der.split_first_chunk::<2>()?;
            (
                Some(usize::from(u16::from_be_bytes(*bytes))).filter(|&length| length >= 0x100)?,
                der,
            )
        }
        _ => return None,
    };
    der.split_at_checked(length)
}

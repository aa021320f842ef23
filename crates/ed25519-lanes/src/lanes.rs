//! The lanes of a CPU with AVX-512 IFMA. Functions with `#[target_feature]` are safe to call from
//! each other. The functions below are the only callers from outside.

mod digits;
mod field;
#[cfg(test)]
mod field_tests;
mod point;
mod row;
mod sha512;
mod table;
mod vector;
mod verify;

use crate::{Item, Signer};
use row::Row;
use table::WindowTable;

/// Windows of 6 bits: 176 KB a key.
const KEY_TABLE_BITS: usize = 6;
type KeyMultiples = WindowTable<KEY_TABLE_BITS>;

/// Proof that this CPU has the instructions.
#[derive(Clone, Copy, Debug)]
pub struct Lanes(());

/// A public key, decoded: 192 bytes.
#[derive(Clone, Debug)]
pub struct Key {
    encoding: [u8; 32],
    minus_a: Row,
}

/// A key with multiples of its point: 176 KB. Verification with them takes half of the time or less
/// while the tables in use fit the CPU's caches. With a thousand tables it takes no less than
/// without. A table takes as long to make as about forty verifications.
#[derive(Debug)]
pub struct KeyTable {
    key: Key,
    multiples: KeyMultiples,
}

impl Lanes {
    /// The lanes, if this CPU has them.
    #[must_use]
    pub fn detect() -> Option<Self> {
        let detected = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512ifma");
        detected.then_some(Self(()))
    }

    /// Verdicts by item.
    ///
    /// Any number of items is verified in groups of eight, and a group takes as long with one item
    /// as with eight. The items' order and company don't change their verdicts.
    #[must_use]
    #[expect(unsafe_code, reason = "a function with target features is called")]
    pub fn verify(self, items: &[Item<'_>]) -> Vec<bool> {
        // SAFETY: `self` exists, so `detect` has found the features.
        unsafe { verify::verify(items) }
    }
}

impl Key {
    /// Decodes a point. `None` if the encoding isn't canonical or not of a point of edwards25519,
    /// or if the point has small order.
    #[must_use]
    #[expect(unsafe_code, reason = "a function with target features is called")]
    pub fn new(_: Lanes, encoding: &[u8; 32]) -> Option<Self> {
        // SAFETY: `Lanes` exist, so `detect` has found the features.
        let minus_a = unsafe { verify::decode_key(encoding) }?;
        Some(Self {
            encoding: *encoding,
            minus_a,
        })
    }
}

impl KeyTable {
    /// The table of a key.
    #[must_use]
    #[expect(unsafe_code, reason = "a function with target features is called")]
    pub fn new(_: Lanes, key: &Key) -> Self {
        // SAFETY: `Lanes` exist, so `detect` has found the features.
        let multiples = unsafe { KeyMultiples::new(&key.minus_a) };
        Self {
            key: key.clone(),
            multiples,
        }
    }
}

impl<'a> Signer<'a> {
    fn key(self) -> &'a Key {
        match self {
            Self::Key(key) => key,
            Self::Table(table) => &table.key,
        }
    }

    fn multiples(self) -> Option<&'a KeyMultiples> {
        match self {
            Self::Key(_) => None,
            Self::Table(table) => Some(&table.multiples),
        }
    }
}

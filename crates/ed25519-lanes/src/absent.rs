//! Names for CPUs that can't have the lanes: no value of these types exists.

use crate::Item;

/// Proof that this CPU has the instructions.
#[derive(Clone, Copy, Debug)]
pub enum Lanes {}

/// A public key, decoded.
#[derive(Clone, Debug)]
pub struct Key(Lanes);

/// Multiples of a key's point.
#[derive(Debug)]
pub struct KeyTable(Lanes);

impl Lanes {
    /// The lanes, if this CPU has them.
    #[must_use]
    pub fn detect() -> Option<Self> {
        None
    }

    /// Verdicts by item.
    #[must_use]
    pub fn verify(self, _: &[Item<'_>]) -> Vec<bool> {
        match self {}
    }
}

impl Key {
    /// Decodes a point.
    #[must_use]
    pub fn new(lanes: Lanes, _: &[u8; 32]) -> Option<Self> {
        match lanes {}
    }
}

impl KeyTable {
    /// The table of a key.
    #[must_use]
    pub fn new(lanes: Lanes, _: &Key) -> Self {
        match lanes {}
    }
}

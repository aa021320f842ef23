//! Verifies eight independent Ed25519 signatures at a time, one per 64-bit lane of AVX-512 IFMA.
//!
//! Each signature has a verdict of its own, from the equation `R = S B - k A` that
//! `ed25519_dalek::VerifyingKey::verify_strict` checks: no batch equation joins signatures, and the
//! verdicts are exactly those of `verify_strict` for keys that [`Key::new`] accepts.
//!
//! From bottom to top: `vector` (lanes and memory), `field` (integers modulo 2^255 - 19), `point`
//! (the curve), `row` and `table` (multiples in memory), `sha512`, `digits`, `verify`.
//!
//! The program needs no compiler flag: [`Lanes::detect`] looks for the instructions at run time.
//! Time and memory accesses depend on the data, which is public in verification. Don't use this
//! code with secrets.

#[cfg(not(target_arch = "x86_64"))]
mod absent;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod signed_digits;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::{Key, KeyTable, Lanes};
#[cfg(target_arch = "x86_64")]
pub use lanes::{Key, KeyTable, Lanes};
pub use signed_digits::signed_digits;

/// A signature to verify.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The signer's key.
    pub signer: Signer<'a>,
    /// The signed message.
    pub message: &'a [u8],
    /// R, then S.
    pub signature: &'a [u8; 64],
}

/// A key, with or without a table.
#[derive(Clone, Copy, Debug)]
pub enum Signer<'a> {
    /// The key alone.
    Key(&'a Key),
    /// A key with its table.
    Table(&'a KeyTable),
}

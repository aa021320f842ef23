//! Receipts as users of the crate see them: documents, vectors, other implementations.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used
)]

mod documents;
mod fixtures;
mod format;
mod interop;
mod json;
mod judge;
mod signatures;
mod vectors;

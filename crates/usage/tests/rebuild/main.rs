//! Rebuilds, erased clients, and the consistency check, on the real engine.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod checks;
mod erasures;
mod harness;
mod rebuilds;

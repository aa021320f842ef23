//! The verifier alone, over embedded logs: what it appends to the log `verdicts`.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// The parts of a position, and small numbers.
#![allow(clippy::cast_possible_truncation)]

mod faults;
mod idle;
mod outcomes;
mod partitions;
mod policies;
mod receipts;
mod restarting;
mod world;

//! The table `usage` over the real engine: counting, queries, rebuilds and checks.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// Seeds are printed, and numbers of receipts are small.
#![allow(clippy::print_stdout, clippy::cast_possible_truncation)]

mod counting;
mod engine;
mod queries;
mod rebuild;

//! The warehouse over the real engine.
//!
//! libchdb has one engine and one data path per process, so these tests share one engine, each with
//! a database of its own; what kills or damages an engine runs it in a child process (this same
//! binary with `RECEIPTS_TEST_CHILD`).
#![allow(clippy::unwrap_used, clippy::expect_used)]
// Children speak to their parent over standard output, and row numbers are small.
#![allow(clippy::print_stdout, clippy::cast_possible_truncation)]

mod audit;
mod cold;
mod damage;
mod ddl;
mod endpoint;
mod erasure;
mod exactness;
mod export;
mod full_disk;
mod harness;
mod kill;
mod limits;
mod live;
mod migrations;
mod receipt;
mod refused;
mod rejected;
mod retention;
mod rows;
mod speed;
mod tls;

//! The writer over the real engine and an embedded log of verdicts.
//!
//! libchdb has one engine per process, so these tests share one, each with a database and a log of
//! its own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod counting;
mod harness;
mod interruptions;
mod older_copy;
mod outages;
mod owners;
mod rebuilds;
mod refusals;
mod rights;
mod verdicts;
mod wrong_records;

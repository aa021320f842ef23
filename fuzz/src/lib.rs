//! Checks of what reads foreign bytes: each module has one function, which panics where a property
//! doesn't hold for its input. `tests/seeds.rs` calls them with the seeds and with mutations of
//! them; `targets/` hands them to libFuzzer, which finds inputs by coverage.
#![forbid(unsafe_code)]

pub mod cursors;
pub mod directory;
pub mod message;
pub mod parse;
pub mod signature;
pub mod verdicts;

//! The verifier: consumes the log, judges every receipt on rayon, writes outcomes to the warehouse, commits.
//!
//! - [`pipeline`]: the whole of it, one function that reads like the diagram in ARCHITECTURE.md
//! - [`block`]: gathering records into blocks, and which partitions are ours
//! - [`judging`]: records to encoded rows, a pure function
//! - [`policy`]: which good receipts the deployment refuses
//! - [`admitting`]: the policy's step, which says the same whenever a block is judged again
//! - [`rows`]: a block's rows, which can be cut anywhere
//! - [`writing`]: rows to the warehouse, with retries, and what it refuses by itself
//! - [`refusing`]: receipts that it or a policy refuses, as rejected ones
//! - [`offenders`]: clients most of whose receipts are rejected
//! - [`standing`]: what keeps the verifier from getting on, for readiness
//! - [`ledger`]: the conservation ledger's lines, as commit metadata and as rows
//! - [`resuming`]: where reading goes on when a committed position is lost
//! - [`repair`]: rows lost with a damaged part, rebuilt from the log
//! - [`config`]: the section `[verifier]`
//!
//! It has no state of its own: a block's rows are a pure function of its records and their marks, so a block that is
//! written again after a crash changes nothing, and the log's commit is the one point that decides.

#![forbid(unsafe_code)]

pub mod admitting;
pub mod block;
pub mod config;
pub mod judging;
pub mod ledger;
pub mod offenders;
pub mod pipeline;
pub mod policy;
pub mod refusing;
pub mod repair;
pub mod resuming;
pub mod rows;
pub mod standing;
pub mod traces;
pub mod writing;

pub use config::VerifierConfig;
pub use pipeline::{Deps, VerifierError, run};
pub use policy::PolicyBook;

/// The consumer group that all verifiers share.
pub const GROUP: &str = "verifier";

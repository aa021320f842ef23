//! The verifier: reads the log `receipts`, judges every receipt on rayon, appends verdicts to the
//! log `verdicts`.
//!
//! - [`pipeline`], [`stages`], [`consuming`]: polled -> judged -> stamped -> encoded -> appended
//! - [`gathering`]: polled records, gathered into blocks
//! - [`assignment`]: the partitions that this verifier owns
//! - [`resumption`]: where reading continues after an assignment
//! - [`judging`]: records to verdicts, a pure function
//! - [`stamping`]: the deployment's policies, evaluated against the account registry
//! - [`encoding`]: verdicts to records of the log `verdicts`
//! - [`rejection_cap`]: the cap on rejected receipts that are stored
//! - [`appending`]: records and positions, stored in one transaction
//! - [`idle`]: empty ranges of partitions without new records
//! - [`rejections`]: clients most of whose receipts are rejected
//! - [`error`], [`traces`], [`config`]: what the stages share
//!
//! The verifier has no state of its own. It decides verdict, reason and time of a receipt once;
//! everything behind it is a function of the log `verdicts`.

#![forbid(unsafe_code)]

pub mod appending;
pub mod assignment;
pub mod config;
pub mod consuming;
pub mod encoding;
pub mod error;
pub mod gathering;
pub mod idle;
pub mod judging;
pub mod pipeline;
pub mod rejection_cap;
pub mod rejections;
pub mod resumption;
pub mod stages;
pub mod stamping;
pub mod traces;

pub use self::config::VerifierConfig;
pub use error::VerifierError;
pub use pipeline::{Deps, run};
pub use stamping::Policies;

/// The consumer group that all verifiers share.
pub const GROUP: &str = "verifier";

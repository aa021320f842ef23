//! The load generator with an exact end-to-end check.
//!
//! - [`command`]: the command line
//! - [`plan`]: the arguments, and what they come to
//! - [`workload`]: client keys, signed bodies, and what each one must lead to
//! - [`expected`]: what the service must say in the end, counted as acknowledgements come in
//! - [`run`]: all of it together
//! - [`http`]: the HTTP client
//! - [`submit`]: one request, with the retries an ordinary client makes
//! - [`pace`]: open loop at a rate, or closed loop at a concurrency
//! - [`freshness`]: from acknowledged to counted in the dashboard
//! - [`check`]: the dashboard, the refusals and the audit against what was sent
//! - [`installation`]: what is under test, as a load sees it
//! - [`process`]: one process under test
//! - [`fleet`]: separate processes on real engines
//! - [`stack`]: `receipts up` as a process under test
//! - [`drills`]: faults under load, each ending in an exact audit
//! - [`report`]: what a person reads, and what a program reads

#![forbid(unsafe_code)]

pub mod check;
pub mod command;
pub mod drills;
pub mod expected;
pub mod fleet;
pub mod freshness;
pub mod http;
pub mod installation;
pub mod pace;
pub mod plan;
pub mod process;
pub mod report;
pub mod run;
pub mod stack;
pub mod submit;
pub mod workload;

pub use run::{Run, run};

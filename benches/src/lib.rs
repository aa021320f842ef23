//! Parts that the criterion benches and the comparison program share.
//!
//! - [`analytics`]: the analytics API over tens of millions of receipts
//! - [`arguments`]: the command line of `compare`
//! - [`cost`]: what one receipt costs, by stage, thread and function
//! - [`workload`]: client keys, signed receipts and batches
//! - [`reference`](mod@reference): the naive way, and signatures alone
//! - [`rounds`]: two ways measured in turn, and the medians of what came out
//! - [`figures`]: the rows of the table, one module for each subject
//! - [`server`], [`process`], [`traffic`]: a server in a process of its own, what it costs, and the
//!   requests to it
//! - `sql`: statements to the engine's socket
//! - [`scratch`]: where logs are written, on a real disk
//! - [`row`], [`report`], [`machine`]: a row with its target, the table and the file, and what it
//!   was measured on
//! - [`progress`]: what is being measured now

#![forbid(unsafe_code)]

pub mod analytics;
pub mod arguments;
pub mod cost;
pub mod figures;
pub mod machine;
pub mod process;
pub mod progress;
pub mod reference;
pub mod report;
pub mod rounds;
pub mod row;
pub mod scratch;
pub mod server;
mod sql;
pub mod traffic;
pub mod workload;

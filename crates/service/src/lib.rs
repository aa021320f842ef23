//! Parts that every service needs and none owns: telemetry, health, shutdown,
//! problem+json, limits.
//!
//! | module | noun |
//! |---|---|
//! | [`telemetry`], [`metrics`] | log lines on stderr, the list of metrics |
//! | [`process`] | the standard metrics of a process |
//! | [`health`] | what readiness is made of |
//! | [`shutdown`] | signals and the time to drain |
//! | [`reload`] | what SIGHUP has the process read again |
//! | [`problem`] | error kind -> HTTP status and RFC 9457 body, in one table |
//! | [`problem_page`] | the pages that a problem's `type` names |
//! | [`request_id`] | `X-Request-Id` |
//! | [`trace`] | `traceparent`, and the field `trace_id` of log lines |
//! | [`data`] | the section `[data]`: where files are stored
//! | [`cpu`] | the one bridge from tokio to threads for computing |
//! | [`rate_limit`] | requests a minute and a day, and their headers |
//! | [`retry`] | attempts that are repeated until they succeed |
//! | [`instant`] | milliseconds since the epoch and their text |
//!
//! The crate knows no receipt, log or warehouse.
#![forbid(unsafe_code)]

pub mod address;
pub mod cpu;
pub mod data;
pub mod health;
pub mod host;
pub mod instant;
pub mod metrics;
pub mod problem;
pub mod problem_page;
pub mod process;
pub mod rate_limit;
pub mod reload;
pub mod request_id;
pub mod retry;
pub mod shutdown;
pub mod telemetry;
pub mod trace;

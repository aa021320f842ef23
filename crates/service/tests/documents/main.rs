//! Documents and lists, compared with the code: metrics, log lines and alerts.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod alerts;
mod logs_document;
mod metrics_document;
mod metrics_list;
mod rust_files;

//! Client of the gateway: signs uses, batches and spools receipts, and delivers them with retries.
//!
//! ```text
//! Use ── sign ──> SignedReceipt ──> open batch ── seal ──> sealed batch ── POST ──> 202
//!                                   .journal              .batch
//! ```
//!
//! | module | noun |
//! |---|---|
//! | [`client`], [`counters`] | [`ReceiptsClient`]: record, flush, close, counters |
//! | [`content_use`] | [`Use`]: one use of a piece of content |
//! | [`signer`] | [`ReceiptSigner`]: a key and the `client` of its receipts |
//! | [`options`] | bounds and intervals |
//! | `queue`, `batch` | what isn't acknowledged yet, under one lock |
//! | `delivery`, `sync` | the tasks that seal, send and flush to the disk |
//! | `spool`, `frame`, `acknowledged_log`, `io_thread` | files of the spool, and their thread |
//! | `reports` | receipts that end without an acknowledgement |
//! | [`gateway_client`], [`submission`], [`retrying`] | a request and its retries |
//! | [`acknowledgement`] | what a 202 proves, verified with the published keys |
//!
//! `receipts send` uses only the last two rows. The spool's layout is that of the Python package
//! (`sdk/python`, `spool.py`), and conformance/README.md describes what both guarantee.
#![forbid(unsafe_code)]

mod acknowledged_log;
pub mod acknowledgement;
mod batch;
pub mod client;
pub mod content_use;
pub mod counters;
mod delivery;
mod frame;
pub mod gateway_client;
mod io_thread;
pub mod options;
mod queue;
mod reports;
pub mod retrying;
pub mod signer;
mod spool;
pub mod submission;
mod sync;

pub use acknowledgement::SignedAcknowledgement;
pub use client::{ReceiptsClient, RecordError, StartError};
pub use content_use::{Use, UseError, UseFault};
pub use counters::ClientCounters;
pub use gateway_client::{GatewayClient, GatewayUrlError, connector};
pub use options::{AcknowledgedBatch, ClientOptions, RefusedReceipt};
pub use signer::{ClientIdentity, ReceiptSigner, SignedReceipt};

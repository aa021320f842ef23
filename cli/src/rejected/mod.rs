//! `receipts rejected`: lists, shows and replays rejected receipts.
//!
//! - [`selection`]: which rejected receipts
//! - [`list`], [`show`], [`replay`]: the commands
//! - [`rendering`]: bytes of strangers as text for a terminal

pub mod list;
pub mod rendering;
pub mod replay;
pub mod selection;
pub mod show;

use accounts::Fingerprint;
use serde_json::{Value, json};
use service::instant::rfc3339_ms;
use warehouse::Rejected;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::Settings;
use receipt_log::ReceiptPosition;

/// List, show and replay rejected receipts
#[derive(Debug, clap::Args)]
pub struct RejectedCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Replay(Box<replay::Replay>),
}

impl RejectedCommand {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        match self.command {
            Command::List(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Replay(command) => command.run(),
        }
    }
}

/// Runs a command's work on a runtime of its own, with the configuration read.
fn on_runtime<F>(settings: &Settings, work: impl FnOnce(Settings) -> F) -> Result<CommandOutcome, CommandFailure>
where
    F: Future<Output = Result<CommandOutcome, CommandFailure>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("rejected")
        .enable_all()
        .build()
        .map_err(CommandFailure::unavailable)?;
    runtime.block_on(work(settings.clone()))
}

/// A rejected receipt without its bytes, for programs.
fn to_json(rejected: &Rejected) -> Value {
    let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "position": position(rejected.position),
        "reason": rejected.reason,
        "detail": rejected.detail,
        "receivedAt": rfc3339_ms(rejected.received_at_ms),
        "publisher": optional(&rejected.publisher),
        "receiptId": rejected.receipt_id,
        "clientId": rejected.client_id,
        "entryId": rejected.entry_id,
        "payloadHash": rejected.payload_hash.map(|hash| sha256(&hash)),
        "requestId": rejected.request_id,
        "requestSignature": rejected.request_signature,
        "clientAddress": optional(&rejected.client_address),
        "kind": rejected.kind,
        "origin": optional(&rejected.origin),
        "rawBytes": rejected.raw_bytes,
        "keyFingerprint": rejected.key_fingerprint.map(|key| Fingerprint(key).to_string()),
        "receipts": rejected.receipts,
    })
}

fn position(packed: u128) -> String {
    ReceiptPosition::from(packed).to_string()
}

/// `sha256:<hex>`, as receipts write their content hash.
fn sha256(hash: &[u8; 32]) -> String {
    format!("sha256:{}", hex::encode(hash))
}

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
use serde::Serialize;
use service::instant::rfc3339_ms;
use uuid::Uuid;
use warehouse::Rejected;

use crate::failure::{CommandFailure, CommandOutcome};
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

/// A rejected receipt without its bytes, for people and programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRejection<'a> {
    position: String,
    reason: &'a str,
    detail: &'a str,
    received_at: String,
    publisher: Option<&'a str>,
    receipt_id: Option<Uuid>,
    client_id: Option<Uuid>,
    entry_id: Option<Uuid>,
    payload_hash: Option<String>,
    request_id: &'a str,
    request_signature: Option<&'a str>,
    client_address: Option<&'a str>,
    kind: &'a str,
    origin: Option<&'a str>,
    raw_bytes: u64,
    key_fingerprint: Option<String>,
    receipts: u32,
}

impl<'a> ShownRejection<'a> {
    fn of(rejected: &'a Rejected) -> Self {
        let optional = |text: &'a str| (!text.is_empty()).then_some(text);
        Self {
            position: position(rejected.position),
            reason: &rejected.reason,
            detail: &rejected.detail,
            received_at: rfc3339_ms(rejected.received_at_ms),
            publisher: optional(&rejected.publisher),
            receipt_id: rejected.receipt_id,
            client_id: rejected.client_id,
            entry_id: rejected.entry_id,
            payload_hash: rejected
                .payload_hash
                .map(|hash| format!("sha256:{}", hex::encode(hash))),
            request_id: &rejected.request_id,
            request_signature: rejected.request_signature.as_deref(),
            client_address: optional(&rejected.client_address),
            kind: &rejected.kind,
            origin: optional(&rejected.origin),
            raw_bytes: rejected.raw_bytes,
            key_fingerprint: rejected.key_fingerprint.map(|key| Fingerprint(key).to_string()),
            receipts: rejected.receipts,
        }
    }
}

fn position(packed: u128) -> String {
    ReceiptPosition::from(packed).to_string()
}

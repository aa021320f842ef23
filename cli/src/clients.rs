//! `receipts clients`: which keys count for which client, where `[policy] clients` requests it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use accounts::{
    AccountsError, CLIENTS_LISTED_MAX, ClientInfo, ClientKey, ClientKeyState, Fingerprint, NewClientKey, Revoked,
};
use jiff::Timestamp;
use receipt::PublicKey;
use serde::Serialize;
use service::instant::{now_ms, rfc3339_ms};
use uuid::Uuid;

use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::listing;
use crate::settings::SettingsArgs;
use crate::terminal::{FAINT, note, paint, report, report_change};

/// No public key of the three kinds is near this long.
const PEM_BYTES_MAX: u64 = 4 << 10;

const LIST_HELP: &str = "\
Registered and revoked keys.

Examples:
  receipts clients list
  receipts clients list --client 018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10 --json

Exit codes:
  0  ok
  2  wrong usage
  3  the account store is unavailable";

const REGISTER_HELP: &str = "\
From now on the key counts for this client id, under `clients = \"registered\"`. A client may have several \
keys, so that it can change from one to the other. A revoked key that is registered again isn't revoked any more. Receipts \
that were rejected before can be appended to the log again: `receipts rejected replay --reason client_key_unknown`.

Examples:
  receipts clients register 018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10 \\
    --key client.key.pub --name 'Reader, 2026'

Exit codes:
  0  the key is registered
  1  it was registered before
  2  wrong usage, or the file holds no public key
  3  the account store is unavailable";

const REVOKE_HELP: &str = "\
Receipts received from now on, or from the time given, are refused; what was received before, or is counted already, stays.

Examples:
  receipts clients revoke 018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10 \\
    --key client.key.pub
  receipts clients revoke 018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10 \\
    --from 2026-07-01T12:00:00Z --fingerprint \\
    4f0c5d1b8e2a97c3604f0c5d1b8e2a97c3604f0c5d1b8e2a97c3604f0c5d1b8e

Exit codes:
  0  the key is revoked
  1  the client has no such key, or it was revoked before
  2  wrong usage
  3  the account store is unavailable";

/// List, register and revoke the keys that clients may sign with
#[derive(Debug, clap::Args)]
pub struct Clients {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(List),
    Register(Register),
    Revoke(Revoke),
}

/// List clients' keys
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Only this client's
    #[arg(long, value_name = "CLIENT_ID")]
    client: Option<Uuid>,
    /// Write the keys as JSON
    #[arg(long)]
    json: bool,
}

/// Register a key for a client
#[derive(Debug, clap::Args)]
#[command(after_help = REGISTER_HELP)]
struct Register {
    #[command(flatten)]
    settings: SettingsArgs,
    /// `client.id` of its receipts
    #[arg(value_name = "CLIENT_ID")]
    client: Uuid,
    /// The public key: SPKI in PEM, as `client.publicKey` of its receipts
    #[arg(long, value_name = "F")]
    key: PathBuf,
    /// A label
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
}

/// A key by its file or its fingerprint.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct KeySelector {
    /// The public key: SPKI in PEM
    #[arg(long, value_name = "F")]
    key: Option<PathBuf>,
    /// SHA-256 of its SPKI DER, as `receipts clients list` shows it
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<Fingerprint>,
}

/// Revoke a client's key
#[derive(Debug, clap::Args)]
#[command(after_help = REVOKE_HELP)]
struct Revoke {
    #[command(flatten)]
    settings: SettingsArgs,
    /// `client.id` of its receipts
    #[arg(value_name = "CLIENT_ID")]
    client: Uuid,
    #[command(flatten)]
    which: KeySelector,
    /// For what is received from this instant on [default: now]
    #[arg(long, value_name = "INSTANT")]
    from: Option<Timestamp>,
}

impl Clients {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        crate::runtime::block_on(async {
            match self.command {
                Command::List(list) => list.run().await,
                Command::Register(register) => register.run().await,
                Command::Revoke(revoke) => revoke.run().await,
            }
        })
    }
}

fn failure(error: AccountsError) -> CommandFailure {
    match error {
        AccountsError::Name | AccountsError::ClientKeyTooLong | AccountsError::TooManyClientKeys => {
            CommandFailure::input(error)
        }
        _ => CommandFailure::unavailable(error),
    }
}

/// A public key and its text.
fn read_key(path: &Path) -> Result<(Fingerprint, String), CommandFailure> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| CommandFailure::Input(format!("the key {shown} can't be opened: {e}")))?;
    let mut pem = String::new();
    file.take(PEM_BYTES_MAX)
        .read_to_string(&mut pem)
        .map_err(|e| CommandFailure::Input(format!("the key {shown} can't be read: {e}")))?;
    let key = PublicKey::from_pem(&pem).map_err(|e| {
        CommandFailure::Input(format!(
            "{shown} holds no public key in PEM that a receipt could carry: {e}"
        ))
    })?;
    Ok((Fingerprint(*key.fingerprint()), pem))
}

impl KeySelector {
    fn of(&self, client_id: Uuid) -> Result<ClientKey, CommandFailure> {
        let fingerprint = match (&self.key, self.fingerprint) {
            (Some(path), _) => read_key(path)?.0,
            (None, Some(fingerprint)) => fingerprint,
            (None, None) => return Err(CommandFailure::Input("give --key or --fingerprint".to_owned())),
        };
        Ok(ClientKey { client_id, fingerprint })
    }
}

impl Register {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let (fingerprint, pem) = read_key(&self.key)?;
        let client_id = self.client;
        let new = NewClientKey {
            key: ClientKey { client_id, fingerprint },
            pem,
            name: self.name,
        };
        let registered = with_store(&self.settings, async |accounts| {
            accounts.register_client_key(&new).await.map_err(failure)
        });
        report_change(
            registered.await?,
            format!("{fingerprint} is registered for client {client_id}"),
            format!("{fingerprint} was registered before for client {client_id}"),
        )
    }
}

impl Revoke {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let key = self.which.of(self.client)?;
        let from_ms = self.from.map_or_else(now_ms, Timestamp::as_millisecond);
        let revoked = with_store(&self.settings, async |accounts| {
            accounts.revoke_client_key(&key, from_ms).await.map_err(failure)
        });
        let ClientKey { client_id, fingerprint } = key;
        match revoked.await? {
            Revoked::Done => {
                let from = rfc3339_ms(from_ms);
                report(
                    format!("{fingerprint} is revoked for client {client_id} from {from} on"),
                    CommandOutcome::Good,
                )
            }
            Revoked::Before(from_ms) => {
                let from = rfc3339_ms(from_ms);
                report(
                    format!("{fingerprint} was revoked before for client {client_id}, from {from} on"),
                    CommandOutcome::Found,
                )
            }
            Revoked::Unknown => report(
                format!("client {client_id} has no key {fingerprint}"),
                CommandOutcome::Found,
            ),
        }
    }
}

impl List {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let client = self.client;
        let keys = with_store(&self.settings, async |accounts| {
            accounts.client_keys(client).await.map_err(failure)
        })
        .await?;
        let rows: Vec<ListedClientKey<'_>> = keys.iter().map(ListedClientKey::of).collect();
        let columns = ["clientId", "fingerprint", "state", "revokedFrom", "changedAt", "name"];
        let listed = listing::list(&rows, self.json, &columns);
        if !self.json && i64::try_from(keys.len()).unwrap_or(i64::MAX) >= CLIENTS_LISTED_MAX {
            note(paint(FAINT, "there may be more: --client ID shows one client's"));
        }
        listed
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedClientKey<'a> {
    client_id: Uuid,
    fingerprint: String,
    state: &'static str,
    revoked_from: Option<String>,
    changed_at: String,
    name: Option<&'a str>,
}

impl<'a> ListedClientKey<'a> {
    fn of(info: &'a ClientInfo) -> Self {
        let (state, revoked_from) = match info.state {
            ClientKeyState::Registered => ("registered", None),
            ClientKeyState::RevokedFrom(from_ms) => ("revoked", Some(rfc3339_ms(from_ms))),
        };
        Self {
            client_id: info.key.client_id,
            fingerprint: info.key.fingerprint.to_string(),
            state,
            revoked_from,
            changed_at: rfc3339_ms(info.changed_at_ms),
            name: (!info.name.is_empty()).then_some(&info.name),
        }
    }
}

//! `receipts operators add-key` and `end-key`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use accounts::KeySource;
use http_signatures::DirectoryKey;

use super::{ACTOR, OperatorArgs, failure, find_key, store_failure};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::terminal::report_change;

/// No public key of the three kinds is near this long.
const PEM_BYTES_MAX: u64 = 4 << 10;

const ADD_HELP: &str = "\
Receipts that arrive from now on and are signed with this key are the operator's. Without a key directory and without \
a request signed by the key, you vouch for its possession: be sure that the operator gave it to you. A key belongs to \
one operator at a time.

Examples:
  receipts operators add-key lab.example --key client.key.pub

Exit codes:
  0  the key is the operator's from now on
  1  the operator has the key already
  2  wrong usage, the file has no usable public key, or another operator has the key
  3  the account store is unavailable";

const END_HELP: &str = "\
Receipts that arrive from now on and are signed with this key are unproven. What arrived before stays proven. \
A key that is still in the operator's directory is added again by the next fetch, so the operator removes it there first.

Examples:
  receipts operators end-key lab.example \\
    kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k

Exit codes:
  0  the key isn't the operator's from now on
  1  its period ended before
  2  wrong usage, or the operator has never had this key
  3  the account store is unavailable";

/// Make a key an operator's from now on
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_HELP)]
pub(super) struct AddKey {
    #[command(flatten)]
    operator: OperatorArgs,
    /// The public key: SPKI in PEM, as `client.publicKey` of its receipts
    #[arg(long, value_name = "F")]
    key: PathBuf,
}

/// End the period of an operator's key now
#[derive(Debug, clap::Args)]
#[command(after_help = END_HELP)]
pub(super) struct EndKey {
    #[command(flatten)]
    operator: OperatorArgs,
    /// Thumbprint or fingerprint of the key, as `receipts operators show` lists them
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    key: String,
}

impl AddKey {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let key = publisher_api::operator_key(&read_key(&self.key)?, KeySource::Deployment);
        self.operator
            .with_operator(async |accounts, operator| {
                let added = accounts
                    .add_operator_key(operator, ACTOR, &key)
                    .await
                    .map_err(failure)?;
                let (thumbprint, domain) = (&key.thumbprint, &operator.domain);
                report_change(
                    added,
                    format!("{thumbprint} is a key of {domain} from now on"),
                    format!("{thumbprint} was a key of {domain} before"),
                )
            })
            .await
    }
}

impl EndKey {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        self.operator
            .with_operator(async |accounts, operator| {
                let key = find_key(accounts, operator, &self.key).await?.key;
                let ended = accounts.end_operator_key(operator, ACTOR, key.fingerprint).await;
                let (thumbprint, domain) = (&key.thumbprint, &operator.domain);
                report_change(
                    ended.map_err(store_failure)?,
                    format!("{thumbprint} is no key of {domain} from now on"),
                    format!("{thumbprint} wasn't a key of {domain} any more"),
                )
            })
            .await
    }
}

fn read_key(path: &Path) -> Result<DirectoryKey, CommandFailure> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| CommandFailure::Input(format!("the key {shown} can't be opened: {e}")))?;
    let mut pem = String::new();
    file.take(PEM_BYTES_MAX)
        .read_to_string(&mut pem)
        .map_err(|e| CommandFailure::Input(format!("the key {shown} can't be read: {e}")))?;
    DirectoryKey::from_pem(&pem)
        .map_err(|e| CommandFailure::Input(format!("{shown} has no public key that an operator could use: {e}")))
}

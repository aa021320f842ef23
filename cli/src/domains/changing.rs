//! `receipts domains add`, `revoke` and `transfer`.

use accounts::{Domain, TransferError};
use serde_json::json;

use super::{ACTOR, store_failure};
use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::SettingsArgs;
use crate::terminal::{report, report_change};

const ADD_HELP: &str = "\
The domain becomes the account's on your word, verified for a year by the method `local`. No key is made: the account's \
keys without a limit speak for it. A domain that the account has already stays its own, and your word is renewed.

Examples:
  receipts domains add blog.example \\
    --account acc_0192f0c1d2e37a4b8c5d6e7f80911223

Exit codes:
  0  the domain is the account's
  2  wrong usage, there is no such account, another one has the domain, or it has as many as it may have
  3  the account store is unavailable";

const REVOKE_HELP: &str = "\
The domain's verification ends now, and its open tokens with it. From then on it is anybody's who proves it. Running \
services notice within seconds.

Examples:
  receipts domains revoke news.example
  receipts domains revoke news.example --json

Exit codes:
  0  the domain is revoked from now on
  1  it was revoked or had expired before
  2  wrong usage, or no account has or had the domain
  3  the account store is unavailable";

const TRANSFER_HELP: &str = "\
The domain becomes the account's on your word, verified for a year by the method `local`: its published proof was the \
other account's. Both accounts are notified by e-mail. Entries stay with the account that made them.

Examples:
  receipts domains transfer news.example \\
    --to acc_0192f0c1d2e37a4b8c5d6e7f80911223

Exit codes:
  0  the domain is the account's from now on
  1  it was the account's before
  2  wrong usage, there is no such domain or account, or the account has as many domains as it may have
  3  the account store is unavailable";

/// Give a domain that nobody has to an account, without an API key
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_HELP)]
pub(super) struct AddDomain {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The domain
    #[arg(value_name = "DOMAIN")]
    domain: Domain,
    /// The account that gets it, as `receipts accounts list` shows it
    #[arg(long, value_name = "ACCOUNT_ID")]
    account: String,
    /// Write what was done as JSON
    #[arg(long)]
    json: bool,
}

/// End a domain's verification
#[derive(Debug, clap::Args)]
#[command(after_help = REVOKE_HELP)]
pub(super) struct Revoke {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The domain
    #[arg(value_name = "DOMAIN")]
    domain: Domain,
    /// Write what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Give a domain to another account
#[derive(Debug, clap::Args)]
#[command(after_help = TRANSFER_HELP)]
pub(super) struct Transfer {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The domain, as `receipts domains list` shows it
    #[arg(value_name = "DOMAIN")]
    domain: Domain,
    /// The account that gets it
    #[arg(long, value_name = "ACCOUNT_ID")]
    to: String,
    /// Write what was done as JSON
    #[arg(long)]
    json: bool,
}

impl AddDomain {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let (domain, account) = (&self.domain, &self.account);
        with_store(&self.settings, async |accounts| {
            accounts.add_domain(domain, account).await.map_err(store_failure)
        })
        .await?;
        if self.json {
            let done = json!({"domain": domain.as_str(), "accountId": account});
            return report(done, CommandOutcome::Good);
        }
        let done = format!("{domain} is the account {account}'s, verified for a year on your word");
        report(done, CommandOutcome::Good)
    }
}

impl Revoke {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let domain = &self.domain;
        let (account, revoked) = with_store(&self.settings, async |accounts| {
            let account = accounts.account_of(domain).await.map_err(store_failure)?;
            let account = account.ok_or_else(|| {
                CommandFailure::Input(format!(
                    "no account has {domain}: `receipts domains list` shows all domains"
                ))
            })?;
            let revoked = accounts.revoke_verification(&account, ACTOR, domain).await;
            Ok((account, revoked.map_err(store_failure)?))
        })
        .await?;
        if self.json {
            let done = json!({"domain": domain.as_str(), "accountId": account, "revoked": revoked});
            return report(done, CommandOutcome::of(revoked));
        }
        report_change(
            revoked,
            format!("{domain} isn't the account {account}'s any more"),
            format!("{domain}: its verification had ended before"),
        )
    }
}

impl Transfer {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let (domain, to) = (&self.domain, &self.to);
        let moved = with_store(&self.settings, async |accounts| {
            let moved = accounts.transfer_domain(domain, to, ACTOR).await;
            moved.map_err(|error| match error {
                TransferError::Store(error) => store_failure(error),
                refused => CommandFailure::input(refused),
            })
        })
        .await?;
        if self.json {
            let done = json!({"domain": domain.as_str(), "accountId": to, "transferred": moved});
            return report(done, CommandOutcome::of(moved));
        }
        report_change(
            moved,
            format!("{domain} is the account {to}'s now, verified for a year on your word"),
            format!("{domain} was the account {to}'s before"),
        )
    }
}

//! `receipts login-link`: a link that signs a person in, once, without an identity provider.

use std::net::IpAddr;

use accounts::{AccountRole, Accounts};
use http::Uri;
use serde_json::json;

use crate::account_store::open;
use crate::data_dir::Addresses;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::Output;

const AFTER_HELP: &str = "\
Whoever opens the link and presses its button is signed in to the account: give it to that person alone. It works once, \
within 15 minutes. Without --account it is for the only account there is, or makes the first one. The link begins with \
publisher.public_url, or with the address of the `receipts up` that runs on --data. Browsers keep a session only over \
HTTPS, or at a loopback address.

Examples:
  receipts login-link
  receipts login-link --account acc_018f3f3c7f2e7cc08b6a2f6d1c7e9a10
  receipts login-link --account acc_018f3f3c7f2e7cc08b6a2f6d1c7e9a10 \\
    --role reader --json

Exit codes:
  0  the link is written to standard output
  2  wrong usage, there is no such account, or there are several and none is named
  3  the account store is unavailable";

/// Print a link that signs a person in to the dashboard, once
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct LoginLinkCommand {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The account (acc_...) [default: the only one, or a new one if there is none]
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// Role of whoever uses the link: owner, editor or reader
    #[arg(long, value_name = "ROLE", default_value = "owner")]
    role: AccountRole,
    /// Write the link as JSON
    #[arg(long)]
    json: bool,
}

impl LoginLinkCommand {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let settings = self.settings.load()?;
        let link = crate::runtime::on_this_thread()?.block_on(async {
            let accounts = open(&settings).await?;
            let made = self.make(&settings, &accounts).await;
            accounts.close().await;
            made
        })?;
        let mut out = Output::stdout();
        match self.json {
            true => out.line(json!({"link": link, "role": self.role.as_str()}))?,
            false => out.line(link)?,
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }

    async fn make(&self, settings: &Settings, accounts: &Accounts) -> Result<String, CommandFailure> {
        let account = match &self.account {
            Some(account) => Some(account.clone()),
            None => only_account(accounts).await?.map_err(|count| {
                CommandFailure::Input(format!(
                    "there are {count} accounts: name one with --account; `receipts accounts list` shows them"
                ))
            })?,
        };
        if account.is_none() && self.role != AccountRole::Owner {
            let what = "there is no account yet, and whoever makes the first one owns it: leave --role out";
            return Err(CommandFailure::Input(what.to_owned()));
        }
        let base = settings.publisher.public_url.clone().unwrap_or_else(|| {
            let running = std::fs::read(settings.data.addresses()).ok();
            let running: Option<Addresses> = running.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let listen = settings.publisher.listen.unwrap_or(settings.gateway.listen);
            running.map_or_else(|| format!("http://{listen}"), |running| running.publisher)
        });
        link(accounts, account.as_deref(), self.role, &base).await
    }
}

/// The only account; `Ok(None)` if there is none, and their number if there are several.
///
/// # Errors
/// The store fails.
pub(crate) async fn only_account(accounts: &Accounts) -> Result<Result<Option<String>, usize>, CommandFailure> {
    let listed = accounts.list_accounts().await.map_err(CommandFailure::unavailable)?;
    Ok(match &listed[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.account_id.clone())),
        several => Err(several.len()),
    })
}

/// A new login link below the base URL of the publisher API.
///
/// # Errors
/// There is no such account, or the store fails.
pub(crate) async fn link(
    accounts: &Accounts,
    account: Option<&str>,
    role: AccountRole,
    base: &str,
) -> Result<String, CommandFailure> {
    let made = accounts.create_login_link(account, role).await;
    let token = made.map_err(|error| match error {
        accounts::AccountsError::UnknownAccount(_) => CommandFailure::input(error),
        other => CommandFailure::unavailable(other),
    })?;
    Ok(format!("{}/api/v1/auth/link/{}", browsable(base), token.reveal()))
}

/// The URL as a browser on this machine opens it: an address of all interfaces is none to go to.
fn browsable(base: &str) -> String {
    let host = base.parse::<Uri>().ok().and_then(|url| Some(url.host()?.to_owned()));
    let host = host.unwrap_or_default();
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => base.replacen(&host, "127.0.0.1", 1),
        _ => base.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_all_interfaces_is_opened_on_this_machine() {
        for (base, expected) in [
            ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("http://[::]:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("https://receipts.example", "https://receipts.example"),
        ] {
            assert_eq!(browsable(base), expected);
        }
    }
}

//! `receipts domains list` and `show`.

use accounts::{Domain, OwnedDomain, Verification};
use serde::Serialize;
use service::instant::{now_ms, rfc3339_ms};

use super::store_failure;
use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::listing;
use crate::settings::SettingsArgs;

const LIST_HELP: &str = "\
Every domain with its account, how it was verified, and its state: verified, suspended, expired or revoked. A domain \
that another account has proven too names it in `contestedBy`.

Examples:
  receipts domains list
  receipts domains list --account acc_0192f0c1d2e37a4b8c5d6e7f80911223
  receipts domains list --json |
    jq -r '.[] | select(.state == \"suspended\") | .domain'

Exit codes:
  0  ok
  2  wrong usage
  3  the account store is unavailable";

const SHOW_HELP: &str = "\
A domain's account, its verification, the next check of its published proof, and the other account that has proven it too, \
if there is one.

Examples:
  receipts domains show news.example
  receipts domains show news.example --json | jq -r .accountId

Exit codes:
  0  ok
  2  wrong usage, or no account has or had the domain
  3  the account store is unavailable";

/// Members in a table.
pub(crate) const COLUMNS: &[&str] = &["domain", "accountId", "state", "method", "expiresAt", "contestedBy"];

/// List domains
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct List {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Only this account's
    #[arg(long, value_name = "ACCOUNT_ID")]
    account: Option<String>,
    /// Write the domains as JSON
    #[arg(long)]
    json: bool,
}

/// Show a domain with its proof and who contests it
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct Show {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The domain
    #[arg(value_name = "DOMAIN")]
    domain: Domain,
    /// Write the domain as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let domains = with_store(&self.settings, async |accounts| {
            let domains = accounts.owned_domains(self.account.as_deref());
            domains.await.map_err(store_failure)
        })
        .await?;
        let rows: Vec<ShownDomain<'_>> = domains.iter().map(ShownDomain::of).collect();
        listing::list(&rows, self.json, COLUMNS)
    }
}

impl Show {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let domain = &self.domain;
        let found = with_store(&self.settings, async |accounts| {
            accounts.owned_domain(domain).await.map_err(store_failure)
        })
        .await?;
        let found = found.ok_or_else(|| {
            CommandFailure::Input(format!(
                "no account has {domain}: `receipts domains list` shows all domains"
            ))
        })?;
        listing::show(&ShownDomain::of(&found), self.json, &[])
    }
}

/// A domain for people and programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownDomain<'a> {
    domain: &'a str,
    account_id: &'a str,
    state: &'static str,
    method: &'a str,
    verification_id: &'a str,
    include_subdomains: bool,
    verified_at: String,
    /// When the verification ends by itself, suspended or not.
    expires_at: String,
    suspended_at: Option<String>,
    revoked_at: Option<String>,
    proof_failures: i64,
    proof_next_check_at: Option<String>,
    contested_by: Option<&'a str>,
}

impl<'a> ShownDomain<'a> {
    pub(crate) fn of(owned: &'a OwnedDomain) -> Self {
        let verification = &owned.verification;
        let suspended_end_ms = verification.suspended_expires_at_ms;
        Self {
            domain: &verification.domain,
            account_id: &owned.account_id,
            state: state(verification),
            method: &verification.method,
            verification_id: &verification.id,
            include_subdomains: verification.include_subdomains,
            verified_at: rfc3339_ms(verification.verified_at_ms),
            expires_at: rfc3339_ms(suspended_end_ms.unwrap_or(verification.expires_at_ms)),
            suspended_at: suspended_end_ms.map(|_| rfc3339_ms(verification.expires_at_ms)),
            revoked_at: verification.revoked_at_ms.map(rfc3339_ms),
            proof_failures: verification.proof_failures,
            proof_next_check_at: owned.proof_next_at_ms.map(rfc3339_ms),
            contested_by: owned.contested_by.as_deref(),
        }
    }
}

fn state(verification: &Verification) -> &'static str {
    let now_ms = now_ms();
    if verification.revoked_at_ms.is_some() {
        "revoked"
    } else if verification.holds(now_ms) {
        "verified"
    } else if verification.is_suspended(now_ms) {
        "suspended"
    } else {
        "expired"
    }
}

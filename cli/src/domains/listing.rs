//! `receipts domains list` and `show`.

use accounts::{Domain, OwnedDomain};
use serde_json::{Value, json};
use service::instant::{now_ms, rfc3339_ms};

use super::store_failure;
use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::SettingsArgs;
use crate::terminal::{BAD, GOOD, HEAD, Output, WARN, paint, report_list, visible};

const LIST_HELP: &str = "\
Every domain with its account, how it was verified, and its state: verified, suspended, expired or revoked. A domain \
that another account has proven too is marked as contested.

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
        let heading = format!("{:<37} {:<7} domain", "account", "method");
        report_list(&domains, self.json, to_json, heading, line)
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
        let mut out = Output::stdout();
        if self.json {
            out.line(to_json(&found))?;
        } else {
            for line in lines(&found) {
                out.line(line)?;
            }
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}

/// A domain in a list. What is stored may be older than today's checks, so a terminal gets it
/// escaped.
fn line(one: &OwnedDomain) -> String {
    let (account, method) = (visible(&one.account_id), visible(&one.verification.method));
    let domain = visible(&one.verification.domain);
    format!("{account:<37} {method:<7} {domain}  {}", state_text(one))
}

fn lines(one: &OwnedDomain) -> Vec<String> {
    let verification = &one.verification;
    let below = if verification.include_subdomains {
        ", with subdomains"
    } else {
        ""
    };
    let domain = paint(HEAD, visible(&verification.domain));
    let (method, id) = (visible(&verification.method), visible(&verification.id));
    let since = rfc3339_ms(verification.verified_at_ms);
    let proof = match one.proof_next_at_ms {
        Some(at_ms) => format!(
            "checked next {}, missing in the last {} checks",
            rfc3339_ms(at_ms),
            verification.proof_failures
        ),
        None => "none that could be checked again".to_owned(),
    };
    let mut lines = vec![
        format!("domain    {domain}{below}  {}", state_text(one)),
        format!("account   {}", visible(&one.account_id)),
        format!("verified  by {method} since {since} ({id})"),
        format!("until     {}", rfc3339_ms(end_ms(one))),
        format!("proof     {proof}"),
    ];
    if let Some(account) = &one.contested_by {
        lines.push(format!("contested by {}, which has proven it too", visible(account)));
    }
    lines
}

/// When the verification ends by itself, suspended or not.
pub(crate) fn end_ms(one: &OwnedDomain) -> i64 {
    let verification = &one.verification;
    verification
        .suspended_expires_at_ms
        .unwrap_or(verification.expires_at_ms)
}

fn state(one: &OwnedDomain) -> &'static str {
    let (verification, now_ms) = (&one.verification, now_ms());
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

/// The state of a domain, in colours.
pub(crate) fn state_text(one: &OwnedDomain) -> String {
    let style = match state(one) {
        "verified" => GOOD,
        "expired" => WARN,
        _ => BAD,
    };
    let contested = one.contested_by.as_ref().map_or("", |_| ", contested");
    format!("{}{}", paint(style, state(one)), paint(WARN, contested))
}

/// The domain as JSON, as `--json` shows it.
pub(crate) fn to_json(one: &OwnedDomain) -> Value {
    let verification = &one.verification;
    let suspended_at_ms = verification.suspended_expires_at_ms.map(|_| verification.expires_at_ms);
    json!({
        "domain": verification.domain,
        "accountId": one.account_id,
        "state": state(one),
        "method": verification.method,
        "verificationId": verification.id,
        "includeSubdomains": verification.include_subdomains,
        "verifiedAt": rfc3339_ms(verification.verified_at_ms),
        "expiresAt": rfc3339_ms(end_ms(one)),
        "suspendedAt": suspended_at_ms.map(rfc3339_ms),
        "revokedAt": verification.revoked_at_ms.map(rfc3339_ms),
        "proofFailures": verification.proof_failures,
        "proofNextCheckAt": one.proof_next_at_ms.map(rfc3339_ms),
        "contestedBy": one.contested_by,
    })
}

#[cfg(test)]
mod tests {
    use accounts::Verification;

    use super::*;

    #[test]
    fn nothing_that_is_stored_controls_a_terminal() {
        let evil = "\u{1b}[2Jx\u{202e}\n".to_owned();
        let one = OwnedDomain {
            account_id: evil.clone(),
            verification: Verification {
                domain: evil.clone(),
                method: evil.clone(),
                id: evil.clone(),
                include_subdomains: true,
                verified_at_ms: 0,
                expires_at_ms: i64::MAX,
                revoked_at_ms: None,
                suspended_expires_at_ms: None,
                proof_failures: 0,
                is_contested: true,
            },
            proof_next_at_ms: None,
            contested_by: Some(evil),
        };
        let shown = [vec![line(&one)], lines(&one)].concat();
        assert_eq!(shown.len(), 7);
        for line in shown {
            assert!(
                !line.contains("\u{1b}[2J") && !line.contains(['\u{202e}', '\n']),
                "{line:?}"
            );
        }
    }
}

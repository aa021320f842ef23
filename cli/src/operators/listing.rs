//! `receipts operators list`, `show` and `create`.

use accounts::{Domain, Operator, OperatorKey};
use serde_json::{Value, json};
use service::instant::rfc3339_ms;
use uuid::Uuid;

use super::{ACTOR, OperatorArgs, failure, store_failure};
use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::SettingsArgs;
use crate::terminal::{BAD, FAINT, GOOD, HEAD, Output, WARN, paint, report, report_list, visible};

const LIST_HELP: &str = "\
Examples:
  receipts operators list
  receipts operators list --json |
    jq -r '.[] | select(.directory.failure != null) | .domain'

Exit codes:
  0  ok
  2  wrong usage
  3  the account store is unavailable";

const SHOW_HELP: &str = "\
An operator's state, the state of its key directory, its keys with their periods, and the client IDs that it claims.

Examples:
  receipts operators show lab.example
  receipts operators show lab.example --json

Exit codes:
  0  ok
  2  wrong usage, or there is no such operator
  3  the account store is unavailable";

const CREATE_HELP: &str = "\
The account that has verified the domain becomes an AI operator. From then on its key directory, \
https://DOMAIN/.well-known/http-message-signatures-directory, is fetched, and receipts signed with a key from it are \
proven. An operator that exists is shown.

Examples:
  receipts operators create lab.example
  receipts operators create lab.example --json

Exit codes:
  0  the operator exists
  2  wrong usage, or no account has verified the domain
  3  the account store is unavailable";

/// List AI operators
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct List {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Only this account's
    #[arg(long, value_name = "ACCOUNT_ID")]
    account: Option<String>,
    /// Write the operators as JSON
    #[arg(long)]
    json: bool,
}

/// Show an operator with its keys and claimed client IDs
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct Show {
    #[command(flatten)]
    operator: OperatorArgs,
    /// Write the operator as JSON
    #[arg(long)]
    json: bool,
}

/// Make the account of a verified domain an operator
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_HELP)]
pub(super) struct Create {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The domain, which an account has verified
    #[arg(value_name = "DOMAIN")]
    domain: Domain,
    /// Write the operator as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let operators = with_store(&self.settings, async |accounts| {
            let operators = accounts.operators(self.account.as_deref());
            operators.await.map_err(store_failure)
        })
        .await?;
        let heading = format!("{:<37} {:<37} domain", "operator", "account");
        report_list(&operators, self.json, to_json, heading, |operator| {
            let (id, account, domain) = (operator.id, &operator.account_id, &operator.domain);
            format!("{id:<37} {account:<37} {domain}  {}", proof(operator))
        })
    }
}

impl Show {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let (operator, keys, clients) = self
            .operator
            .with_operator(async |accounts, operator| {
                let keys = accounts.operator_keys(operator).await.map_err(store_failure)?;
                let clients = accounts.operator_clients(operator).await.map_err(store_failure)?;
                Ok((operator.clone(), keys, clients))
            })
            .await?;
        let mut out = Output::stdout();
        if self.json {
            let mut shown = to_json(&operator);
            shown["keys"] = keys.iter().map(key_to_json).collect();
            shown["clientIds"] = json!(clients);
            out.line(shown)?;
        } else {
            show(&mut out, &operator, &keys, &clients)?;
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}

impl Create {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let domain = &self.domain;
        let operator = with_store(&self.settings, async |accounts| {
            let account = accounts.domain_account(domain).await.map_err(store_failure)?;
            let account = account.ok_or_else(|| {
                CommandFailure::Input(format!(
                    "no account has verified {domain}: its owner does so through the API, or \
                     `receipts keys create --domain {domain}` vouches for it"
                ))
            })?;
            accounts.create_operator(&account, ACTOR, domain).await.map_err(failure)
        })
        .await?;
        if self.json {
            return report(to_json(&operator), CommandOutcome::Good);
        }
        report(format!("{domain} is operator {}", operator.id), CommandOutcome::Good)
    }
}

fn show(out: &mut Output, operator: &Operator, keys: &[OperatorKey], clients: &[Uuid]) -> Result<(), CommandFailure> {
    out.line(format_args!("operator   {}", paint(HEAD, operator.id)))?;
    out.line(format_args!("domain     {}  {}", operator.domain, proof(operator)))?;
    out.line(format_args!("account    {}", operator.account_id))?;
    let directory = &operator.directory;
    let fetched = instant(directory.fetched_at_ms).unwrap_or_else(|| "never".to_owned());
    let next = rfc3339_ms(directory.next_at_ms);
    out.line(format_args!("directory  fetched {fetched}, next fetch {next}"))?;
    if !directory.failure.is_empty() {
        out.line(format_args!("           {}", paint(WARN, visible(&directory.failure))))?;
    }
    for period in keys {
        let (thumbprint, from) = (&period.key.thumbprint, rfc3339_ms(period.from_ms));
        let (algorithm, source) = (&period.key.algorithm, period.key.source.as_str());
        let state = match period.until_ms {
            None => paint(GOOD, format!("from {from}")),
            Some(until_ms) => paint(FAINT, format!("from {from} until {}", rfc3339_ms(until_ms))),
        };
        out.line(format_args!("key        {thumbprint} {algorithm} {source} {state}"))?;
    }
    for client in clients {
        out.line(format_args!("client     {client}"))?;
    }
    Ok(())
}

fn proof(operator: &Operator) -> String {
    if operator.is_domain_proven {
        paint(GOOD, "proven")
    } else {
        paint(BAD, "the domain's verification has ended: nothing is proven")
    }
}

/// The text of an instant; `None` for 0, which is no instant.
fn instant(at_ms: i64) -> Option<String> {
    (at_ms > 0).then(|| rfc3339_ms(at_ms))
}

fn to_json(operator: &Operator) -> Value {
    let directory = &operator.directory;
    json!({
        "operatorId": operator.id,
        "accountId": operator.account_id,
        "domain": operator.domain,
        "domainProven": operator.is_domain_proven,
        "createdAt": rfc3339_ms(operator.created_at_ms),
        "directory": {
            "fetchedAt": instant(directory.fetched_at_ms),
            "nextFetchAt": rfc3339_ms(directory.next_at_ms),
            "failure": (!directory.failure.is_empty()).then_some(&directory.failure),
        },
    })
}

fn key_to_json(period: &OperatorKey) -> Value {
    json!({
        "thumbprint": period.key.thumbprint,
        "fingerprint": period.key.fingerprint.to_string(),
        "algorithm": period.key.algorithm,
        "source": period.key.source.as_str(),
        "from": rfc3339_ms(period.from_ms),
        "until": period.until_ms.map(rfc3339_ms),
        "publicKey": period.key.pem,
    })
}

//! `receipts operators list`, `show` and `create`.

use accounts::{Domain, Operator, OperatorKey};
use serde::Serialize;
use service::instant::rfc3339_ms;
use uuid::Uuid;

use super::{ACTOR, OperatorArgs, failure, store_failure};
use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::listing;
use crate::settings::SettingsArgs;
use crate::terminal::report;

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
        let rows: Vec<ShownOperator<'_>> = operators.iter().map(ShownOperator::of).collect();
        let columns = ["domain", "operatorId", "accountId", "domainProven", "createdAt"];
        listing::list(&rows, self.json, &columns)
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
        let shown = OperatorWithKeys {
            operator: ShownOperator::of(&operator),
            client_ids: &clients,
            keys: keys.iter().map(ShownKey::of).collect(),
        };
        let columns = ["thumbprint", "algorithm", "source", "from", "until"];
        listing::show(&shown, self.json, &[("keys", &columns)])
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
            return report(listing::to_json(&ShownOperator::of(&operator))?, CommandOutcome::Good);
        }
        report(format!("{domain} is operator {}", operator.id), CommandOutcome::Good)
    }
}

/// An operator for people and programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownOperator<'a> {
    operator_id: Uuid,
    account_id: &'a str,
    domain: &'a str,
    /// Whether the domain's verification holds: otherwise nothing is proven.
    domain_proven: bool,
    created_at: String,
    directory: ShownDirectory<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownDirectory<'a> {
    fetched_at: Option<String>,
    next_fetch_at: String,
    failure: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperatorWithKeys<'a> {
    #[serde(flatten)]
    operator: ShownOperator<'a>,
    client_ids: &'a [Uuid],
    keys: Vec<ShownKey<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownKey<'a> {
    thumbprint: &'a str,
    fingerprint: String,
    algorithm: &'a str,
    source: &'static str,
    from: String,
    until: Option<String>,
    public_key: &'a str,
}

impl<'a> ShownOperator<'a> {
    fn of(operator: &'a Operator) -> Self {
        let directory = &operator.directory;
        Self {
            operator_id: operator.id,
            account_id: &operator.account_id,
            domain: &operator.domain,
            domain_proven: operator.is_domain_proven,
            created_at: rfc3339_ms(operator.created_at_ms),
            directory: ShownDirectory {
                // 0 is no instant.
                fetched_at: (directory.fetched_at_ms > 0).then(|| rfc3339_ms(directory.fetched_at_ms)),
                next_fetch_at: rfc3339_ms(directory.next_at_ms),
                failure: (!directory.failure.is_empty()).then_some(&directory.failure),
            },
        }
    }
}

impl<'a> ShownKey<'a> {
    fn of(period: &'a OperatorKey) -> Self {
        let key = &period.key;
        Self {
            thumbprint: &key.thumbprint,
            fingerprint: key.fingerprint.to_string(),
            algorithm: &key.algorithm,
            source: key.source.as_str(),
            from: rfc3339_ms(period.from_ms),
            until: period.until_ms.map(rfc3339_ms),
            public_key: &key.pem,
        }
    }
}

//! `receipts keys`: a publisher's API keys.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use accounts::{Accounts, AccountsError, Domain, KeyInfo, Lifetime, NewKey, PublisherKey, Revocation, Scope, Tier};
use serde_json::{Value, json};
use service::instant::now_ms;

use crate::account_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::SettingsArgs;
use crate::terminal::{BAD, FAINT, GOOD, HEAD, Output, WARN, paint, visible};

/// Actor in the audit trail.
const OPERATOR: &str = "operator";
/// Domains of a key in a list.
const DOMAINS_SHOWN: usize = 3;

const CREATE_HELP: &str = "\
A new domain gets an account of tier free and is recorded as verified for a year. For a domain that an account owns, \
name that account with --account: the key then speaks for all of its domains, and a domain that was proven keeps its \
proof. The tier limits the number of active keys. Works while `receipts up` runs, and when it doesn't. The key is shown \
once: only a hash is stored.

Examples:
  receipts keys create --domain news.example
  receipts keys create --domain news.example \\
    --account acc_0192f0c1d2e37a4b8c5d6e7f80911223
  receipts keys create --domain news.example --limited \\
    --account acc_0192f0c1d2e37a4b8c5d6e7f80911223
  receipts keys create --domain news.example --domain blog.example \\
    --tier pro --scope read,write --expires 30d
  receipts keys create --domain news.example --scope read,erase \\
    --expires 1d --name erasures
  KEY=$(receipts keys create --domain news.example --json | jq -r .apiKey)

Exit codes:
  0  the key is made
  2  wrong usage, the key can't be made as asked, or it can't be written out and was revoked
  3  the account store is unavailable";

const LIST_HELP: &str = "\
A key speaks for the verified domains of its account, or only for some of them where it is limited.

Examples:
  receipts keys list
  receipts keys list --json | jq -r '.[].keyId'

Exit codes:
  0  ok
  2  wrong usage
  3  the account store is unavailable";

const REVOKE_HELP: &str = "\
Examples:
  receipts keys revoke 0123456789abcdef

Exit codes:
  0  the key is revoked from now on
  1  there is no such key, or it was revoked before
  2  wrong usage
  3  the account store is unavailable";

/// Create, list and revoke publishers' API keys
#[derive(Debug, clap::Args)]
pub struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Make an API key for a publisher
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_HELP)]
struct Create {
    #[command(flatten)]
    settings: SettingsArgs,
    /// A domain the key speaks for; may be given several times
    #[arg(long, value_name = "D", required = true)]
    domain: Vec<Domain>,
    /// Limit the key to these domains; without it the key speaks for all of the account's
    #[arg(long)]
    limited: bool,
    /// The account that the key is for: required if it owns one of the domains [default: a new
    /// account]
    #[arg(long, value_name = "ACCOUNT_ID")]
    account: Option<String>,
    /// Tier of the account from now on, as `receipts accounts set-tier` sets it: free, pro or
    /// enterprise [default: as it is, free for a new account]
    #[arg(long, value_name = "T")]
    tier: Option<Tier>,
    /// Permissions of the key: read, write, erase; none includes another
    #[arg(long, value_name = "read,write,erase", default_value = "read", value_delimiter = ',')]
    scope: Vec<Scope>,
    /// Life of the key: 12h, 30d, 8w, 1y
    #[arg(long, value_name = "TIME", default_value = "1y")]
    expires: Lifetime,
    /// A label
    #[arg(long, value_name = "TEXT", default_value = "receipts keys create")]
    name: String,
    /// Write the key as JSON
    #[arg(long)]
    json: bool,
}

/// List all API keys, newest first; secrets aren't stored
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Write the keys as JSON
    #[arg(long)]
    json: bool,
}

/// Revoke an API key
#[derive(Debug, clap::Args)]
#[command(after_help = REVOKE_HELP)]
struct Revoke {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The key's id, as `receipts keys list` shows it
    #[arg(value_name = "KEY_ID")]
    key_id: String,
}

impl Keys {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        crate::runtime::block_on(async {
            match self.command {
                Command::Create(create) => create.run().await,
                Command::List(list) => list.run().await,
                Command::Revoke(revoke) => revoke.run().await,
            }
        })
    }
}

async fn open(settings: &SettingsArgs) -> Result<Accounts, CommandFailure> {
    account_store::open(&settings.load()?).await
}

/// A wish that can't be met is the user's; anything else the store's.
fn failure(error: AccountsError) -> CommandFailure {
    match error {
        AccountsError::DomainCount
        | AccountsError::NoScope
        | AccountsError::ExpiryInThePast
        | AccountsError::Name
        | AccountsError::DifferentAccounts(_)
        | AccountsError::DomainOwned { .. }
        | AccountsError::UnknownAccount(_)
        | AccountsError::KeyDomain(_)
        | AccountsError::KeyDomainCount
        | AccountsError::TooManyKeys { .. } => CommandFailure::input(error),
        _ => CommandFailure::unavailable(error),
    }
}

impl Create {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let accounts = open(&self.settings).await?;
        let new = NewKey {
            domains: self.domain,
            account_id: self.account,
            tier: self.tier,
            is_limited: self.limited,
            name: self.name,
            scopes: self.scope,
            expires_at_ms: self.expires.end_ms(now_ms()),
        };
        let issued = accounts.create_publisher_key(new).await.map_err(failure);
        let answer = match issued {
            Ok(made) => match show(&made, self.json) {
                Ok(()) => Ok(CommandOutcome::Good),
                Err(unshown) => Err(take_back(&accounts, &made.issued.key_id, &unshown).await),
            },
            Err(failure) => Err(failure),
        };
        accounts.close().await;
        answer
    }
}

fn show(made: &PublisherKey, as_json: bool) -> Result<(), CommandFailure> {
    let mut out = Output::stdout();
    if as_json {
        out.line(made_json(made))?;
    } else {
        let hint = "shown only now; only a hash is stored";
        out.line(format_args!(
            "API key  {}  {}",
            paint(HEAD, &made.issued.api_key),
            paint(FAINT, hint)
        ))?;
        let (domains, tier) = (made.domains.join(", "), made.tier);
        let (scopes, expires) = (words(&made.issued.scopes), day(made.issued.expires_at_ms));
        let limited = if made.issued.domains.is_some() { " only" } else { "" };
        out.line(format_args!(
            "for      {domains}{limited}, {tier}, {scopes}, until {expires}"
        ))?;
    }
    out.flush()
}

/// Revokes a key that nobody was shown: it could never be used, and would count among the account's
/// keys.
async fn take_back(accounts: &Accounts, key_id: &str, unshown: &CommandFailure) -> CommandFailure {
    match accounts.revoke_key(None, key_id, OPERATOR).await {
        Ok(_) => CommandFailure::Input(format!("{unshown}; key {key_id} was made, not shown, and so revoked")),
        Err(error) => CommandFailure::Unavailable(format!(
            "{unshown}; key {key_id} was made and not shown, and can't be revoked now ({error}): run `receipts keys revoke {key_id}`"
        )),
    }
}

impl List {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let accounts = open(&self.settings).await?;
        let listed = listed(&accounts).await.map_err(failure);
        accounts.close().await;
        let keys = listed?;
        let mut out = Output::stdout();
        if self.json {
            out.line(Value::Array(keys.iter().map(ListedKey::to_json).collect()))?;
        } else {
            for line in table(&keys) {
                out.line(line)?;
            }
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}

impl Revoke {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let accounts = open(&self.settings).await?;
        let revoked = accounts.revoke_key(None, &self.key_id, OPERATOR).await.map_err(failure);
        accounts.close().await;
        let mut out = Output::stdout();
        if revoked? == Revocation::Done {
            out.line(format_args!("{} is revoked", self.key_id))?;
            out.flush()?;
            return Ok(CommandOutcome::Good);
        }
        out.line(format_args!("{}: no such key that isn't revoked already", self.key_id))?;
        out.flush()?;
        Ok(CommandOutcome::Found)
    }
}

fn words(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
}

fn instant(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |at| format!("{at:.3}"))
}

fn day(ms: i64) -> String {
    instant(ms).chars().take(10).collect()
}

fn made_json(made: &PublisherKey) -> Value {
    let issued = &made.issued;
    json!({
        "apiKey": issued.api_key,
        "keyId": issued.key_id,
        "accountId": issued.account_id,
        "domains": made.domains,
        "limited": issued.domains.is_some(),
        "tier": made.tier.as_str(),
        "scope": issued.scopes,
        "expiresAt": instant(issued.expires_at_ms),
    })
}

/// A key with what its account gives it.
struct ListedKey {
    key: KeyInfo,
    tier: Option<Tier>,
    /// Domains that the key is limited to; otherwise the account's verified ones.
    domains: Vec<String>,
}

/// The keys with tier and domains of their accounts.
async fn listed(accounts: &Accounts) -> Result<Vec<ListedKey>, AccountsError> {
    let mut owners: HashMap<String, (Option<Tier>, Vec<String>)> = HashMap::new();
    let mut listed = Vec::new();
    for key in accounts.list_keys().await? {
        let (tier, domains) = match owners.entry(key.account_id.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(owner(accounts, &key.account_id).await?),
        };
        listed.push(ListedKey {
            tier: *tier,
            domains: key.domains.as_ref().unwrap_or(domains).clone(),
            key,
        });
    }
    Ok(listed)
}

/// Tier and verified domains of an account.
async fn owner(accounts: &Accounts, account_id: &str) -> Result<(Option<Tier>, Vec<String>), AccountsError> {
    let tier = accounts.account(account_id).await?.map(|account| account.tier);
    let owned = accounts.owned_domains(Some(account_id)).await?;
    let verified = owned.into_iter().map(|owned| owned.verification);
    let verified = verified.filter(|verification| verification.holds(now_ms()));
    Ok((tier, verified.map(|verification| verification.domain).collect()))
}

/// The keys for people, below a heading.
fn table(keys: &[ListedKey]) -> Vec<String> {
    let rows: Vec<[String; 2]> = keys
        .iter()
        .map(|key| [key.domains_text(), visible(&key.key.name)])
        .collect();
    let width = |column: usize, heading: &str| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default().max(heading.len())
    };
    let (domain_columns, name_columns) = (width(0, "domains"), width(1, "name"));
    let heading = format!(
        "{:<18} {:<10} {:<16} {:<10} {:<10} {:<18} {:<domain_columns$} {:<name_columns$} account",
        "key", "tier", "scope", "made", "until", "state", "domains", "name"
    );
    let lines = keys.iter().zip(&rows).map(|(listed, [domains, name])| {
        let key = &listed.key;
        let (style, state) = match key.revoked_at_ms {
            Some(at) => (BAD, format!("revoked {}", day(at))),
            None if key.expires_at_ms <= now_ms() => (WARN, "expired".to_owned()),
            None => (GOOD, "valid".to_owned()),
        };
        let (id, scopes, account) = (&key.key_id, words(&key.scopes), visible(&key.account_id));
        let (made, until) = (day(key.created_at_ms), day(key.expires_at_ms));
        let (tier, state) = (listed.tier_text(), paint(style, format_args!("{state:<18}")));
        format!(
            "{id:<18} {tier:<10} {scopes:<16} {made} {until} {state} {domains:<domain_columns$} {name:<name_columns$} {account}"
        )
    });
    std::iter::once(paint(HEAD, heading)).chain(lines).collect()
}

impl ListedKey {
    fn tier_text(&self) -> &'static str {
        self.tier.map_or("-", Tier::as_str)
    }

    /// The first domains, and the number of the others.
    fn domains_text(&self) -> String {
        let shown = &self.domains[..self.domains.len().min(DOMAINS_SHOWN)];
        let mut text = match shown.is_empty() {
            true => "none verified".to_owned(),
            false => visible(&shown.join(",")),
        };
        if self.domains.len() > shown.len() {
            text += &format!(" +{}", self.domains.len() - shown.len());
        }
        if self.key.domains.is_some() {
            text += " only";
        }
        text
    }

    fn to_json(&self) -> Value {
        let key = &self.key;
        json!({
            "keyId": key.key_id,
            "accountId": key.account_id,
            "tier": self.tier.map(Tier::as_str),
            "name": key.name,
            "scope": key.scopes,
            "domains": self.domains,
            "limited": key.domains.is_some(),
            "createdAt": instant(key.created_at_ms),
            "expiresAt": instant(key.expires_at_ms),
            "revokedAt": key.revoked_at_ms.map(instant),
            "replacedBy": key.replaced_by,
        })
    }
}

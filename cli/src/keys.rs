//! `receipts keys`: a publisher's API keys.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use accounts::{Accounts, AccountsError, Domain, KeyInfo, Lifetime, NewKey, PublisherKey, Revocation, Scope, Tier};
use serde::Serialize;
use service::instant::{now_ms, rfc3339_ms};

use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::listing;
use crate::settings::SettingsArgs;
use crate::terminal::{FAINT, HEAD, Output, paint, report_change};

/// Actor in the audit trail.
const OPERATOR: &str = "operator";

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

/// A request that can't be met is the user's fault; anything else the store's.
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
        let new = NewKey {
            domains: self.domain,
            account_id: self.account,
            tier: self.tier,
            is_limited: self.limited,
            name: self.name,
            scopes: self.scope,
            expires_at_ms: self.expires.end_ms(now_ms()),
        };
        with_store(&self.settings, async |accounts| {
            let made = accounts.create_publisher_key(new).await.map_err(failure)?;
            match show(&made, self.json) {
                Ok(()) => Ok(CommandOutcome::Good),
                Err(unshown) => Err(take_back(accounts, &made.issued.key_id, &unshown).await),
            }
        })
        .await
    }
}

fn show(made: &PublisherKey, as_json: bool) -> Result<(), CommandFailure> {
    let mut out = Output::stdout();
    if as_json {
        out.line(listing::to_json(&MadeKey::of(made))?)?;
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
        let keys = with_store(&self.settings, async |accounts| listed(accounts).await.map_err(failure));
        let columns = [
            "keyId",
            "tier",
            "scope",
            "createdAt",
            "expiresAt",
            "state",
            "limited",
            "domains",
            "name",
            "accountId",
        ];
        listing::list(&keys.await?, self.json, &columns)
    }
}

impl Revoke {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let id = &self.key_id;
        let revoked = with_store(&self.settings, async |accounts| {
            accounts.revoke_key(None, id, OPERATOR).await.map_err(failure)
        });
        report_change(
            revoked.await? == Revocation::Done,
            format!("{id} is revoked"),
            format!("{id}: no such key that isn't revoked already"),
        )
    }
}

fn words(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
}

fn day(ms: i64) -> String {
    rfc3339_ms(ms).chars().take(10).collect()
}

/// A key that was made now.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MadeKey<'a> {
    api_key: &'a str,
    key_id: &'a str,
    account_id: &'a str,
    domains: &'a [String],
    limited: bool,
    tier: &'static str,
    scope: &'a [Scope],
    expires_at: String,
}

impl<'a> MadeKey<'a> {
    fn of(made: &'a PublisherKey) -> Self {
        let issued = &made.issued;
        Self {
            api_key: &issued.api_key,
            key_id: &issued.key_id,
            account_id: &issued.account_id,
            domains: &made.domains,
            limited: issued.domains.is_some(),
            tier: made.tier.as_str(),
            scope: &issued.scopes,
            expires_at: rfc3339_ms(issued.expires_at_ms),
        }
    }
}

/// A key with what its account gives it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedKey {
    key_id: String,
    account_id: String,
    tier: Option<&'static str>,
    name: String,
    scope: Vec<Scope>,
    /// Domains that the key is limited to; otherwise the account's verified ones.
    domains: Vec<String>,
    limited: bool,
    state: &'static str,
    created_at: String,
    expires_at: String,
    revoked_at: Option<String>,
    replaced_by: Option<String>,
}

impl ListedKey {
    fn of(key: KeyInfo, tier: Option<Tier>, account_domains: &[String]) -> Self {
        let state = match key.revoked_at_ms {
            Some(_) => "revoked",
            None if key.expires_at_ms <= now_ms() => "expired",
            None => "valid",
        };
        Self {
            key_id: key.key_id,
            account_id: key.account_id,
            tier: tier.map(Tier::as_str),
            name: key.name,
            scope: key.scopes,
            limited: key.domains.is_some(),
            domains: key.domains.unwrap_or_else(|| account_domains.to_vec()),
            state,
            created_at: rfc3339_ms(key.created_at_ms),
            expires_at: rfc3339_ms(key.expires_at_ms),
            revoked_at: key.revoked_at_ms.map(rfc3339_ms),
            replaced_by: key.replaced_by,
        }
    }
}

/// The keys with tier and domains of their accounts.
async fn listed(accounts: &Accounts) -> Result<Vec<ListedKey>, AccountsError> {
    let mut owners: HashMap<String, (Option<Tier>, Vec<String>)> = HashMap::new();
    let mut listed = Vec::new();
    for key in accounts.list_keys().await? {
        let (tier, domains) = match owners.entry(key.account_id.clone()) {
            Entry::Occupied(owner) => owner.into_mut(),
            Entry::Vacant(new) => new.insert(owner(accounts, &key.account_id).await?),
        };
        listed.push(ListedKey::of(key, *tier, domains));
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

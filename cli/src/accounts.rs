//! `receipts accounts`: accounts, and their tiers.

use accounts::{AccountInfo, AccountQuota, Accounts, Domain, Tier};
use serde::Serialize;
use service::instant::rfc3339_ms;

use crate::account_store::with_store;
use crate::domains::{self, ShownDomain};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::listing;
use crate::settings::SettingsArgs;
use crate::terminal::{report, visible};

/// The actor in the audit trail: whoever runs the deployment.
const ACTOR: &str = "operator";

const LIST_HELP: &str = "\
Newest first, 1,000 at most. `receipts accounts show DOMAIN` finds the account of a domain.

Examples:
  receipts accounts list
  receipts accounts list --json |
    jq -r '.[] | select(.tier == \"free\") | .accountId'

Exit codes:
  0  ok
  2  wrong usage
  3  the account store is unavailable";

const SHOW_HELP: &str = "\
Examples:
  receipts accounts show news.example
  receipts accounts show acc_018f3f3c7f2e7cc08b6a2f6d1c7e9a10 --json

Exit codes:
  0  ok
  2  wrong usage, or there is no such account
  3  the account store is unavailable";

const SET_TIER_HELP: &str = "\
The tier decides how many requests the account may make, whatever key it uses ([quotas]), and how many active API keys it \
may have ([accounts] *_keys_max). Running services apply it within accounts.cache_ms_max (2 s), without a restart. Keys \
beyond a lower tier's number work on; the account can't create others until it has fewer.

Examples:
  receipts accounts set-tier news.example pro
  receipts accounts set-tier acc_018f3f3c7f2e7cc08b6a2f6d1c7e9a10 enterprise \\
    --json

Exit codes:
  0  the account has the tier
  2  wrong usage, or there is no such account
  3  the account store is unavailable";

const SET_QUOTA_HELP: &str = "\
The account's own quota holds instead of its tier's ([quotas]) until it is moved to another tier. Its API keys share it, and \
requests with a JWT have a count of their own with the same limits. Running services apply it within accounts.cache_ms_max \
(2 s), without a restart.

Examples:
  receipts accounts set-quota news.example --per-minute 20000
  receipts accounts set-quota news.example --per-minute 20000 --per-day 5000000
  receipts accounts set-quota news.example --of-tier

Exit codes:
  0  the account has the quota
  2  wrong usage, or there is no such account
  3  the account store is unavailable";

/// List and show accounts, and set their tiers and quotas
#[derive(Debug, clap::Args)]
pub struct AccountsCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(List),
    Show(Show),
    SetTier(SetTier),
    SetQuota(SetQuota),
}

/// List accounts
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Write the accounts as JSON
    #[arg(long)]
    json: bool,
}

/// Show an account with its domains
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_HELP)]
struct Show {
    #[command(flatten)]
    account: AccountArgs,
    /// Write the account as JSON
    #[arg(long)]
    json: bool,
}

/// Move an account to another tier
#[derive(Debug, clap::Args)]
#[command(after_help = SET_TIER_HELP)]
struct SetTier {
    #[command(flatten)]
    account: AccountArgs,
    /// free, pro or enterprise
    #[arg(value_name = "TIER")]
    tier: Tier,
    /// Write the account as JSON
    #[arg(long)]
    json: bool,
}

/// Give an account a quota of its own
#[derive(Debug, clap::Args)]
#[command(after_help = SET_QUOTA_HELP)]
struct SetQuota {
    #[command(flatten)]
    account: AccountArgs,
    /// Requests a minute
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000_000),
        required_unless_present = "of_tier"
    )]
    per_minute: Option<u32>,
    /// Requests a day (UTC) [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "per_minute")]
    per_day: Option<u32>,
    /// Give it the quota of its tier again
    #[arg(long, conflicts_with = "per_minute")]
    of_tier: bool,
    /// Write the account as JSON
    #[arg(long)]
    json: bool,
}

/// An account by its ID or one of its domains.
#[derive(Debug, clap::Args)]
struct AccountArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The account's ID, as `receipts accounts list` shows it, or one of its domains
    #[arg(value_name = "ACCOUNT")]
    account: String,
}

impl AccountsCommand {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        crate::runtime::block_on(async {
            match self.command {
                Command::List(list) => list.run().await,
                Command::Show(show) => show.run().await,
                Command::SetTier(set_tier) => set_tier.run().await,
                Command::SetQuota(set_quota) => set_quota.run().await,
            }
        })
    }
}

impl List {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let listed = with_store(&self.settings, async |accounts| {
            accounts.list_accounts().await.map_err(CommandFailure::unavailable)
        })
        .await?;
        let rows: Vec<ShownAccount<'_>> = listed.iter().map(ShownAccount::of).collect();
        let columns = [
            "accountId",
            "tier",
            "verifiedDomains",
            "activeKeys",
            "createdAt",
            "name",
        ];
        listing::list(&rows, self.json, &columns)
    }
}

impl Show {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let (account, domains) = self
            .account
            .with_account(async |accounts, account| {
                let domains = accounts.owned_domains(Some(&account.account_id)).await;
                Ok((account, domains.map_err(CommandFailure::unavailable)?))
            })
            .await?;
        let shown = ShownAccount {
            domains: Some(domains.iter().map(ShownDomain::of).collect()),
            ..ShownAccount::of(&account)
        };
        listing::show(&shown, self.json, &[("domains", domains::COLUMNS)])
    }
}

impl SetTier {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let tier = self.tier;
        let (before, account) = self
            .account
            .with_account(async |accounts, account| {
                let id = &account.account_id;
                let before = accounts
                    .set_tier(id, tier, ACTOR)
                    .await
                    .map_err(CommandFailure::unavailable)?;
                let before = before.ok_or_else(|| unknown(id))?;
                let quota = account.quota.filter(|_| before == tier);
                Ok((before, AccountInfo { tier, quota, ..account }))
            })
            .await?;
        let id = visible(&account.account_id);
        let line = if self.json {
            listing::to_json(&ShownAccount::of(&account))?
        } else if before == tier {
            format!("{id} had tier {tier} before")
        } else {
            format!("{id} has tier {tier} from now on, not {before}")
        };
        report(line, CommandOutcome::Good)
    }
}

impl SetQuota {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let per_day = self.per_day;
        let quota = self.per_minute.map(|per_minute| AccountQuota { per_minute, per_day });
        let account = self
            .account
            .with_account(async |accounts, account| {
                let id = &account.account_id;
                let set = accounts.set_quota(id, quota, ACTOR).await;
                match set.map_err(CommandFailure::unavailable)? {
                    true => Ok(AccountInfo { quota, ..account }),
                    false => Err(unknown(id)),
                }
            })
            .await?;
        let line = match (self.json, quota) {
            (true, _) => listing::to_json(&ShownAccount::of(&account))?,
            (false, Some(quota)) => format!("{} has {quota} from now on", visible(&account.account_id)),
            (false, None) => format!(
                "{} has the quota of tier {} from now on",
                visible(&account.account_id),
                account.tier
            ),
        };
        report(line, CommandOutcome::Good)
    }
}

impl AccountArgs {
    /// Runs `work` on the store and the account.
    async fn with_account<T>(
        &self,
        work: impl AsyncFnOnce(&Accounts, AccountInfo) -> Result<T, CommandFailure>,
    ) -> Result<T, CommandFailure> {
        with_store(&self.settings, async |accounts| {
            work(accounts, find(accounts, &self.account).await?).await
        })
        .await
    }
}

/// The account with this ID, or to which this domain belongs.
async fn find(accounts: &Accounts, text: &str) -> Result<AccountInfo, CommandFailure> {
    let id = match text.parse::<Domain>() {
        Ok(domain) => accounts
            .account_of(&domain)
            .await
            .map_err(CommandFailure::unavailable)?,
        Err(_) => Some(text.to_owned()),
    };
    let id = id.ok_or_else(|| unknown(text))?;
    let account = accounts.account(&id).await.map_err(CommandFailure::unavailable)?;
    account.ok_or_else(|| unknown(text))
}

fn unknown(text: &str) -> CommandFailure {
    CommandFailure::Input(format!(
        "there is no account {text}, by ID or domain: `receipts accounts list` shows all"
    ))
}

/// An account for people and programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownAccount<'a> {
    account_id: &'a str,
    name: &'a str,
    tier: &'static str,
    requests_per_minute: Option<u32>,
    requests_per_day: Option<u32>,
    created_at: String,
    verified_domains: i64,
    active_keys: i64,
    erase_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domains: Option<Vec<ShownDomain<'a>>>,
}

impl<'a> ShownAccount<'a> {
    fn of(account: &'a AccountInfo) -> Self {
        Self {
            account_id: &account.account_id,
            name: &account.name,
            tier: account.tier.as_str(),
            requests_per_minute: account.quota.map(|quota| quota.per_minute),
            requests_per_day: account.quota.and_then(|quota| quota.per_day),
            created_at: rfc3339_ms(account.created_at_ms),
            verified_domains: account.verified_domains,
            active_keys: account.active_keys,
            erase_after: account.deletion.map(|deletion| rfc3339_ms(deletion.erase_after_ms)),
            domains: None,
        }
    }
}

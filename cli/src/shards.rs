//! `receipts shards`: which shard of the warehouse stores a receipt.

use std::collections::BTreeMap;
use std::str::FromStr;

use accounts::{AccountsError, Domain, NewShardMapEntry, ShardMap, ShardMapEntry};
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan, Unit};
use receipt_log::Log;
use serde::Serialize;
use service::instant::rfc3339_ms;
use warehouse::{Target, Warehouse};

use crate::account_store;
use crate::account_store::with_store;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::listing;
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{mark, report};

const LIST_HELP: &str = "\
Entries of the shard map. Each is in force for receipts whose timestamps are on its first UTC day or later, until the \
next one is. Without entries there is one shard.

Examples:
  receipts shards list
  receipts shards list --json

Exit codes:
  0  ok
  2  wrong usage
  3  the account store is unavailable";

const ADD_HELP: &str = "\
Appends an entry to the shard map. It takes effect 24 hours after its registration or later, at 00:00 UTC, because every \
verifier must know it by then. Receipts of earlier days stay where they are, and their duplicates go there. Entries can't be \
changed or removed; a later entry replaces an earlier one.

Before it, add the shards to the configuration, to ClickHouse's cluster and to the topic of verdicts, in the order of \
docs/shards.md. The command creates the shards' tables, and refuses an entry for shards that aren't there.

Examples:
  receipts shards add 3
  receipts shards add 3 --split large.example=3 --from 2026-12-01 \\
    --config receipts.toml

Exit codes:
  0  the entry is registered
  2  wrong usage, or the entry can't take effect
  3  a server is unavailable";

/// List and add the shards of the warehouse
#[derive(Debug, clap::Args)]
pub struct Shards {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(List),
    Add(Add),
}

/// List the entries of the shard map
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Write the entries as JSON
    #[arg(long)]
    json: bool,
}

/// Append an entry to the shard map
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_HELP)]
struct Add {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Number of shards
    #[arg(value_name = "N")]
    shards: u32,
    /// Spread a large publisher's receipts over so many shards; can be given again
    #[arg(long = "split", value_name = "PUBLISHER=N")]
    splits: Vec<Split>,
    /// First UTC day [default: the first one that is 24 hours ahead]
    #[arg(long, value_name = "DATE")]
    from: Option<Date>,
    /// Write the entry as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone)]
struct Split {
    publisher: Domain,
    shards: u32,
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (publisher, shards) = text.split_once('=').ok_or("write it as PUBLISHER=N")?;
        Ok(Self {
            publisher: publisher.parse().map_err(|error| format!("{error}"))?,
            shards: shards
                .parse()
                .map_err(|_| format!("`{shards}` is no number of shards"))?,
        })
    }
}

impl Shards {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        crate::runtime::with_threads()?.block_on(async {
            match self.command {
                Command::List(list) => list.run().await,
                Command::Add(add) => add.run().await,
            }
        })
    }
}

fn failure(error: AccountsError) -> CommandFailure {
    match error {
        AccountsError::ShardMap(_) => CommandFailure::input(error),
        _ => CommandFailure::unavailable(error),
    }
}

impl List {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let entries = with_store(&self.settings, async |accounts| {
            accounts.shard_map_entries().await.map_err(failure)
        })
        .await?;
        let rows: Vec<ShownEntry<'_>> = entries
            .iter()
            .map(|registered| ShownEntry::of(&registered.entry, Some(registered.registered_at_ms)))
            .collect();
        listing::list(
            &rows,
            self.json,
            &["version", "from", "shards", "registeredAt", "splits"],
        )
    }
}

impl Add {
    async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let settings = self.settings.load()?;
        let from_day = match self.from {
            Some(date) => day(date)?,
            None => earliest_day(Timestamp::now())?,
        };
        let splits = self.splits.into_iter().map(|split| (split.publisher, split.shards));
        let new = NewShardMapEntry {
            from_day,
            shards: self.shards,
            splits: splits.collect(),
        };
        check_entry(&new)?;
        check_partitions(&settings, new.shards).await?;
        check_tables(&settings, new.shards).await?;
        let accounts = account_store::open(&settings).await?;
        let added = accounts.add_shard_map_entry(&new).await;
        accounts.close().await;
        let added = added.map_err(failure)?;
        let shown = ShownEntry::of(&added, None);
        let line = match self.json {
            true => listing::to_json(&shown)?,
            false => format!(
                "{} entry {}: {} shards for receipts from {} on",
                mark(true),
                shown.version,
                shown.shards,
                shown.from
            ),
        };
        report(line, CommandOutcome::Good)
    }
}

/// Checks what doesn't depend on other entries, before any request to a server.
fn check_entry(new: &NewShardMapEntry) -> Result<(), CommandFailure> {
    let entry = ShardMapEntry {
        version: 1,
        from_day: new.from_day,
        shards: new.shards,
        splits: new.splits.clone(),
    };
    ShardMap::new(vec![entry]).map(drop).map_err(CommandFailure::input)
}

async fn check_partitions(settings: &Settings, shards: u32) -> Result<(), CommandFailure> {
    if !settings.kafka.is_shared() {
        return Err(CommandFailure::Input(
            "the embedded log has one shard: shards need Kafka (kafka.brokers) and ClickHouse (warehouse.url)"
                .to_owned(),
        ));
    }
    let open = || Log::open_verdicts_to_look(&settings.kafka, &settings.data.verdicts());
    let verdicts = tokio::task::block_in_place(open).map_err(CommandFailure::unavailable)?;
    let found = verdicts
        .partitions(writer::GROUP)
        .await
        .map_err(CommandFailure::unavailable)?
        .len();
    if found >= shards as usize {
        return Ok(());
    }
    let (brokers, topic) = (&settings.kafka.brokers, &settings.kafka.verdicts_topic);
    Err(CommandFailure::Input(format!(
        "the topic {topic} has {found} partitions, and {shards} shards need one each. Add some, and set \
         kafka.verdicts_partitions to {shards}:\n  kafka-topics.sh --bootstrap-server {brokers} --alter --topic {topic} \
         --partitions {shards}"
    )))
}

async fn check_tables(settings: &Settings, shards: u32) -> Result<(), CommandFailure> {
    let Some(url) = &settings.warehouse.url else {
        return Err(CommandFailure::Input(
            "shards need ClickHouse: give warehouse.url".to_owned(),
        ));
    };
    let found = settings.warehouse.shards.len();
    if found < shards as usize {
        return Err(CommandFailure::Input(format!(
            "warehouse.shards has {found} addresses, and there are to be {shards} shards: add the others, and start the \
             services with them first"
        )));
    }
    let warehouse = Warehouse::connect(&Target::Url(url.clone()), &settings.warehouse).await;
    let warehouse = warehouse.map_err(CommandFailure::unavailable)?;
    warehouse.migrate().await.map_err(CommandFailure::unavailable)
}

/// The first UTC day that begins 24 hours after `now` or later, in days since the Unix epoch.
fn earliest_day(now: Timestamp) -> Result<i64, CommandFailure> {
    let from = now.checked_add(24.hours()).map_err(CommandFailure::input)?;
    let from = from.to_zoned(jiff::tz::TimeZone::UTC);
    let next = match from.start_of_day().map_err(CommandFailure::input)? {
        start if start == from => from.date(),
        _ => from.date().tomorrow().map_err(CommandFailure::input)?,
    };
    day(next)
}

fn day(date: Date) -> Result<i64, CommandFailure> {
    let since = Date::constant(1970, 1, 1)
        .until((Unit::Day, date))
        .map_err(CommandFailure::input)?;
    Ok(i64::from(since.get_days()))
}

fn date(day: i64) -> String {
    let date = Date::constant(1970, 1, 1).checked_add(day.days());
    date.map_or_else(|_| format!("day {day}"), |date| date.to_string())
}

/// An entry for people and programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownEntry<'a> {
    version: u32,
    from: String,
    shards: u32,
    splits: BTreeMap<&'a str, u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    registered_at: Option<String>,
}

impl<'a> ShownEntry<'a> {
    fn of(entry: &'a ShardMapEntry, registered_at_ms: Option<i64>) -> Self {
        Self {
            version: entry.version,
            from: date(entry.from_day),
            shards: entry.shards,
            splits: entry.splits.iter().map(|(of, shards)| (of.as_str(), *shards)).collect(),
            registered_at: registered_at_ms.map(rfc3339_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_entry_begins_at_midnight_24_hours_ahead() {
        let earliest = |now: &str| date(earliest_day(now.parse().unwrap()).unwrap());
        assert_eq!(earliest("2026-11-23T00:00:00Z"), "2026-11-24");
        assert_eq!(earliest("2026-11-23T00:00:00.001Z"), "2026-11-25");
        assert_eq!(earliest("2026-11-23T23:59:59Z"), "2026-11-25");
        assert_eq!(day("1970-01-02".parse().unwrap()).unwrap(), 1);
    }
}

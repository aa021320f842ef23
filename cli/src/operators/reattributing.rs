//! `receipts operators reattribute`: stamps of receipts that arrived after a key was compromised,
//! or before it was registered.

use accounts::OperatorKey;
use serde::Serialize;
use service::instant::{now_ms, rfc3339_ms};
use tokio::time::{Duration, Instant, sleep};
use warehouse::{QueryScope, Reattribution};

use super::{ACTOR, OperatorArgs, find_key, store_failure};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose};
use crate::listing;
use crate::rejected::selection::instant;
use crate::terminal::mark;
use crate::usage::rebuilding::{Rebuild, rebuild};

/// Time in which verifiers follow the end of a key's period.
const FOLLOW_MS: i64 = 5_000;
/// The longest wait for receipts that are on their way to the tables.
const WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

const REATTRIBUTE_HELP: &str = "\
Corrects receipts that are stored: those signed with this key that arrived at TIME or later lose the operator \
(`--to none`), or get it (`--to operator`). Receipts of other operators don't change. A receipt that arrived several \
times has its first arrival's operator. The usage of the affected publishers is rebuilt, and the change is in the \
account's audit trail.

End the key's period first. Then the command waits, for at most a minute, until the tables have everything that \
arrived before. Repeating it is harmless. Repeat it after a `receipts repair` that inserted verdicts from the log \
again: these have the old stamps.

Examples:
  KEY=kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k
  receipts operators end-key lab.example $KEY
  receipts operators reattribute lab.example $KEY \\
    --from 2026-07-01T12:00:00Z --to none

Exit codes:
  0  corrected
  1  corrected as far as the tables are complete, or usage isn't rebuilt yet: run it again
  2  wrong usage, the operator has never had this key, or its period is open
  3  an engine is unavailable";

/// The right operator of the receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum RightOperator {
    /// Nobody: somebody else had the key.
    None,
    /// The operator: it had the key already.
    Operator,
}

/// Correct the operator of stored receipts that a key signed
#[derive(Debug, clap::Args)]
#[command(after_help = REATTRIBUTE_HELP)]
pub(super) struct Reattribute {
    #[command(flatten)]
    operator: OperatorArgs,
    /// Thumbprint or fingerprint of the key, as `receipts operators show` lists them
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    key: String,
    /// Receipts that arrived at this time or later: 2026-07-01T12:00:00Z, or 2026-07-01
    #[arg(long, value_name = "TIME", value_parser = instant)]
    from: i64,
    /// Only receipts that arrived before this time
    #[arg(long, value_name = "TIME", value_parser = instant)]
    until: Option<i64>,
    /// The right operator: nobody, or the one that is named
    #[arg(long, value_name = "none|operator")]
    to: RightOperator,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

/// Result of a correction.
#[derive(Serialize)]
struct Corrected {
    rows: u64,
    publishers: Vec<String>,
    #[serde(rename = "complete")]
    is_complete: bool,
    #[serde(rename = "usageRebuilt")]
    is_rebuilt: bool,
}

impl Reattribute {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        if self.until.is_some_and(|until_ms| until_ms <= self.from) {
            return Err(CommandFailure::input("--from must be before --until"));
        }
        let settings = self.operator.settings.load()?;
        let inspection = Inspection::open(&settings, InspectionPurpose::Audit).await?;
        let corrected = self.correct(&inspection).await;
        inspection.close().await;
        self.report(&corrected?)
    }

    async fn correct(&self, inspection: &Inspection) -> Result<Corrected, CommandFailure> {
        let reattribution = self.record().await?;
        let through_ms = reattribution.until_ms.min(now_ms()).saturating_add(FOLLOW_MS);
        let is_complete = !inspection.live || wait_for(inspection, through_ms).await?;
        let warehouse = &inspection.warehouse;
        let rows = warehouse.reattribution_left(&reattribution).await;
        let rows = rows.map_err(CommandFailure::unavailable)?;
        warehouse
            .reattribute(&reattribution)
            .await
            .map_err(CommandFailure::unavailable)?;
        let mut corrected = Corrected {
            rows,
            publishers: Vec::new(),
            is_complete,
            is_rebuilt: true,
        };
        loop {
            let after = corrected.publishers.last().cloned().unwrap_or_default();
            let found = warehouse.reattributed_publishers(&reattribution, &after).await;
            let found = found.map_err(CommandFailure::unavailable)?;
            let Some(newest_ms) = found.iter().map(|one| one.newest_ms).max() else {
                return Ok(corrected);
            };
            let names: Vec<String> = found.into_iter().map(|one| one.publisher).collect();
            let rebuilt = rebuild(inspection, &QueryScope::of(names.clone()), newest_ms).await?;
            corrected.is_rebuilt &= rebuilt == Rebuild::Done;
            corrected.publishers.extend(names);
        }
    }

    /// Adds the change to the trail, before anything is changed.
    async fn record(&self) -> Result<Reattribution, CommandFailure> {
        self.operator
            .with_operator(async |accounts, operator| {
                let period = find_key(accounts, operator, &self.key).await?;
                let (from_operator, to_operator) = match self.to {
                    RightOperator::None => (operator.domain.clone(), String::new()),
                    RightOperator::Operator => (String::new(), operator.domain.clone()),
                };
                self.require_end(&period)?;
                let detail = self.detail(&period);
                let noted = accounts.note_reattribution(operator, ACTOR, &detail).await;
                noted.map_err(store_failure)?;
                Ok(Reattribution {
                    key_fingerprint: period.key.fingerprint.0,
                    from_ms: self.from,
                    until_ms: self.until.unwrap_or(i64::MAX),
                    from_operator,
                    to_operator,
                })
            })
            .await
    }

    /// While the period is open, receipts that arrive later would be the operator's.
    fn require_end(&self, period: &OperatorKey) -> Result<(), CommandFailure> {
        let is_open = period.until_ms.is_none();
        if self.to == RightOperator::None && is_open && self.until.is_none() {
            let (operator, key) = (&self.operator.operator, &period.key.thumbprint);
            return Err(CommandFailure::Input(format!(
                "the key is {operator}'s now: end its period with `receipts operators end-key {operator} {key}`, or \
                 give --until"
            )));
        }
        Ok(())
    }

    fn detail(&self, period: &OperatorKey) -> String {
        let to = match self.to {
            RightOperator::None => "none",
            RightOperator::Operator => "operator",
        };
        let from = rfc3339_ms(self.from);
        let until = self
            .until
            .map(rfc3339_ms)
            .map_or_else(String::new, |until| format!(" until {until}"));
        format!("{} to {to}, from {from}{until}", period.key.fingerprint)
    }

    fn report(&self, corrected: &Corrected) -> Result<CommandOutcome, CommandFailure> {
        let (rows, count) = (corrected.rows, corrected.publishers.len());
        let mut lines = vec![format!(
            "{} {rows} stored rows of {count} publishers changed",
            mark(true)
        )];
        if !corrected.is_complete {
            let hint = "the tables aren't complete up to now: run the command again when they are";
            lines.push(format!("{} {hint}", mark(false)));
        }
        if !corrected.is_rebuilt {
            let hint = "no writer has rebuilt the usage yet: one does as soon as it runs";
            lines.push(format!("{} {hint}", mark(false)));
        }
        listing::report(corrected, self.json, &lines)?;
        Ok(CommandOutcome::of(corrected.is_complete && corrected.is_rebuilt))
    }
}

/// Waits until the tables have everything that arrived before an instant. `false` if that takes too
/// long.
async fn wait_for(inspection: &Inspection, through_ms: i64) -> Result<bool, CommandFailure> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let shards = inspection
            .warehouse
            .progress()
            .await
            .map_err(CommandFailure::unavailable)?;
        let complete_ms = analytics_api::progress::complete_through_ms(&shards, service::instant::now_ms());
        if complete_ms.is_ok_and(|complete_ms| complete_ms >= through_ms) {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(POLL).await;
    }
}

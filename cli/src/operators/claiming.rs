//! `receipts operators claim` and `release`.

use uuid::Uuid;

use super::{ACTOR, OperatorArgs, failure, store_failure};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::terminal::report_change;

const CLAIM_HELP: &str = "\
Receipts that arrive from now on with this `client.id` are proven only if a key of an operator that claims it \
signed them. Others count as unproven. Several operators may claim one ID.

Examples:
  receipts operators claim lab.example 018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10

Exit codes:
  0  the operator claims the client ID
  1  it did so before
  2  wrong usage, there is no such operator, or it claims as many as it may
  3  the account store is unavailable";

const RELEASE_HELP: &str = "\
Examples:
  receipts operators release lab.example 018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10

Exit codes:
  0  the operator doesn't claim the client ID any more
  1  it didn't before
  2  wrong usage, or there is no such operator
  3  the account store is unavailable";

/// Claim a client ID for an operator's keys
#[derive(Debug, clap::Args)]
#[command(after_help = CLAIM_HELP)]
pub(super) struct Claim {
    #[command(flatten)]
    operator: OperatorArgs,
    /// `client.id` of the operator's receipts
    #[arg(value_name = "CLIENT_ID")]
    client: Uuid,
}

/// Give up an operator's claim to a client ID
#[derive(Debug, clap::Args)]
#[command(after_help = RELEASE_HELP)]
pub(super) struct Release {
    #[command(flatten)]
    operator: OperatorArgs,
    /// The claimed `client.id`
    #[arg(value_name = "CLIENT_ID")]
    client: Uuid,
}

impl Claim {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let client = self.client;
        if client.is_nil() || client.is_max() {
            return Err(CommandFailure::Input(format!("{client} can't be the ID of a client")));
        }
        self.operator
            .with_operator(async |accounts, operator| {
                let claimed = accounts.claim_client(operator, ACTOR, client).await.map_err(failure)?;
                let domain = &operator.domain;
                report_change(
                    claimed,
                    format!("{domain} claims client {client} from now on"),
                    format!("{domain} claimed client {client} before"),
                )
            })
            .await
    }
}

impl Release {
    pub(super) async fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let client = self.client;
        self.operator
            .with_operator(async |accounts, operator| {
                let released = accounts.release_client(operator, ACTOR, client).await;
                let domain = &operator.domain;
                report_change(
                    released.map_err(store_failure)?,
                    format!("{domain} doesn't claim client {client} any more"),
                    format!("{domain} didn't claim client {client}"),
                )
            })
            .await
    }
}

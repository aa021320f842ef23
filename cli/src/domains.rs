//! `receipts domains`: whose domains are, what their proofs are worth, and the operator's word
//! about them.

mod changing;
mod listing;

pub(crate) use listing::{COLUMNS, ShownDomain};

use accounts::AccountsError;

use crate::failure::{CommandFailure, CommandOutcome};

/// The actor in the audit trail.
const ACTOR: &str = "operator";

/// List, show, add, revoke and transfer publishers' domains
#[derive(Debug, clap::Args)]
pub struct Domains {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(listing::List),
    Show(listing::Show),
    Add(changing::AddDomain),
    Revoke(changing::Revoke),
    Transfer(changing::Transfer),
}

impl Domains {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        crate::runtime::block_on(async {
            match self.command {
                Command::List(command) => command.run().await,
                Command::Show(command) => command.run().await,
                Command::Add(command) => command.run().await,
                Command::Revoke(command) => command.run().await,
                Command::Transfer(command) => command.run().await,
            }
        })
    }
}

fn store_failure(error: AccountsError) -> CommandFailure {
    match error {
        AccountsError::UnknownAccount(_) | AccountsError::DomainOwned { .. } | AccountsError::DomainCount => {
            CommandFailure::input(error)
        }
        error => CommandFailure::unavailable(error),
    }
}

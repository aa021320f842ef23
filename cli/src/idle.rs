//! `receipts idle`: does nothing, for pods in which people run commands.

use crate::failure::{CommandFailure, CommandOutcome};

const AFTER_HELP: &str = "\
The image of this command has no shell and nothing else that waits; a pod lives as long as its first process does. \
SIGTERM and SIGINT end it.

Examples:
  receipts idle
  kubectl exec -i receipts-tools-0 -- receipts audit    # beside it

Exit codes:
  0  it was asked to end";

/// Do nothing, for a pod to run other commands in
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Idle {}

impl Idle {
    /// Runs the command.
    ///
    /// # Errors
    /// Signals can't be listened to.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        crate::runtime::block_on(async {
            let stopped = service::shutdown::signals().map_err(CommandFailure::unavailable)?;
            stopped.cancelled().await;
            Ok(CommandOutcome::Good)
        })
    }
}

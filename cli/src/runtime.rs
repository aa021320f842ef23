//! The runtime of commands that wait more than they compute.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use crate::failure::{CommandFailure, CommandOutcome};

/// A runtime on this thread.
///
/// # Errors
/// The system gives none.
pub(crate) fn on_this_thread() -> Result<Runtime, CommandFailure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(CommandFailure::unavailable)
}

/// A runtime with two threads beside this one, which the embedded engine needs.
///
/// # Errors
/// The system gives none.
pub(crate) fn with_threads() -> Result<Runtime, CommandFailure> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(CommandFailure::unavailable)
}

/// Runs a command on this thread.
///
/// # Errors
/// The system gives none; and whatever the command fails with.
pub(crate) fn block_on(
    command: impl Future<Output = Result<CommandOutcome, CommandFailure>>,
) -> Result<CommandOutcome, CommandFailure> {
    on_this_thread()?.block_on(command)
}

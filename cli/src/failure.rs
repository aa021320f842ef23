//! Why a command ends without success, and the exit code that tells it.

use std::io;
use std::process::ExitCode;

use thiserror::Error;

/// End of every command's help.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  ok
  1  the check found something: not verified, refused, or it doesn't add up
  2  wrong usage, or input that can't be read or isn't what the command takes
  3  an engine or a server is unavailable";

/// The end of a command that went well enough to have an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum CommandOutcome {
    /// Exit code 0.
    Good,
    /// Exit code 1: the check found something, and the output says what.
    Found,
}

impl CommandOutcome {
    /// The outcome of a check that found nothing, or of a change that was made now.
    pub fn of(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Found }
    }
}

/// The end of a command that has no answer.
#[derive(Debug, Error)]
pub enum CommandFailure {
    /// Exit code 2: usage, or input that can't be read.
    #[error("{0}")]
    Input(String),
    /// Exit code 3: an engine or a server is unavailable.
    #[error("{0}")]
    Unavailable(String),
    /// Standard output's reader went away: nobody is left to tell, so nothing is said.
    #[error("standard output was closed")]
    OutputClosed,
}

impl CommandFailure {
    /// A [`CommandFailure::Input`] from anything that can be displayed.
    pub fn input(message: impl ToString) -> Self {
        Self::Input(message.to_string())
    }

    /// A [`CommandFailure::Unavailable`] from anything that can be displayed.
    pub fn unavailable(message: impl ToString) -> Self {
        Self::Unavailable(message.to_string())
    }

    /// A failed write to standard output.
    #[must_use]
    pub fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Input(format!("standard output can't be written: {error}"))
        }
    }

    /// The exit code of this failure.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Unavailable(_) => 3,
            Self::OutputClosed => 0,
        }
    }
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> Self {
        match outcome {
            CommandOutcome::Good => Self::SUCCESS,
            CommandOutcome::Found => Self::from(1),
        }
    }
}

//! `receipts man`: man pages.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::command::Cli;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::terminal::{RawOutput, report};

const AFTER_HELP: &str = "\
One page for each command, in section 1: receipts.1, receipts-sign.1, receipts-keys-create.1. Without --out, the page \
of `receipts` itself goes to standard output.

Examples:
  receipts man --out ~/.local/share/man/man1 && man receipts-sign
  receipts man > receipts.1

Exit codes:
  0  the pages are written
  2  wrong usage, or the folder can't be written";

/// Write the man pages of all commands
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Man {
    /// Folder for the pages; it is created if it is absent
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let Some(folder) = self.out else {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(Cli::command()).render(&mut page);
            rendered.map_err(CommandFailure::input)?;
            let mut out = RawOutput::stdout();
            out.bytes(&page)?;
            out.flush()?;
            return Ok(CommandOutcome::Good);
        };
        let shown = folder.display();
        let unwritable = |error: std::io::Error| CommandFailure::Input(format!("{shown} can't be written: {error}"));
        std::fs::create_dir_all(&folder).map_err(unwritable)?;
        clap_mangen::generate_to(Cli::command(), &folder).map_err(unwritable)?;
        report(
            format_args!("man pages are in {shown}: `man {shown}/receipts.1` shows the first"),
            CommandOutcome::Good,
        )
    }
}

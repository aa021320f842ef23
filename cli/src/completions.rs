//! `receipts completions`: the completions of a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::command::Cli;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::terminal::RawOutput;

const AFTER_HELP: &str = "\
Start a new shell afterwards. For zsh, a folder of $fpath takes the file; fish loads ~/.config/fish/completions.

Examples:
  receipts completions bash \\
    > ~/.local/share/bash-completion/completions/receipts
  receipts completions zsh > ~/.zfunc/_receipts
  receipts completions fish > ~/.config/fish/completions/receipts.fish
  source <(receipts completions bash)

Exit codes:
  0  the script is on standard output
  2  wrong usage";

/// Write the completion script of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let mut cli = Cli::command();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli, "receipts", &mut script);
        let mut out = RawOutput::stdout();
        out.bytes(&script)?;
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}

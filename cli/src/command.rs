//! The command line.

use clap::{Parser, Subcommand};

use crate::failure::{Answer, EXIT_CODES, Failure};
use crate::{
    audit, canonicalize, check_signature, clients, config, deliver, dev_token, explain, keygen, keys, migrate,
    rejected, repair, rollups, send, sign, size, up, verify,
};

/// Signed usage receipts: make keys, sign, send, verify, and run the whole service
#[derive(Debug, Parser)]
#[command(name = "receipts", version, propagate_version = true, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Keygen(keygen::Keygen),
    Sign(sign::Sign),
    Send(send::Send),
    Deliver(deliver::Deliver),
    Verify(verify::Verify),
    Explain(explain::Explain),
    Canonicalize(canonicalize::Canonicalize),
    CheckSignature(check_signature::CheckSignature),
    Up(Box<up::Up>),
    Keys(keys::Keys),
    DevToken(dev_token::DevToken),
    Clients(clients::Clients),
    Audit(audit::Audit),
    Rejected(rejected::RejectedCommand),
    Repair(repair::Repair),
    Rollups(rollups::Rollups),
    Config(config::Config),
    Migrate(migrate::Migrate),
    Size(Box<size::Size>),
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Failure`], with the exit code that belongs to it.
    pub fn run(self) -> Result<Answer, Failure> {
        match self.command {
            Command::Keygen(command) => command.run(),
            Command::Sign(command) => command.run(),
            Command::Send(command) => command.run(),
            Command::Deliver(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Canonicalize(command) => command.run(),
            Command::CheckSignature(command) => command.run(),
            Command::Up(command) => command.run(),
            Command::Keys(command) => command.run(),
            Command::DevToken(command) => command.run(),
            Command::Clients(command) => command.run(),
            Command::Audit(command) => command.run(),
            Command::Rejected(command) => command.run(),
            Command::Repair(command) => command.run(),
            Command::Rollups(command) => command.run(),
            Command::Config(command) => command.run(),
            Command::Migrate(command) => command.run(),
            Command::Size(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        let mut cli = super::Cli::command();
        cli.build();
        cli.clone().debug_assert();
        for command in cli
            .get_subcommands()
            .filter(|c| c.get_name() != "help" && !c.has_subcommands())
        {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:"), "{} has no examples", command.get_name());
            assert!(
                after.contains("Exit codes:"),
                "{} has no exit codes",
                command.get_name()
            );
        }
    }
}

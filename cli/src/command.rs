//! The command line.

use clap::{Parser, Subcommand};

use crate::failure::{CommandFailure, CommandOutcome, EXIT_CODES};
use crate::{
    accounts, audit, canonicalize, clients, completions, config, dev_token, domains, help_groups, idle, keygen, keys,
    login_link, man, migrate, new, operators, rejected, relay, repair, rewind, send, serve, shards, sign, tail, up,
    usage, verify, version,
};

/// Signed usage receipts: make keys, sign, send, verify, and run the whole service
#[derive(Debug, Parser)]
#[command(
    name = "receipts",
    version = version::SHORT,
    long_version = version::LONG,
    propagate_version = true,
    help_template = help_groups::template(),
    after_help = EXIT_CODES,
    max_term_width = 110
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Commands; [`help_groups`] has their order in the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Keygen(keygen::Keygen),
    New(Box<new::NewCommand>),
    Sign(sign::Sign),
    Send(send::Send),
    Relay(Box<relay::Relay>),
    Verify(verify::Verify),
    Canonicalize(canonicalize::Canonicalize),
    Tail(tail::TailCommand),
    Up(Box<up::Up>),
    Serve(Box<serve::Serve>),
    Accounts(accounts::AccountsCommand),
    Keys(keys::Keys),
    LoginLink(login_link::LoginLinkCommand),
    DevToken(dev_token::DevToken),
    Domains(domains::Domains),
    Clients(clients::Clients),
    Operators(operators::Operators),
    Audit(audit::Audit),
    Rejected(rejected::RejectedCommand),
    Repair(repair::Repair),
    Rewind(rewind::Rewind),
    Shards(shards::Shards),
    Usage(usage::Usage),
    Config(config::Config),
    Migrate(migrate::Migrate),
    Idle(idle::Idle),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CommandFailure`], with the exit code that belongs to it.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        match self.command {
            Command::Keygen(command) => command.run(),
            Command::New(command) => command.run(),
            Command::Sign(command) => command.run(),
            Command::Send(command) => command.run(),
            Command::Relay(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Canonicalize(command) => command.run(),
            Command::Tail(command) => command.run(),
            Command::Up(command) => command.run(),
            Command::Serve(command) => command.run(),
            Command::Accounts(command) => command.run(),
            Command::Keys(command) => command.run(),
            Command::LoginLink(command) => command.run(),
            Command::DevToken(command) => command.run(),
            Command::Domains(command) => command.run(),
            Command::Clients(command) => command.run(),
            Command::Operators(command) => command.run(),
            Command::Audit(command) => command.run(),
            Command::Rejected(command) => command.run(),
            Command::Repair(command) => command.run(),
            Command::Rewind(command) => command.run(),
            Command::Shards(command) => command.run(),
            Command::Usage(command) => command.run(),
            Command::Config(command) => command.run(),
            Command::Migrate(command) => command.run(),
            Command::Idle(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use clap::CommandFactory;

    /// Commands between backticks in a document, from `receipts ` on.
    fn commands(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').filter_map(|span| span.trim().strip_prefix("receipts "))
    }

    #[test]
    fn every_command_of_the_runbooks_is_one() {
        let mut cli = super::Cli::command();
        cli.build();
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks");
        let mut checked = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for command in commands(&text) {
                let mut at = &cli;
                // Up to a pipe or a file it is ours.
                for word in command.split(['|', '<']).next().unwrap().split_whitespace() {
                    if let Some(flag) = word.strip_prefix("--") {
                        let has_flag = at.get_arguments().any(|argument| argument.get_long() == Some(flag));
                        assert!(has_flag, "{}: `receipts {command}` has no --{flag}", path.display());
                    } else if at.has_subcommands() && word != "..." {
                        let below = at.find_subcommand(word);
                        at = below.unwrap_or_else(|| panic!("{}: no `receipts {command}`", path.display()));
                    }
                }
                checked += 1;
            }
        }
        assert!(checked > 20, "{checked} commands");
    }

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

//! Commands in the help, grouped by audience. clap lists subcommands under one heading only.

use std::fmt::Write as _;

use clap::Subcommand;

use crate::command::Command;
use crate::terminal::paint;

/// The widest line: a terminal's usual 80 columns.
#[cfg(test)]
const COLUMNS_MAX: usize = 80;

/// Headings with their commands, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    ("To try it out", &["up", "dev-token"]),
    (
        "For AI operators, to make and send receipts",
        &["keygen", "new", "sign", "send", "relay", "canonicalize"],
    ),
    ("For publishers, to see and check who used content", &["tail", "verify"]),
    (
        "For SREs, on accounts and keys",
        &["keys", "accounts", "login-link", "domains", "clients", "operators"],
    ),
    (
        "For SREs, to run the service",
        &[
            "serve", "audit", "rejected", "repair", "rewind", "shards", "usage", "config", "migrate", "idle",
        ],
    ),
    ("About this command", &["completions", "man", "help"]),
];

/// The template of the top-level help.
pub(crate) fn template() -> String {
    let styles = clap::builder::Styles::styled();
    let commands = Command::augment_subcommands(clap::Command::new("receipts"));
    let about = |name: &str| match commands.find_subcommand(name) {
        Some(command) => command.get_about().map(ToString::to_string).unwrap_or_default(),
        None => "Show the help of a command".to_owned(),
    };
    let width = GROUPS
        .iter()
        .flat_map(|(_, names)| names.iter())
        .map(|name| name.len())
        .max()
        .unwrap_or_default();
    let mut template = String::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n");
    for (heading, names) in GROUPS {
        // Writing into a String can't fail.
        let _ = writeln!(template, "{}", paint(*styles.get_header(), format_args!("{heading}:")));
        for name in *names {
            let padding = " ".repeat(width - name.len());
            let shown = paint(*styles.get_literal(), name);
            let _ = writeln!(template, "  {shown}{padding}  {}", about(name));
        }
        template.push('\n');
    }
    let options = paint(*styles.get_header(), "Options:");
    let _ = write!(template, "{options}\n{{options}}{{after-help}}");
    template
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let mut cli = crate::command::Cli::command();
        cli.build();
        let mut commands: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        commands.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, commands);
    }

    #[test]
    fn the_help_fits_a_terminal() {
        let help = crate::command::Cli::command().render_help().to_string();
        for (heading, names) in GROUPS {
            assert!(
                help.contains(&format!("\n{heading}:\n  {} ", names[0])),
                "{heading}: {help}"
            );
        }
        for line in help.lines() {
            assert!(line.chars().count() <= COLUMNS_MAX, "{line}");
        }
    }
}

//! The `receipts` command.
//!
//! - [`command`]: the command line, and which command runs
//! - offline, on files and standard input: [`keygen`], [`new`], [`sign`], [`verify`],
//!   [`canonicalize`]
//! - against a gateway or a publisher's webhook: [`send`], and [`relay`] for programs of this
//!   machine; against the analytics API: [`tail`]
//! - on a data directory: [`up`] (all services in one process), [`accounts`](mod@accounts),
//!   [`keys`], [`dev_token`], [`clients`], [`operators`], [`audit`], [`repair`], [`rewind`],
//!   [`rejected`] (list, show, replay), [`usage`](mod@usage) (check, rebuild), [`config`]
//! - on servers: [`serve`] (one service), [`migrate`]; [`idle`], which does nothing, for pods
//! - about the command: [`completions`], [`man`], [`version`], `help_groups` (commands by audience)
//! - shared by them: [`input`] (files and standard input as documents), [`blocks`] (documents in
//!   parallel), [`key_file`], [`terminal`] (what people see), [`listing`] (rows and
//!   objects as tables and JSON), [`failure`] (exit codes),
//!   [`settings`], [`data_dir`], [`inspection`], `service_address` and `service_client` (requests
//!   to a running service)
//!
//! A command is a struct of arguments with a `run` that returns a [`failure::CommandOutcome`] or a
//! [`failure::CommandFailure`].

#![forbid(unsafe_code)]

pub mod account_store;
pub mod accounts;
pub mod audit;
pub mod blocks;
pub mod canonicalize;
pub mod clients;
pub mod command;
pub mod completions;
pub mod config;
pub mod data_dir;
pub mod dev_token;
pub mod domains;
pub mod failure;
mod help_groups;
pub mod idle;
pub mod input;
pub mod inspection;
pub mod key_file;
pub mod keygen;
pub mod keys;
pub mod listing;
pub mod login_link;
pub mod man;
pub mod migrate;
pub mod new;
pub mod operators;
pub mod rejected;
pub mod relay;
pub mod repair;
pub mod rewind;
mod runtime;
pub mod send;
pub mod serve;
mod service_address;
mod service_client;
pub mod settings;
pub mod shards;
pub mod sign;
pub mod tail;
pub mod terminal;
pub mod up;
pub mod usage;
pub mod verify;
pub mod version;

use std::process::ExitCode;

use clap::Parser;

/// Parses the command line, runs the command, and says what went wrong on standard error.
#[must_use]
pub fn main() -> ExitCode {
    match command::Cli::parse().run() {
        Ok(answer) => answer.into(),
        Err(failure @ failure::CommandFailure::OutputClosed) => ExitCode::from(failure.exit_code()),
        Err(failure) => {
            terminal::error(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}

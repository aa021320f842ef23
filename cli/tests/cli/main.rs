//! The `receipts` command, run as a process. One program, because each one links every service.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used)]

mod accounts;
mod answering;
mod attribution;
mod command;
mod configuration;
mod dev_token;
mod domains;
mod evidence;
mod examples;
mod first_receipt;
mod flood;
mod forgery;
mod https;
mod login_link;
mod logs;
mod migrate;
mod new;
mod offline;
mod one_address;
mod operators;
mod production;
mod prometheus;
mod rejected;
mod relay;
mod runbooks;
mod running;
mod send;
mod sender_mistakes;
mod serve;
mod up;
mod webhook;
mod wrong_clock;

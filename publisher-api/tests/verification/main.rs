//! Domain verification over HTTP against a real DNS server and a real HTTPS server on loopback, and mails to a real SMTP server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod checks;
mod mail_server;
mod mails;
#[path = "../api/stack.rs"]
#[allow(dead_code)]
mod stack;
mod world;

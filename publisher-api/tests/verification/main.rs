//! Domain verification and key directories over HTTP against a real DNS server and a real HTTPS
//! server on loopback, and mails to a real SMTP server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bounds;
mod checks;
mod directories;
mod lifecycle;
mod mail_server;
mod mails;
#[path = "../api/signer.rs"]
#[allow(dead_code)]
mod signer;
#[path = "../api/stack.rs"]
#[allow(dead_code)]
mod stack;
mod world;

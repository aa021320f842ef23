//! The client against real HTTPS servers and a real DNS server on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

mod dns;
mod https;
mod limits;
mod rebinding;
mod server;
mod session;
mod ssrf;
mod world;

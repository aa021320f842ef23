//! The gateway over real sockets: what it takes, what it refuses and how, and what it does when it
//! is too much.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

mod acknowledgements;
mod bad_input;
mod client;
mod documents;
mod drain;
mod durable;
mod encodings;
mod explain;
mod files;
mod flood;
mod hoard;
mod http1;
mod http2;
mod log;
mod overload;
mod proxies;
mod rates;
mod registered;
mod running;
mod sample;
mod signatures;
mod slow;
mod trace;
mod webhook;

//! The one way out to addresses that other people name: a publisher's domain, a publisher's
//! webhook.
//!
//! Whoever names a URL chooses where this process connects to, from inside the operator's network.
//! So: HTTPS only, to port 443; the name is resolved once, every address of it is judged, and the
//! connection goes to a judged address and no other, so that a name which resolves differently a
//! moment later (DNS rebinding) gains nothing; each redirect is judged again; the certificate must
//! be the host's. There are no cookies, credentials or proxies, and time, size, redirects and the
//! number of requests are bounded.
//!
//! | module | noun |
//! |---|---|
//! | `client`, `session`, `fetched` | requests and answers, single or many over one connection |
//! | `resources` | what all requests of a client share |
//! | `target` | a URL that may be asked |
//! | `address` | which addresses are public |
//! | `resolver` | names to addresses, TXT records |
//! | `connection`, `tls` | a judged address to an HTTP/1.1 connection |
#![forbid(unsafe_code)]

mod address;
mod client;
mod config;
mod connection;
mod error;
mod fetched;
mod resolver;
mod resources;
mod session;
mod target;
mod tls;

pub use self::config::Config;
pub use client::OutboundClient;
pub use error::{Error, RequestStep, SetupError, Unresolved};
pub use fetched::Fetched;
pub use session::Session;

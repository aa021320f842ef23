//! Connections of HTTP clients: TCP, TLS over TCP or a Unix socket below hyper's pooled client, and
//! whom TLS trusts.
//!
//! | module | noun |
//! |---|---|
//! | [`connector`] | opens a stream to a URI's host |
//! | [`stream`] | one of the three kinds of connection |
//! | [`trust`] | certificate authorities: the system's, or those of a file |
#![forbid(unsafe_code)]

pub mod connector;
pub mod stream;
pub mod trust;

pub use connector::StreamConnector;
pub use stream::ClientStream;
pub use trust::TrustError;

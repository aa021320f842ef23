//! Parts that the HTTP APIs on axum share.
//!
//! - [`serve`]: a router on a port
//! - [`envelope`]: request id, problem bodies and metrics around every answer
//! - [`Failure`]: a problem on its way out of a handler
//! - [`access`]: API keys, sessions and their quotas; [`session`]: the cookie of a session;
//!   [`allowance`]: quotas of addresses;
//!   [`client_address`]: whom they are counted for
//! - [`params`]: the query string, [`parsed_query`] as a layer leaves it; [`json`]: JSON bodies
//! - [`format`]: formats of answers, and their rows; [`csv`]: cells of tables
//! - [`compress`]: answers by gzip
//! - [`cors`]: pages of other origins
//! - [`etag`]: whether a client already has an answer
//! - [`stream`]: answers that are written piece by piece; [`shares`]: places that each account has
//!   of its own
//! - [`time`]: times in answers
//! - [`problems`]: the pages that a problem's `type` names
//! - [`openapi`]: what is the same in the documents of all APIs; [`examples`]: their examples;
//!   [`docs`]: the page that shows one
#![forbid(unsafe_code)]

pub mod access;
pub mod allowance;
pub mod client_address;
pub mod compress;
pub mod cors;
pub mod csv;
pub mod docs;
pub mod envelope;
pub mod etag;
pub mod examples;
mod failure;
pub mod format;
pub mod json;
pub mod openapi;
pub mod params;
pub mod parsed_query;
pub mod problems;
pub mod serve;
pub mod session;
pub mod shares;
pub mod stream;
pub mod time;

pub use access::{Credential, bearer};
pub use envelope::envelope;
pub use failure::Failure;
pub use json::JsonBody;
pub use serve::serve;
pub use time::{rfc3339, rfc3339_ms};

//! Whole answers of an endpoint.
//!
//! - `etag`: tag of an answer, and whether the client has it
//! - `reply`: the whole answer of an endpoint

pub(crate) mod etag;
pub(crate) mod reply;

//! Whole answers of an endpoint.
//!
//! - `archive`: a ZIP archive that is sent while it is written
//! - `etag`: tag of an answer, and whether the client has it
//! - `reply`: the whole answer of an endpoint

pub(crate) mod archive;
pub(crate) mod etag;
pub(crate) mod reply;

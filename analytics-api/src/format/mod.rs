//! Formats of answers, and whole answers in them.
//!
//! - `etag`: tag of an answer, and whether the client has it
//! - `reply`: the whole answer of an endpoint

pub(crate) mod etag;
pub(crate) mod reply;

pub use web::format::{ALL, Format, column, file_name, table};

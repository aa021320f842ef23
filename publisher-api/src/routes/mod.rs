//! The addresses, one file a noun.

pub(crate) mod entries;
pub(crate) mod index;

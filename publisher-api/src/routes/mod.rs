//! The addresses, one file a noun.

pub(crate) mod index;

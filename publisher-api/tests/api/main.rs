//! The publisher API over HTTP, on real stores.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod entries;
mod stack;

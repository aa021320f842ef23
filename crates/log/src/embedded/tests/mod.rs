//! The embedded log on a simulated disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod crashes;
pub(super) mod disk;
mod expected;
mod machine;

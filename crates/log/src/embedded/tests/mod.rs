//! The embedded log on a simulated disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    clippy::unnecessary_wraps,
    clippy::unused_self
)]

mod crashes;
pub(super) mod disk;
pub(super) mod expected;
mod machine;

//! The gateway as a process of its own.
fn main() {}

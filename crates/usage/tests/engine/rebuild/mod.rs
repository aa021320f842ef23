//! Rebuilds, erased clients, and the consistency check, on the real engine.

mod checks;
mod erasures;
mod harness;
mod reattributions;
mod rebuilds;

//! Each engine starts, answers an independent client, is killed, restarted and frozen, and leaves
//! nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod clickhouse;
mod dns;
mod fault_proxy;
mod kafka;
mod orphans;
mod postgres;
mod redis;

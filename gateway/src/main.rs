//! `receipts-gateway`: the gateway as a process of its own, on the Kafka that `[kafka] brokers`
//! names.
//!
//! Without it, it takes the embedded log under `[data] dir`, which belongs to one process:
//! `receipts up` runs gateway and verifier together on it, and this binary then shows the gateway
//! alone.
#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    gateway::process::run(gateway::Routes::All)
}

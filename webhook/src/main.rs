//! `receipts-webhook`: a publisher's receiver as a process of its own.
#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    webhook::run()
}

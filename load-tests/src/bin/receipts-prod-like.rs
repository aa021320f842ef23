//! `receipts-prod-like`: two gateways, three verifiers, two writers and the analytics API as
//! processes of their own, on a real Kafka, Redis and PostgreSQL and on ClickHouse's protocol,
//! until Ctrl-C. Its data is gone afterwards.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use load_tests::fleet::{Fleet, Shape};
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The services on real engines, for a trial; all on 127.0.0.1, and nothing is kept.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Gateways.
    #[arg(long, default_value_t = 2)]
    gateways: usize,
    /// Verifiers.
    #[arg(long, default_value_t = 3)]
    verifiers: usize,
    /// Writers: one of them owns the only shard, the others stand by.
    #[arg(long, default_value_t = 2)]
    writers: usize,
    /// Partitions of the topic.
    #[arg(long, default_value_t = 12)]
    partitions: u32,
    /// The folder with the services' programs; by default this program's own.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let programs = match arguments.programs {
        Some(programs) => programs,
        None => std::env::current_exe()?
            .parent()
            .context("this program's folder")?
            .to_owned(),
    };
    let shape = Shape {
        gateways: arguments.gateways,
        verifiers: arguments.verifiers,
        writers: arguments.writers,
        partitions: arguments.partitions,
        // The services' default; the drills' is short so that a lost verifier is missed soon.
        session_wait_ms_max: 10_000,
        direct: true,
        environment: Vec::new(),
        ..Shape::for_drills(&programs)
    };
    anstream::println!("starting Kafka, Redis, PostgreSQL, the ClickHouse endpoint and the services");
    let mut fleet = tokio::select! {
        started = Fleet::start(&shape) => started?,
        _ = end.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    print(&mut fleet);
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    anstream::println!("stopping");
    Ok(())
}

/// Prints the addresses for whoever wants to send, query, look inside, or start one more.
fn print(fleet: &mut Fleet) {
    let installation = fleet.installation();
    for gateway in &installation.gateways {
        anstream::println!("gateway    {gateway}/api/v1/receipts");
    }
    anstream::println!("analytics  {}/api/v1/analytics/dashboard", installation.analytics);
    for service in fleet.services() {
        let (name, admin) = (service.process.name(), &service.admin);
        anstream::println!("metrics    {admin}/metrics  ({name})");
    }
    anstream::println!("logs       {}", fleet.folder().display());
    anstream::println!("\n# These lead a command, or one more replica, to the same engines:");
    for (name, value) in &installation.environment {
        anstream::println!("export {name}='{value}'");
    }
    anstream::println!("# receipts keys create --domain example.com\n# receipts audit\n\nCtrl-C ends all of it.");
}

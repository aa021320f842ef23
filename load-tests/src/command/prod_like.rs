//! `receipts-load prod-like`: two gateways, three verifiers, two writers and the analytics API as
//! processes of their own, on a real Kafka, Redis and PostgreSQL and on ClickHouse's protocol,
//! until Ctrl-C. Its data is gone afterwards.

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use super::ProgramsArg;
use crate::fleet::{Fleet, Shape};

/// The services on real engines, for a trial; all on 127.0.0.1, and nothing outlives it
#[derive(Debug, clap::Args)]
pub struct ProdLike {
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
    #[command(flatten)]
    programs: ProgramsArg,
}

impl ProdLike {
    /// Runs the command.
    ///
    /// # Errors
    /// An engine or a service doesn't start.
    pub async fn run(self) -> Result<()> {
        let mut end = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let programs = self.programs.folder()?;
        let shape = Shape {
            gateways: self.gateways,
            verifiers: self.verifiers,
            writers: self.writers,
            partitions: self.partitions,
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

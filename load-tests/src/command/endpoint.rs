//! `receipts-load endpoint`: ClickHouse's HTTP protocol over libchdb, in a process of its own. It
//! replaces a ClickHouse server where none can be installed: in drills, and in a trial of the
//! services on real engines.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use warehouse::{EmbeddedEngine, WarehouseConfig};

/// ClickHouse's HTTP protocol over the embedded engine; for trials and drills, not for production
#[derive(Debug, clap::Args)]
pub struct Endpoint {
    /// The data directory.
    #[arg(long)]
    data: PathBuf,
    /// A loopback address to listen on.
    #[arg(long, default_value = "127.0.0.1:8123")]
    listen: SocketAddr,
    /// The only user.
    #[arg(long, default_value = "receipts")]
    user: String,
    /// The user's password.
    #[arg(long, env = "RECEIPTS_LOAD_ENDPOINT_PASSWORD", hide_env_values = true)]
    password: String,
}

impl Endpoint {
    /// Runs the command.
    ///
    /// # Errors
    /// The engine doesn't start, or the address can't be bound.
    pub async fn run(self) -> Result<()> {
        let mut end = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let data = std::path::absolute(&self.data)?;
        std::fs::create_dir_all(&data).with_context(|| format!("creating {}", data.display()))?;
        let engine = EmbeddedEngine::start(
            &WarehouseConfig::default(),
            &data.join("clickhouse"),
            &data.join("clickhouse.sock"),
        )
        .await?;
        // Only now, so that who can connect is answered.
        let listener = TcpListener::bind(self.listen)
            .await
            .with_context(|| format!("binding {}", self.listen))?;
        engine.serve_tcp(listener, &self.user, &self.password)?;
        anstream::println!("the endpoint listens on http://{}", self.listen);
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
        engine.stop().await;
        Ok(())
    }
}

//! The servers to be measured: the gateway on its own log, and a bare hyper server that reads the
//! body and answers 202.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use gateway::GatewayConfig;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use receipt_log::{EmbeddedConfig, EmbeddedLog};
use service::cpu::CpuPool;
use service::health::Health;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Old segments go at this size, so that a long run needs little disk.
const RETENTION_BYTES_MAX: u64 = 1 << 30;
/// No rate in these measurements gets near it; the limiter still runs for each request.
const RATE_PER_S: u32 = 1_000_000_000;

/// Server to run, and the folder of its log.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Kind of server.
    which: Which,
    /// The gateway's log.
    #[arg(long)]
    log: Option<PathBuf>,
}

/// The servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Reads the body, answers 202.
    Bare,
    /// The gateway with the embedded log.
    Gateway,
}

/// Listens on a free port, writes its address as one line, serves until standard input ends.
///
/// # Errors
/// The port or the log can't be had.
pub fn run(arguments: &ServeArguments) -> Result<()> {
    // The same runtime for both servers: as many workers as this process may use cores.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", listener.local_addr()?)?;
        out.flush()?;
        drop(out);
        match arguments.which {
            Which::Bare => tokio::select! {
                never = bare(listener) => never,
                () = input_ends() => Ok(()),
            },
            Which::Gateway => {
                let log = arguments.log.as_deref().context("the gateway needs --log")?;
                gateway(listener, log).await
            }
        }
    })
}

/// The parent holds the other end: it has gone when this returns.
async fn input_ends() {
    let (gone, parent_gone) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        let _ = gone.send(());
    });
    let _ = parent_gone.await;
}

async fn bare(listener: TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(accept));
            let _ = serving.await;
        });
    }
}

async fn accept(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let status = match request.into_body().collect().await {
        Ok(_) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}

async fn gateway(listener: TcpListener, log: &std::path::Path) -> Result<()> {
    // As in production: metrics are recorded, not thrown away.
    service::telemetry::install_metrics()?;
    let settings = EmbeddedConfig {
        retention_bytes_max: RETENTION_BYTES_MAX,
        ..EmbeddedConfig::default()
    };
    let log = EmbeddedLog::open(log, settings)?;
    let config = GatewayConfig {
        rate_address_verifications_per_s: RATE_PER_S,
        rate_address_bytes_per_s: RATE_PER_S,
        rate_key_receipts_per_s: RATE_PER_S,
        ..GatewayConfig::default()
    };
    let cpu = CpuPool::new("gateway", 0, 1_024)?;
    let shutdown = CancellationToken::new();
    let ending = shutdown.clone();
    tokio::spawn(async move {
        input_ends().await;
        ending.cancel();
    });
    let deps = gateway::Deps {
        limits: receipt::Limits::default(),
        log: Arc::new(log),
        cpu,
        health: Health::new(),
        routes: gateway::Routes::All,
        entries: None,
        registry: None,
        acknowledgement_keys: Arc::new(gateway::AcknowledgementKeys::generate()?),
    };
    gateway::run(listener, config, deps, shutdown).await?;
    Ok(())
}

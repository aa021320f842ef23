//! `receipts relay`: a local agent that signs, spools and sends for programs in any language.
//!
//! - [`socket`]: the Unix socket and the port of this machine
//! - [`intake`]: requests to it, and their answers

pub mod intake;
pub mod socket;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_server::{OpenConnections, ServerConfig, WhenFull, serve};
use receipts_client::{ClientIdentity, ClientOptions, ReceiptSigner, ReceiptsClient, StartError};
use service::cpu::CpuPool;
use service::telemetry::{self, TelemetryConfig};
use tokio_util::sync::CancellationToken;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::key_file::KeyArg;
use crate::send::gateway_arg::GatewayArg;
use intake::{ConnectionOrigin, Intake};
use socket::Sockets;

const AFTER_HELP: &str = "\
Programs POST uses of content, unsigned: one JSON object, an array, or one object a line. The relay makes receipts of \
them, signs them with its key, stores them in the spool, answers 202 with their IDs, and sends them in batches. Once \
it answered, kill -9 and power loss lose nothing: the next relay with this spool sends the rest.

  POST /v1/uses   202 {\"receiptIds\": [...]}; 400 names each fault; 503 if the spool is full
  GET /v1/state   counters
  GET /healthz    200

A use has url, purpose, context, and content or contentHash. Optional: publisher, \
entryId, receiptId, timestamp, and the optional members of usage. docs/relay.md has the details.

A batch leaves the spool with a signed acknowledgement of its bytes, by a published key of the gateway, or with the gateway's own \
refusal. HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name proxies before the gateway; this machine is never behind one.

Whoever may write to the socket signs as this client. SIGTERM or Ctrl-C drains for 5 seconds; the spool has the rest. \
SIGHUP has no effect.

Examples:
  receipts relay --url https://receipts.example.com --key client.key \\
    --spool /var/lib/receipts-relay --socket /run/receipts/relay.sock \\
    --client-id 018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10 \\
    --client-name Atlas --client-version 3.1 --organization 'Example Labs'
  curl --unix-socket /run/receipts/relay.sock http://relay/v1/uses \\
    --json @use.json
  curl --unix-socket /run/receipts/relay.sock http://relay/v1/state

Exit codes:
  0    drained after SIGTERM or Ctrl-C
  2    wrong usage, or the key can't be used; nothing was started
  3    the spool or the socket can't be used
  130  ended by a second signal";

/// Time for requests in progress, and for deliveries, after a signal.
const DRAIN: Duration = Duration::from_secs(5);
/// Of which requests in progress get this much.
const REQUESTS_DRAIN: Duration = Duration::from_secs(2);
/// Time for a connection to the gateway.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// Sign, spool and send uses that local programs report
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Relay {
    #[command(flatten)]
    gateway: GatewayArg,
    #[command(flatten)]
    key: KeyArg,
    /// UUID of the model or product, the same in all its receipts
    #[arg(long, value_name = "UUID", env = "RECEIPTS_CLIENT_ID")]
    client_id: String,
    /// Name of the model or product
    #[arg(long, value_name = "NAME", env = "RECEIPTS_CLIENT_NAME")]
    client_name: String,
    /// Version of the model or product
    #[arg(long, value_name = "VERSION", env = "RECEIPTS_CLIENT_VERSION")]
    client_version: String,
    /// Organization that operates it
    #[arg(long, value_name = "NAME", env = "RECEIPTS_ORGANIZATION")]
    organization: String,
    /// Directory of what isn't acknowledged yet; it is created
    #[arg(long, value_name = "DIR", env = "RECEIPTS_SPOOL")]
    spool: PathBuf,
    /// Unix socket to listen on
    #[arg(
        long,
        value_name = "PATH",
        env = "RECEIPTS_SOCKET",
        default_value = "receipts-relay.sock"
    )]
    socket: PathBuf,
    /// Mode of the socket in octal; 660 lets its group sign, too
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = socket::parse_mode)]
    socket_mode: u32,
    /// Port of this machine to listen on besides, such as 127.0.0.1:8787: every local user can sign
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Largest request, in KiB
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=8_192))]
    body_kib_max: u32,
    /// Connections at one time, on the socket and on the port each
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u16).range(1..=4_096))]
    connections_max: u16,
    /// Receipts in the spool
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u32).range(1..))]
    spool_receipts_max: u32,
    /// Size of the spool, in MiB
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    spool_mib_max: u32,
    /// Hours after which a batch in the spool is given up
    #[arg(long, value_name = "N", default_value = "72", value_parser = clap::value_parser!(u16).range(1..=700))]
    spool_hours_max: u16,
    /// Size of what is retained of acknowledged batches, in MiB; with 0 nothing is
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    acknowledged_mib_max: u32,
    /// Milliseconds after which a batch that isn't full is sent
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    batch_delay_ms: u32,
    /// Requests to the gateway at one time
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(1..=64))]
    requests_max: u16,
}

impl Relay {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let key = self.key.read()?;
        let identity = ClientIdentity {
            id: self.client_id.clone(),
            name: self.client_name.clone(),
            version: self.client_version.clone(),
            organization: self.organization.clone(),
        };
        let signer = ReceiptSigner::new(key, identity)
            .map_err(|error| CommandFailure::Input(format!("the gateway would refuse this client: {error}")))?;
        telemetry::init_logging(&TelemetryConfig::default()).map_err(CommandFailure::input)?;
        // The spool and the socket are their owner's alone.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("relay")
            .enable_all()
            .build()
            .map_err(CommandFailure::unavailable)?;
        runtime.block_on(self.relay(signer)).map(|()| CommandOutcome::Good)
    }

    async fn relay(self, signer: ReceiptSigner) -> Result<(), CommandFailure> {
        let shutdown = service::shutdown::signals().map_err(CommandFailure::unavailable)?;
        let gateway = self.gateway.client(CONNECT_WAIT)?;
        let connections_max = usize::from(self.connections_max);
        let cpu = CpuPool::new("relay", 0, 2 * connections_max).map_err(CommandFailure::unavailable)?;
        let client = ReceiptsClient::start(&gateway, signer, self.options()).map_err(|error| match error {
            StartError::Options(_) => CommandFailure::input(error),
            error => CommandFailure::unavailable(error),
        })?;
        let sockets = Sockets::bind(&self.socket, self.socket_mode, self.listen)?;
        let waiting = client.counters().queued;
        tracing::info!(
            socket = %self.socket.display(),
            listen = ?sockets.address(),
            gateway = self.gateway.url,
            spool = %self.spool.display(),
            waiting,
            "the relay listens"
        );
        let intake = Arc::new(Intake::new(client, cpu, self.body_kib_max as usize * 1_024));
        let ended = serve_all(sockets, &intake, self.server(), &shutdown).await;
        let is_done = intake.client().close(DRAIN.saturating_sub(ended.elapsed())).await;
        let waiting = intake.client().counters().queued;
        tracing::info!(
            is_done,
            waiting,
            "the relay ended; the next one with this spool sends what waits"
        );
        Ok(())
    }

    fn options(&self) -> ClientOptions {
        ClientOptions {
            spool_dir: Some(self.spool.clone()),
            batch_delay: Duration::from_millis(self.batch_delay_ms.into()),
            queue_receipts_max: self.spool_receipts_max as usize,
            queue_bytes_max: (self.spool_mib_max as usize) << 20,
            requests_in_flight_max: self.requests_max.into(),
            acknowledged_bytes_max: u64::from(self.acknowledged_mib_max) << 20,
            spool_age_max: Duration::from_secs(u64::from(self.spool_hours_max) * 3_600),
            ..ClientOptions::default()
        }
    }

    fn server(&self) -> ServerConfig {
        let connections_max = usize::from(self.connections_max);
        ServerConfig {
            name: "relay",
            connections_max,
            when_full: WhenFull::CloseIdlest,
            address_connections_max: connections_max,
            unlimited: Vec::new(),
            head_bytes_max: 16 << 10,
            streams_max: 16,
            half_close: true,
            head_wait_max: Duration::from_secs(10),
            idle_wait_max: Duration::from_secs(60),
            unread_wait_max: Duration::from_secs(10),
            drain_delay: Duration::ZERO,
            drain_wait_max: REQUESTS_DRAIN,
        }
    }
}

/// Serves until `shutdown`, and lets requests in progress end. Returns the instant of the signal.
async fn serve_all(
    sockets: Sockets,
    intake: &Arc<Intake>,
    config: ServerConfig,
    shutdown: &CancellationToken,
) -> Instant {
    let handlers = |caller: ConnectionOrigin| {
        let intake = Arc::clone(intake);
        move |_| {
            let intake = Arc::clone(&intake);
            move |request| Arc::clone(&intake).answer(request, caller)
        }
    };
    let open = || Arc::new(OpenConnections::default());
    let (socket, port) = sockets.split();
    let local = serve(
        socket,
        config.clone(),
        open(),
        handlers(ConnectionOrigin::Socket),
        shutdown,
    );
    let other = async {
        match port {
            Some(port) => serve(port, config, open(), handlers(ConnectionOrigin::Port), shutdown).await,
            None => 0,
        }
    };
    let signal = async {
        shutdown.cancelled().await;
        Instant::now()
    };
    let (_, _, ended) = tokio::join!(local, other, signal);
    ended
}

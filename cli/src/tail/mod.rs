//! `receipts tail`: the live stream of the analytics API in a terminal.
//!
//! ```text
//! connection (HTTP) ─ bytes ─> event_reader ─ events ─> display (lines, or NDJSON)
//! ```
//!
//! - [`connection`]: one stream, until it ends or breaks
//! - [`event_reader`]: server-sent events out of its bytes
//! - [`display`]: what of them is written, and how

mod connection;
mod display;
mod event_reader;

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use service::retry::Pauses;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::service_address::ServiceAddress;
use crate::service_client::ServiceClient;
use connection::{LiveStream, StreamFailure};
use display::ReceiptDisplay;

/// Bounds of the pauses between connections, in milliseconds.
const PAUSE_MS_MIN: u64 = 500;
const PAUSE_MS_MAX: u64 = 15_000;
/// The longest pause that a server's request is followed for.
const REQUESTED_PAUSE_MAX: Duration = Duration::from_secs(60);

const AFTER_HELP: &str = "\
Shows each counted receipt of the key's domains from now on, within about a second. A receipt that arrived before its \
domain was verified isn't shown. A broken connection is opened again and continues behind the last event, so nothing is \
left out or shown twice.

A terminal gets a line for each receipt and today's totals below them; --json, a file or a pipe gets NDJSON: \
{\"event\":\"receipt\",\"id\",\"receipt\"}, and {\"event\":\"reload\",\"id\",\"reason\"} where more changed than is sent one \
by one. The variable keeps the key out of the list of processes.

Examples:
  export RECEIPTS_API_KEY=$(receipts keys create --domain news.example --json |
    jq -r .apiKey)
  receipts tail
  receipts tail --url http://127.0.0.1:8080 --domain news.example
  receipts tail --count 100 | jq -r .receipt.clientName | sort | uniq -c

Exit codes:
  0  ended by Ctrl-C or after --count receipts
  2  wrong usage, or the API key is unknown, expired, revoked or may not read
  3  the service can't be reached at the beginning";

/// Follow the receipts of a publisher as they are counted
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct TailCommand {
    #[command(flatten)]
    service: ServiceAddress,
    /// An API key with the scope `read`, as `receipts keys create` makes it
    #[arg(long, value_name = "KEY", env = "RECEIPTS_API_KEY", hide_env_values = true)]
    api_key: String,
    /// Only this domain of the key's account
    #[arg(long, value_name = "D")]
    domain: Option<String>,
    /// Time zone of the times and of the totals' day, by its IANA name
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// Write NDJSON on a terminal, too
    #[arg(long)]
    json: bool,
    /// Add the totals of the day to the NDJSON: {"event":"totals","id","totals"}
    #[arg(long)]
    totals: bool,
    /// End after N receipts
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Continue behind an event, by the `id` of its line
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

impl TailCommand {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let zone = jiff::tz::TimeZone::get(&self.tz).map_err(|_| {
            CommandFailure::Input(format!(
                "--tz {}: there is no such time zone; Europe/Berlin is one",
                self.tz
            ))
        })?;
        let client = ServiceClient::new(&self.service.analytics()?, self.service.cacert.as_deref())?;
        let is_terminal = stdout().is_terminal() && !self.json;
        let mut display = if is_terminal {
            ReceiptDisplay::terminal(zone, self.count)
        } else {
            ReceiptDisplay::ndjson(self.totals, self.count)
        };
        crate::runtime::block_on(async {
            let ended = tokio::select! {
                ended = self.follow(&client, &mut display) => ended,
                _ = tokio::signal::ctrl_c() => Ok(CommandOutcome::Good),
            };
            display.close();
            ended
        })
    }

    /// Follows stream after stream.
    async fn follow(
        &self,
        client: &ServiceClient,
        display: &mut ReceiptDisplay,
    ) -> Result<CommandOutcome, CommandFailure> {
        let mut last_id = self.after.clone();
        let mut pauses = Pauses::new(PAUSE_MS_MIN, PAUSE_MS_MAX);
        let mut was_open = false;
        loop {
            let opened = LiveStream::open(client, &self.query(), &self.api_key, last_id.as_deref()).await;
            let (reason, requested) = match opened {
                Ok(mut stream) => {
                    if !std::mem::replace(&mut was_open, true) {
                        display.note(&format!("following {}; Ctrl-C ends", client.url("")));
                    }
                    let ended = loop {
                        match stream.next().await {
                            Ok(event) => {
                                pauses = Pauses::new(PAUSE_MS_MIN, PAUSE_MS_MAX);
                                if event.id.is_some() {
                                    last_id.clone_from(&event.id);
                                }
                                if display.show(&event)? {
                                    return Ok(CommandOutcome::Good);
                                }
                            }
                            Err(ended) => break ended,
                        }
                    };
                    (ended, stream.pause())
                }
                Err(StreamFailure::Refused(failure)) => return Err(failure),
                Err(StreamFailure::Broken(reason, _)) if !was_open => return Err(CommandFailure::Unavailable(reason)),
                Err(ended) => {
                    let requested = ended.pause();
                    (ended, requested)
                }
            };
            let pause = pauses.next_wait().max(requested.min(REQUESTED_PAUSE_MAX));
            display.note(&format!("{reason}; connecting again in {:.1} s", pause.as_secs_f64()));
            tokio::time::sleep(pause).await;
        }
    }

    fn query(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("tz", &self.tz);
        if let Some(domain) = &self.domain {
            query.append_pair("domain", domain);
        }
        query.finish()
    }
}

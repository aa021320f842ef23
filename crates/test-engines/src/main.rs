//! `test-engines kafka redis postgres [-- COMMAND...]`: starts these engines and runs a command
//! with the variables that lead our services to them, or prints the variables and waits to be
//! ended. The engines and their data are gone afterwards.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use test_engines::{Kafka, Postgres, Redis};

const USAGE: &str = "usage: test-engines [kafka] [redis] [postgres] [-- COMMAND [ARGUMENT...]]";
const DATABASE: &str = "receipts";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "test-engines: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut halves = arguments.splitn(2, |argument| argument == "--");
    let names = halves.next().unwrap_or_default();
    let command = halves.next().unwrap_or_default();
    if names.is_empty() {
        bail!("{USAGE}");
    }
    let (mut kafka, mut redis, mut postgres) = (None, None, None);
    for name in names {
        match name.as_str() {
            "kafka" => kafka = Some(Kafka::start()?),
            "redis" => redis = Some(Redis::start()?),
            "postgres" => postgres = Some(Postgres::start()?),
            other => bail!("no engine `{other}`; {USAGE}"),
        }
    }
    let mut variables = Vec::new();
    if let Some(kafka) = &kafka {
        variables.push(("RECEIPTS_KAFKA_BROKERS", kafka.bootstrap().to_owned()));
        variables.push(("RECEIPTS_KAFKA_REPLICATION_FACTOR", "1".to_owned()));
        variables.push(("RECEIPTS_KAFKA_MIN_INSYNC_REPLICAS", "1".to_owned()));
    }
    if let Some(redis) = &redis {
        variables.push(("RECEIPTS_REDIS_URL", redis.url()));
    }
    if let Some(postgres) = &postgres {
        postgres.create_database(DATABASE)?;
        variables.push(("RECEIPTS_ACCOUNTS_URL", postgres.url(DATABASE)));
    }
    let Some((program, arguments)) = command.split_first() else {
        let mut out = std::io::stdout();
        for (name, value) in variables {
            writeln!(out, "export {name}='{value}'")?;
        }
        out.flush()?;
        // Ended by a signal, and the engines with us.
        loop {
            std::thread::park();
        }
    };
    let ended = Command::new(program).args(arguments).envs(variables).status();
    let code = ended.with_context(|| format!("starting {program}"))?.code();
    Ok(code
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

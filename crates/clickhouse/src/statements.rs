//! The threads that run statements on the embedded engine.
//!
//! libchdb's calls block, so they run on plain threads of their own, never on tokio's. Each thread
//! owns one connection and opens a new one after any error. Queries and inserts have separate
//! threads: slow dashboards never hold up the verifier.

use std::ffi::CString;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::chdb::{Chdb, ChdbConnection, EngineFailure};

/// ClickHouse's NETWORK_ERROR: the engine gave no connection, which may pass.
const REFUSED: u32 = 210;

/// A statement with all that it needs.
#[derive(Debug)]
pub(crate) struct Statement {
    /// The database that unqualified names are resolved in.
    pub(crate) database: String,
    /// Settings for this statement only, with values as SQL literals.
    pub(crate) settings: Vec<(String, String)>,
    /// The SQL; of an insert, without its `FORMAT`.
    pub(crate) sql: String,
    /// The output format of a query, the input format of an insert.
    pub(crate) format: String,
    /// Kind of the statement.
    pub(crate) kind: StatementKind,
}

/// A query or an insert.
#[derive(Debug)]
pub(crate) enum StatementKind {
    /// Anything that answers with rows or nothing, with its bound parameters.
    Query(Vec<(String, String)>),
    /// An insert with its whole body: nothing reaches the engine before the client has sent all of
    /// it.
    Insert(Vec<Bytes>),
}

/// Outcome of a statement.
#[derive(Debug)]
pub(crate) struct StatementOutcome {
    /// A query's output.
    pub(crate) output: Bytes,
    /// Rows an insert wrote.
    pub(crate) rows_written: u64,
}

/// Why a statement didn't run to its end.
#[derive(Debug)]
pub(crate) enum StatementError {
    /// Too many are waiting.
    Busy,
    /// The engine is closing.
    Closed,
    /// The engine's words.
    Engine(EngineFailure),
}

struct StatementJob {
    statement: Statement,
    reply: oneshot::Sender<Result<StatementOutcome, StatementError>>,
}

/// Opener of connections: the same arguments every time.
pub(crate) struct Opener {
    chdb: Chdb,
    arguments: Vec<CString>,
    /// Settings every connection starts with, restored after a statement that changed them.
    defaults: Vec<(String, String)>,
}

impl Opener {
    /// `defaults` are query-level settings with values as SQL literals. `None` if an argument holds
    /// a zero byte.
    pub(crate) fn new(chdb: Chdb, arguments: &[String], defaults: Vec<(String, String)>) -> Option<Self> {
        let arguments = arguments.iter().map(|argument| CString::new(argument.as_str()).ok());
        Some(Self {
            chdb,
            arguments: arguments.collect::<Option<Vec<_>>>()?,
            defaults,
        })
    }

    /// Opens a connection and applies the defaults.
    pub(crate) fn open(&self) -> Result<ChdbConnection, EngineFailure> {
        let refused = || EngineFailure {
            code: REFUSED,
            message: "the engine refused a connection".to_owned(),
        };
        let mut connection = self.chdb.connect(&self.arguments).ok_or_else(refused)?;
        if !self.defaults.is_empty() {
            connection.query(set_sql(&self.defaults).as_bytes(), "Null", &[])?;
        }
        Ok(connection)
    }

    /// The value a setting returns to after a statement that changed it.
    fn resting(&self, name: &str) -> String {
        let existing = self.defaults.iter().find(|(existing, _)| existing == name);
        existing.map_or_else(|| "DEFAULT".to_owned(), |(_, value)| value.clone())
    }
}

fn set_sql(settings: &[(String, String)]) -> String {
    let pairs: Vec<String> = settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    format!("SET {}", pairs.join(", "))
}

/// A lane: threads, and the bounded queue before them.
pub(crate) struct Lane {
    jobs: Mutex<Option<Sender<StatementJob>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Lane {
    /// Starts `threads` threads behind a queue of `waiting_max`.
    pub(crate) fn start(name: &str, threads: usize, waiting_max: usize, opener: &Arc<Opener>) -> std::io::Result<Self> {
        let (jobs, queue) = crossbeam_channel::bounded::<StatementJob>(waiting_max);
        let mut started = Vec::with_capacity(threads);
        for number in 0..threads {
            let queue = queue.clone();
            let opener = opener.clone();
            // ClickHouse's parser and planner recurse: give them what a process's main thread has.
            let thread = std::thread::Builder::new()
                .name(format!("chdb-{name}-{number}"))
                .stack_size(8 << 20)
                .spawn(move || work(&queue, &opener))?;
            started.push(thread);
        }
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            threads: Mutex::new(started),
        })
    }

    /// Queues a statement and waits for its outcome.
    pub(crate) async fn run(&self, statement: Statement) -> Result<StatementOutcome, StatementError> {
        let (reply, outcome) = oneshot::channel();
        let jobs = self.jobs.lock().clone().ok_or(StatementError::Closed)?;
        jobs.try_send(StatementJob { statement, reply })
            .map_err(|error| match error {
                TrySendError::Full(_) => StatementError::Busy,
                TrySendError::Disconnected(_) => StatementError::Closed,
            })?;
        // While this sender lives the threads don't end.
        drop(jobs);
        outcome.await.unwrap_or(Err(StatementError::Closed))
    }

    /// Runs what is queued, then ends the threads and closes their connections. Blocks.
    pub(crate) fn stop(&self) {
        *self.jobs.lock() = None;
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the embedded warehouse panicked");
            }
        }
    }
}

fn work(queue: &Receiver<StatementJob>, opener: &Opener) {
    let mut connection: Option<(ChdbConnection, String)> = None;
    while let Ok(StatementJob { statement, reply }) = queue.recv() {
        if reply.is_closed() {
            // The client went away while it waited.
            continue;
        }
        let result = run_one(&mut connection, opener, statement);
        if result.is_err() {
            // A failed statement may leave output or settings behind: never use this connection
            // again.
            connection = None;
        }
        // The client may have gone away meanwhile; the outcome is then nobody's.
        let _ = reply.send(result.map_err(StatementError::Engine));
    }
}

fn run_one(
    slot: &mut Option<(ChdbConnection, String)>,
    opener: &Opener,
    statement: Statement,
) -> Result<StatementOutcome, EngineFailure> {
    if slot.is_none() {
        *slot = Some((opener.open()?, "default".to_owned()));
    }
    let Some((connection, database)) = slot else {
        return Err(EngineFailure {
            code: REFUSED,
            message: "no connection".to_owned(),
        });
    };
    if *database != statement.database {
        connection.query(format!("USE `{}`", statement.database).as_bytes(), "Null", &[])?;
        database.clone_from(&statement.database);
    }
    // Most requests carry what holds anyway: then nothing needs to be set or reset.
    let differing = |(name, value): &(String, String)| opener.resting(name) != *value;
    let settings: Vec<(String, String)> = statement.settings.into_iter().filter(differing).collect();
    if !settings.is_empty() {
        connection.query(set_sql(&settings).as_bytes(), "Null", &[])?;
    }
    let outcome = match statement.kind {
        StatementKind::Query(params) => {
            let output = connection.query(statement.sql.as_bytes(), &statement.format, &params)?;
            StatementOutcome {
                output,
                rows_written: 0,
            }
        }
        StatementKind::Insert(chunks) => {
            let rows_written = connection.insert(statement.sql.as_bytes(), &statement.format, chunks.into_iter())?;
            StatementOutcome {
                output: Bytes::new(),
                rows_written,
            }
        }
    };
    if !settings.is_empty() {
        let resting = |(name, _): (String, String)| {
            let value = opener.resting(&name);
            (name, value)
        };
        let resting: Vec<_> = settings.into_iter().map(resting).collect();
        if let Err(failure) = connection.query(set_sql(&resting).as_bytes(), "Null", &[]) {
            // The statement itself is done: drop the connection with its settings instead of
            // failing it.
            tracing::warn!(
                message = failure.message,
                "settings could not be reset; the connection is closed"
            );
            *slot = None;
        }
    }
    Ok(outcome)
}

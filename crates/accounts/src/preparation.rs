//! The tables, prepared once for each process: at the opening, or where the database came up later,
//! at the first question after.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlx::{AnyConnection, Connection};
use tokio::sync::Mutex;

use crate::AccountsError;
use crate::engine::DatabaseEngine;
use crate::schema;

/// Between two tries. Questions in between fail at once with what the last one met.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Whether the tables are of this version yet.
pub(crate) struct Preparation {
    engine: DatabaseEngine,
    url: String,
    done: AtomicBool,
    last: Mutex<Option<FailedAttempt>>,
}

/// A try that came to nothing.
struct FailedAttempt {
    at: Instant,
    why: String,
}

impl Preparation {
    pub(crate) fn new(engine: DatabaseEngine, url: String) -> Self {
        Self {
            engine,
            url,
            done: AtomicBool::new(false),
            last: Mutex::new(None),
        }
    }

    /// Prepares the tables if that wasn't done; whoever asks meanwhile waits for the one try under
    /// way.
    pub(crate) async fn ensure(&self) -> Result<(), AccountsError> {
        if self.done.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut last = self.last.lock().await;
        if self.done.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < RETRY_EVERY) {
            return Err(AccountsError::Open(last.why.clone()));
        }
        // Noted before the try: its caller may give up waiting, and then nothing is noted after it.
        let why = "the database didn't answer in time".to_owned();
        let at = Instant::now();
        *last = Some(FailedAttempt { at, why });
        let tried = self.prepare().await;
        match &tried {
            Ok(()) => {
                *last = None;
                self.done.store(true, Ordering::Release);
            }
            Err(error) => {
                let why = match error {
                    AccountsError::Open(why) => why.clone(),
                    other => other.to_string(),
                };
                let at = Instant::now();
                *last = Some(FailedAttempt { at, why });
            }
        }
        tried
    }

    async fn prepare(&self) -> Result<(), AccountsError> {
        let connected = AnyConnection::connect(&self.url).await;
        let mut connection = connected.map_err(|error| AccountsError::Open(error.to_string()))?;
        schema::migrate(self.engine, &mut connection).await?;
        Ok(connection.close().await?)
    }
}

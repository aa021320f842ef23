//! A log in memory that does what the test wants.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::BoxFuture;
use receipt_log::{AppendError, Appended, LogWriter, Position, Record};
use tokio::sync::watch;

/// Behaviour of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Takes everything.
    Takes,
    /// The log's queue is full.
    Busy,
    /// The log's disk is full.
    Unavailable,
    /// Says nothing until the mood changes.
    Silent,
}

/// Keeps every record.
pub struct MemoryLog {
    mood: watch::Sender<Mood>,
    records: Mutex<Vec<Record>>,
    /// Milliseconds by which its clock is ahead.
    pub ahead_ms: AtomicI64,
}

impl MemoryLog {
    pub fn new(mood: Mood) -> Self {
        Self {
            mood: watch::Sender::new(mood),
            records: Mutex::default(),
            ahead_ms: AtomicI64::new(0),
        }
    }

    pub fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    pub fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }
}

impl LogWriter for MemoryLog {
    fn append(&self, record: Record) -> BoxFuture<'_, Result<Appended, AppendError>> {
        Box::pin(async move {
            let mut mood = self.mood.subscribe();
            let mood = *mood.wait_for(|mood| *mood != Mood::Silent).await.unwrap();
            match mood {
                Mood::Busy => return Err(AppendError::Busy),
                Mood::Unavailable => return Err(AppendError::Unavailable("no space left on device".to_owned())),
                Mood::Takes | Mood::Silent => {}
            }
            let mut records = self.records.lock().unwrap();
            records.push(record);
            Ok(Appended {
                position: Position {
                    epoch: 1,
                    partition: 0,
                    offset: records.len() as u64 - 1,
                },
                appended_at_ms: service::instant::now_ms() + self.ahead_ms.load(Ordering::Relaxed),
            })
        })
    }

    fn writable(&self) -> Result<(), String> {
        match *self.mood.borrow() {
            Mood::Takes | Mood::Silent => Ok(()),
            Mood::Busy | Mood::Unavailable => Err("no space left on device".to_owned()),
        }
    }
}

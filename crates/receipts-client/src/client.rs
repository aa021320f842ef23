//! The client: records uses and delivers them in the background.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use crate::acknowledged_log::AcknowledgedLog;
use crate::content_use::{Use, UseError};
use crate::counters::ClientCounters;
use crate::delivery::{ClientState, deliver};
use crate::gateway_client::GatewayClient;
use crate::io_thread::IoThread;
use crate::options::ClientOptions;
use crate::queue::{DeliveryQueue, PutError};
use crate::reports::{self, refused, report};
use crate::signer::{ReceiptSigner, SignedReceipt};
use crate::spool::Spool;
use crate::sync;

/// Time for the tasks to end by themselves when the client is closed.
const END_WAIT_MAX: Duration = Duration::from_millis(200);

/// Why a client can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An option is out of bounds.
    #[error("{0}")]
    Options(String),
    /// The spool can't be used.
    #[error("the spool {} can't be used: {source}", path.display())]
    Spool {
        /// Directory of the spool.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system gives no thread.
    #[error("no thread can be started: {0}")]
    Thread(#[source] io::Error),
}

/// Why a use isn't recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The use can't become a receipt.
    #[error(transparent)]
    Use(#[from] UseError),
    /// As many receipts as allowed wait for their acknowledgement.
    #[error("the queue is full: record again later, or raise queue_receipts_max and queue_bytes_max")]
    QueueFull,
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
    /// The spool can't be written. Of several uses, a part may be recorded.
    #[error("the spool can't be written: {0}")]
    Spool(#[source] io::Error),
}

/// Signs uses, batches them and delivers them to a gateway.
///
/// With a spool, what [`record`](Self::record) returned survives the end of the process, and the
/// next client with this directory delivers it. Dropping a client ends its tasks at once: without a
/// spool, call [`close`](Self::close) before.
pub struct ReceiptsClient {
    shared: Arc<ClientState>,
    tasks: Mutex<JoinSet<()>>,
}

impl ReceiptsClient {
    /// Takes over what earlier processes left in the spool, and begins to deliver it. Reads the
    /// spool, so call it before anything waits; on a tokio runtime.
    pub fn start(gateway: &GatewayClient, signer: ReceiptSigner, options: ClientOptions) -> Result<Self, StartError> {
        options.validate().map_err(StartError::Options)?;
        let unusable = |source| StartError::Spool {
            path: options.spool_dir.clone().unwrap_or_default(),
            source,
        };
        let spool = options.spool_dir.as_deref();
        let spool = spool
            .map(|directory| Spool::open(directory, options.retained_bytes_max))
            .transpose();
        let spool = spool.map_err(unusable)?.map(Arc::new);
        let mut queue = DeliveryQueue::new(options.clone(), spool.clone());
        let damages = queue.adopt(&signer).map_err(unusable)?;
        let damaged: Vec<_> = damages.iter().flat_map(reports::damaged).collect();
        queue.count_damaged(damaged.len());
        for receipt in &damaged {
            report(&options, receipt);
        }
        let acknowledged = options
            .spool_dir
            .as_deref()
            .filter(|_| options.acknowledged_bytes_max > 0);
        let acknowledged = acknowledged.map(|spool| AcknowledgedLog::new(spool, options.acknowledged_bytes_max));
        let shared = Arc::new(ClientState {
            signer,
            acknowledged: acknowledged.map(Mutex::new),
            options,
            spool,
            queue: Mutex::new(queue),
            io: IoThread::start().map_err(StartError::Thread)?,
            changed: Notify::new(),
            written: Notify::new(),
            sync_requested: Notify::new(),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..shared.options.requests_in_flight_max {
            tasks.spawn(deliver(Arc::clone(&shared), gateway.clone()));
        }
        if shared.spool.is_some() {
            tasks.spawn(sync::sync_regularly(Arc::clone(&shared)));
        }
        Ok(Self {
            shared,
            tasks: Mutex::new(tasks),
        })
    }

    /// Signs and queues a use, and returns the ID of its receipt. Makes no request. Waits for up to
    /// `queue_wait` if the queue is full.
    ///
    /// # Errors
    /// [`RecordError`]; the use isn't recorded then.
    pub async fn record(&self, content_use: &Use) -> Result<Uuid, RecordError> {
        let receipt = self.sign(content_use)?;
        let id = receipt.id;
        self.put(&[receipt]).await?;
        Ok(id)
    }

    /// Makes a use a receipt, which isn't queued. For callers with a pool of threads for signing.
    pub fn sign(&self, content_use: &Use) -> Result<SignedReceipt, UseError> {
        self.shared.signer.sign(content_use)
    }

    /// Queues all of `receipts`, or none. Waits for up to `queue_wait` for room.
    ///
    /// # Errors
    /// [`RecordError`]. Only after [`RecordError::Spool`], some of them may be queued.
    pub async fn put(&self, receipts: &[SignedReceipt]) -> Result<(), RecordError> {
        let shared = &self.shared;
        let deadline = Instant::now() + shared.options.queue_wait;
        loop {
            let changed = shared.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let put = shared.queue.lock().put(receipts);
            match put {
                Ok(is_due) => {
                    if is_due {
                        shared.changed.notify_waiters();
                    }
                    shared.written.notify_one();
                    return Ok(());
                }
                Err(PutError::Full) => timeout_at(deadline, changed)
                    .await
                    .map_err(|_| RecordError::QueueFull)?,
                Err(PutError::Closed) => return Err(RecordError::Closed),
                Err(PutError::Spool(error)) => {
                    shared.changed.notify_waiters();
                    return Err(RecordError::Spool(error));
                }
            }
        }
    }

    /// Waits until everything recorded before is on the disk, so that it survives the end of the
    /// machine. Concurrent calls share one flush. Returns at once without a spool.
    ///
    /// # Errors
    /// [`RecordError::Spool`], [`RecordError::Closed`].
    pub async fn sync(&self) -> Result<(), RecordError> {
        if self.shared.spool.is_none() {
            return Ok(());
        }
        let (waiter, synced) = oneshot::channel();
        self.shared.queue.lock().await_sync(waiter);
        self.shared.written.notify_one();
        self.shared.sync_requested.notify_one();
        let result = synced.await.map_err(|_| RecordError::Closed)?;
        result.map_err(|error| RecordError::Spool(io::Error::other(error)))
    }

    /// Sends everything recorded; returns whether all of it has its final answer in time.
    pub async fn flush(&self, wait_max: Duration) -> bool {
        let deadline = Instant::now() + wait_max;
        let last = self.shared.queue.lock().fill();
        self.shared.changed.notify_waiters();
        loop {
            let changed = self.shared.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if self.shared.queue.lock().is_finished(last) {
                return true;
            }
            if timeout_at(deadline, changed).await.is_err() {
                return false;
            }
        }
    }

    /// Flushes for at most `wait_max` and ends; returns whether everything was delivered. The rest
    /// stays in the spool. What isn't there is lost, and reported as `undelivered`.
    pub async fn close(&self, wait_max: Duration) -> bool {
        let is_done = self.flush(wait_max).await;
        self.shared.queue.lock().close();
        self.shared.changed.notify_waiters();
        sync::sync_once(&self.shared).await;
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let ended = async { while tasks.len() > 1 && tasks.join_next().await.is_some() {} };
        // A request in flight is cut off.
        let _ = timeout(END_WAIT_MAX, ended).await;
        tasks.shutdown().await;
        // What the thread is sealing is put back first.
        let _ = timeout(END_WAIT_MAX, self.shared.io.run(|| ())).await;
        let lost = {
            let mut queue = self.shared.queue.lock();
            let lost = queue.abandon_unstored();
            queue.count_refused(lost.len());
            lost
        };
        for receipt in &lost {
            let detail = "the client was closed before the service answered";
            report(&self.shared.options, &refused(receipt, "undelivered", "", detail));
        }
        is_done
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        self.shared.queue.lock().counters()
    }
}

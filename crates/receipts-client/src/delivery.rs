//! The tasks that seal batches and send them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use crate::acknowledged_log::AcknowledgedLog;
use crate::acknowledgement::SignedAcknowledgement;
use crate::batch::{OpenBatch, SealedBatch, receipts_of};
use crate::io_thread::IoThread;
use crate::options::{AcknowledgedBatch, ClientOptions};
use crate::queue::{DeliveryQueue, DeliveryStep};
use crate::reports::{self, refused, report};
use crate::retrying::{ReceiptFault, Refusal, SubmissionOutcome, Transport, Try};
use crate::signer::ReceiptSigner;
use crate::spool::{DamagedFile, Spool};
use crate::submission::Submission;

/// Pause after a failure of the key or of the disk.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// State that the client and its tasks share.
pub(crate) struct ClientState {
    pub(crate) signer: ReceiptSigner,
    pub(crate) options: ClientOptions,
    pub(crate) spool: Option<Arc<Spool>>,
    /// Acknowledged batches that the spool retains.
    pub(crate) acknowledged: Option<Mutex<AcknowledgedLog>>,
    pub(crate) queue: Mutex<DeliveryQueue>,
    pub(crate) io: IoThread,
    /// A step may be due, or a batch ended.
    pub(crate) changed: Notify,
    /// A journal has bytes that aren't on the disk, or somebody waits until none has.
    pub(crate) written: Notify,
    pub(crate) sync_requested: Notify,
}

/// Seals and sends, one batch at a time, until the client is closed.
pub(crate) async fn deliver<T: Transport>(shared: Arc<ClientState>, mut transport: T) {
    loop {
        let changed = shared.changed.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let step = shared.queue.lock().next_step(Instant::now());
        match step {
            DeliveryStep::End => return,
            DeliveryStep::Wait(None) => changed.await,
            DeliveryStep::Wait(Some(until)) => drop(timeout_at(until, changed).await),
            DeliveryStep::Seal(open) => seal(&shared, open).await,
            DeliveryStep::Send(batch) => send(&shared, &mut transport, batch).await,
        }
    }
}

/// Seals on the thread for blocking work, which ends a batch even if this task is aborted
/// meanwhile.
async fn seal(shared: &Arc<ClientState>, mut open: OpenBatch) {
    let ours = Arc::clone(shared);
    let sealed = shared
        .io
        .run(move || match open.seal(&ours.signer, ours.spool.as_deref()) {
            Ok(batch) => ours.queue.lock().sealed(&open, batch),
            Err(error) => {
                tracing::error!(%error, "a batch can't be signed, and is tried again");
                open.not_before = Instant::now() + FAILURE_PAUSE;
                ours.queue.lock().seal_again(open);
            }
        });
    if let Err(error) = sealed.await {
        tracing::error!(%error, "a batch can't be signed or stored");
    }
    shared.changed.notify_waiters();
}

async fn send<T: Transport>(shared: &Arc<ClientState>, transport: &mut T, mut batch: SealedBatch) {
    let body = match read(shared, &batch).await {
        Ok(Ok(body)) => body,
        Ok(Err(damage)) => return report_damage(shared, batch, damage).await,
        Err(error) => {
            tracing::error!(error, "a batch can't be read from the spool, and is tried again");
            return again(shared, batch, FAILURE_PAUSE, false);
        }
    };
    let age_ms_max = shared.options.spool_age_max.as_millis();
    if batch.is_stored && u128::from(batch.name.age_ms()) > age_ms_max {
        let detail = format!("waited in the spool for over {} h", age_ms_max / 3_600_000);
        return refuse_all(shared, batch, &body, "expired", "", &detail).await;
    }
    let submission = Submission::of_batch(body.clone());
    let tried = timeout(shared.options.request_timeout, transport.attempt(&submission)).await;
    let (reason, after, is_strange) = match tried {
        Ok(Try::Ended(SubmissionOutcome::Accepted(acknowledgement))) => {
            return acknowledge(shared, batch, body, acknowledgement).await;
        }
        // A proxy's 413 to one receipt is retried: the gateway may take it.
        Ok(Try::Ended(SubmissionOutcome::Refused(refusal))) if refusal.is_gateways || batch.receipts > 1 => {
            return take_apart(shared, batch, body, refusal).await;
        }
        Ok(Try::Ended(SubmissionOutcome::Refused(refusal))) => {
            let reason = format!("status {}, not a gateway's answer: {}", refusal.status, refusal.detail);
            (reason, None, true)
        }
        Ok(Try::Ended(SubmissionOutcome::Unavailable(reason))) => (reason, None, true),
        Ok(Try::Again {
            reason,
            after,
            is_strange,
        }) => (reason, after, is_strange),
        Err(_) => (
            format!("no answer within {:?}", shared.options.request_timeout),
            None,
            false,
        ),
    };
    batch.attempts += 1;
    let requested = after.unwrap_or_default();
    shared.queue.lock().hold(requested);
    let pause = requested + shared.options.retry_pauses.after(batch.attempts);
    let (attempts, pause_ms) = (batch.attempts, u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
    if is_strange {
        tracing::error!(
            reason,
            attempts,
            pause_ms,
            "a batch isn't acknowledged, and is sent again: check the URL and the proxies before the gateway"
        );
    } else {
        tracing::warn!(
            reason,
            attempts,
            pause_ms,
            "a batch isn't acknowledged, and is sent again"
        );
    }
    again(shared, batch, pause, true);
}

async fn read(shared: &Arc<ClientState>, batch: &SealedBatch) -> Result<Result<Bytes, DamagedFile>, String> {
    if let Some(body) = &batch.body {
        return Ok(Ok(body.clone()));
    }
    let Some(spool) = shared.spool.clone() else {
        return Err("there is no spool".to_owned());
    };
    let name = batch.name.clone();
    let read = shared.io.run(move || spool.read(&name)).await;
    read.and_then(|result| result).map_err(|error| error.to_string())
}

/// Reports the receipts of a file that can't be read, and is moved away or removed.
async fn report_damage(shared: &Arc<ClientState>, mut batch: SealedBatch, mut damage: DamagedFile) {
    if damage.runs.is_empty() {
        damage.runs = vec![Bytes::new(); batch.receipts];
    }
    let damaged = reports::damaged(&damage);
    shared.queue.lock().count_damaged(damaged.len());
    for receipt in &damaged {
        report(&shared.options, receipt);
    }
    // A file that couldn't be moved away isn't deleted.
    batch.is_stored = false;
    end(shared, batch, false, Vec::new()).await;
}

/// Retains an acknowledgement, hands it over, and ends its batch.
async fn acknowledge(
    shared: &Arc<ClientState>,
    batch: SealedBatch,
    body: Bytes,
    acknowledgement: Option<SignedAcknowledgement>,
) {
    if let Some(acknowledgement) = acknowledgement {
        if shared.acknowledged.is_some() {
            let (ours, text, body) = (Arc::clone(shared), acknowledgement.clone(), body.clone());
            let stored = shared.io.run(move || match &ours.acknowledged {
                Some(log) => log.lock().append(text.get(), &body),
                None => Ok(()),
            });
            if let Err(error) = stored.await.and_then(|result| result) {
                tracing::error!(%error, "an acknowledgement can't be stored in `acknowledged`");
            }
        }
        if let Some(on_acknowledged) = &shared.options.on_acknowledged {
            on_acknowledged(&AcknowledgedBatch::new(acknowledgement, body));
        }
    }
    end(shared, batch, true, Vec::new()).await;
}

fn again(shared: &ClientState, mut batch: SealedBatch, pause: Duration, is_retry: bool) {
    batch.not_before = Instant::now() + pause;
    shared.queue.lock().send_again(batch, is_retry);
    shared.changed.notify_waiters();
}

/// Ends a batch on the thread for blocking work, even if this task is aborted meanwhile. Its file
/// is deleted before anybody learns that it ended.
async fn end(shared: &Arc<ClientState>, batch: SealedBatch, is_acknowledged: bool, parts: Vec<SealedBatch>) {
    let ours = Arc::clone(shared);
    let ended = shared.io.run(move || {
        let is_elsewhere = parts.iter().all(|part| part.is_stored);
        if let Some(spool) = ours.spool.as_ref().filter(|_| batch.is_stored && is_elsewhere) {
            spool.delete(&batch.name);
        }
        ours.queue.lock().end(&batch, is_acknowledged, parts);
    });
    if let Err(error) = ended.await {
        tracing::error!(%error, "the next process sends a batch again that has ended");
    }
    shared.changed.notify_waiters();
}

/// Removes the receipts that the service named, and sends the others in new batches.
async fn take_apart(shared: &Arc<ClientState>, batch: SealedBatch, body: Bytes, refusal: Refusal) {
    let receipts = receipts_of(&body);
    let is_too_large = refusal.status == 413;
    let mut faults: Vec<Option<ReceiptFault>> = receipts.iter().map(|_| None).collect();
    for fault in refusal.receipts.into_iter().rev().filter(|_| !is_too_large) {
        let index = fault.index;
        if let Some(slot) = faults.get_mut(index) {
            *slot = Some(fault);
        }
    }
    let (named, others): (Vec<_>, Vec<_>) = receipts.into_iter().zip(faults).partition(|(_, fault)| fault.is_some());
    let others: Vec<Bytes> = others.into_iter().map(|(receipt, _)| receipt).collect();
    let parts: Vec<Vec<Bytes>> = if is_too_large && others.len() > 1 {
        others.chunks(others.len().div_ceil(2)).map(<[Bytes]>::to_vec).collect()
    } else if named.is_empty() {
        return refuse_all(shared, batch, &body, &refusal.code, &refusal.pointer, &refusal.detail).await;
    } else if others.is_empty() {
        Vec::new()
    } else {
        vec![others]
    };
    // Stored before the old batch is deleted: a repeated receipt counts once, a lost one never.
    let (ours, sequence) = (Arc::clone(shared), batch.sequence);
    let sealed = shared.io.run(move || seal_parts(&ours, sequence, parts)).await;
    let parts = match sealed.and_then(|result| result) {
        Ok(parts) => parts,
        Err(error) => {
            tracing::error!(%error, "the rest of a refused batch can't be signed, and is tried again");
            return again(shared, batch, FAILURE_PAUSE, false);
        }
    };
    for (receipt, fault) in &named {
        if let Some(fault) = fault {
            let refused = refused(receipt, &fault.code, &fault.pointer, &fault.detail);
            report(&shared.options, &refused);
        }
    }
    shared.queue.lock().count_refused(named.len());
    end(shared, batch, false, parts).await;
}

fn seal_parts(shared: &ClientState, sequence: u64, parts: Vec<Vec<Bytes>>) -> std::io::Result<Vec<SealedBatch>> {
    let seal = |receipts: Vec<Bytes>| {
        let mut open = OpenBatch::new(sequence);
        for receipt in receipts {
            let ours = shared.signer.with_this_key(receipt).map_err(std::io::Error::other)?;
            open.extend(std::iter::once(ours));
        }
        open.seal(&shared.signer, shared.spool.as_deref())
    };
    parts.into_iter().map(seal).collect()
}

async fn refuse_all(
    shared: &Arc<ClientState>,
    batch: SealedBatch,
    body: &Bytes,
    code: &str,
    pointer: &str,
    detail: &str,
) {
    let receipts = receipts_of(body);
    tracing::error!(
        code,
        pointer,
        detail,
        receipts = receipts.len(),
        "a whole batch was refused"
    );
    if let Some(spool) = shared.spool.clone().filter(|_| batch.is_stored) {
        let name = batch.name.clone();
        if let Err(error) = shared.io.run(move || spool.reject(&name)).await {
            tracing::error!(%error, "a refused batch can't be moved to `rejected`, and is deleted");
        }
    }
    for receipt in &receipts {
        report(&shared.options, &refused(receipt, code, pointer, detail));
    }
    shared.queue.lock().count_refused(receipts.len());
    end(shared, batch, false, Vec::new()).await;
}

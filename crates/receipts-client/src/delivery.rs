//! The tasks that seal batches and send them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use crate::batch::{OpenBatch, SealedBatch, SealedBody, receipt_id, receipts_of};
use crate::io_thread::IoThread;
use crate::options::{ClientOptions, RefusedReceipt};
use crate::queue::{DeliveryQueue, DeliveryStep};
use crate::retrying::{ReceiptFault, Refusal, SubmissionOutcome, Transport, Try};
use crate::signer::ReceiptSigner;
use crate::spool::Spool;
use crate::submission::Submission;

/// Pause after a failure of the key or of the disk.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// State that the client and its tasks share.
pub(crate) struct ClientState {
    pub(crate) signer: ReceiptSigner,
    pub(crate) options: ClientOptions,
    pub(crate) spool: Option<Arc<Spool>>,
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

async fn seal(shared: &Arc<ClientState>, open: OpenBatch) {
    let ours = Arc::clone(shared);
    let sealed = shared.io.run(move || {
        let sealed = open.seal(&ours.signer, ours.spool.as_deref());
        (open, sealed)
    });
    match sealed.await {
        Ok((open, Ok(batch))) => shared.queue.lock().sealed(open.bytes, batch),
        Ok((mut open, Err(error))) => {
            tracing::error!(%error, "a batch can't be signed or stored, and is tried again");
            open.not_before = Instant::now() + FAILURE_PAUSE;
            shared.queue.lock().seal_again(open);
        }
        Err(error) => tracing::error!(%error, "a batch can't be signed or stored"),
    }
    shared.changed.notify_waiters();
}

async fn send<T: Transport>(shared: &Arc<ClientState>, transport: &mut T, mut batch: SealedBatch) {
    let body = match read(shared, &batch).await {
        Ok(Some(body)) => body,
        // The damaged file was moved away.
        Ok(None) => return end(shared, batch, false, Vec::new()).await,
        Err(error) => {
            tracing::error!(error, "a batch can't be read from the spool, and is tried again");
            return again(shared, batch, FAILURE_PAUSE, false);
        }
    };
    let age_ms_max = shared.options.spool_age_max.as_millis();
    if batch
        .body
        .file()
        .is_some_and(|name| u128::from(name.age_ms()) > age_ms_max)
    {
        let detail = format!("waited in the spool for over {} h", age_ms_max / 3_600_000);
        return refuse_all(shared, batch, &body, "expired", "", &detail).await;
    }
    let submission = Submission::of_batch(body.clone());
    let tried = timeout(shared.options.request_timeout, transport.attempt(&submission)).await;
    let (reason, after) = match tried {
        Ok(Try::Ended(SubmissionOutcome::Accepted)) => return end(shared, batch, true, Vec::new()).await,
        Ok(Try::Ended(SubmissionOutcome::Refused(refusal))) if refusal.decides_receipts() => {
            return take_apart(shared, batch, body, refusal).await;
        }
        // Such as a proxy's page for a wrong path.
        Ok(Try::Ended(SubmissionOutcome::Refused(refusal))) => {
            let reason = format!(
                "{} {}, not from a gateway: check the URL",
                refusal.status, refusal.detail
            );
            (reason, None)
        }
        Ok(Try::Ended(SubmissionOutcome::Unavailable(reason))) => (reason, None),
        Ok(Try::Again { reason, after }) => (reason, after),
        Err(_) => (format!("no answer within {:?}", shared.options.request_timeout), None),
    };
    batch.attempts += 1;
    let requested = after.unwrap_or_default();
    shared.queue.lock().hold(requested);
    let pause = requested + shared.options.retry_pauses.after(batch.attempts);
    tracing::warn!(
        reason,
        attempts = batch.attempts,
        pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
        "a batch isn't acknowledged, and is sent again"
    );
    again(shared, batch, pause, true);
}

async fn read(shared: &Arc<ClientState>, batch: &SealedBatch) -> Result<Option<Bytes>, String> {
    let name = match (&batch.body, &shared.spool) {
        (SealedBody::Memory(body), _) => return Ok(Some(body.clone())),
        (SealedBody::File(name), Some(spool)) => (name.clone(), Arc::clone(spool)),
        (SealedBody::File(_), None) => return Ok(None),
    };
    let read = shared.io.run(move || name.1.read(&name.0)).await;
    read.and_then(|result| result).map_err(|error| error.to_string())
}

fn again(shared: &ClientState, mut batch: SealedBatch, pause: Duration, is_retry: bool) {
    batch.not_before = Instant::now() + pause;
    shared.queue.lock().send_again(batch, is_retry);
    shared.changed.notify_waiters();
}

async fn end(shared: &Arc<ClientState>, batch: SealedBatch, is_acknowledged: bool, parts: Vec<SealedBatch>) {
    if let (Some(name), Some(spool)) = (batch.body.file().cloned(), shared.spool.clone()) {
        // If the thread has ended, the next process sends the batch again.
        let _ = shared.io.run(move || spool.delete(&name)).await;
    }
    shared.queue.lock().end(&batch, is_acknowledged, parts);
    shared.changed.notify_waiters();
}

/// Removes the receipts that the service named, and sends the others in new batches.
async fn take_apart(shared: &Arc<ClientState>, batch: SealedBatch, body: Bytes, refusal: Refusal) {
    let receipts = receipts_of(&body);
    let is_too_large = refusal.status == 413;
    let mut faults: Vec<Option<ReceiptFault>> = receipts.iter().map(|_| None).collect();
    for fault in refusal.receipts.into_iter().rev().filter(|_| !is_too_large) {
        let index = fault.index;
        if let Some(place) = faults.get_mut(index) {
            *place = Some(fault);
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
            tracing::error!(%error, "the rest of a refused batch can't be stored, and is tried again");
            return again(shared, batch, FAILURE_PAUSE, false);
        }
    };
    for (receipt, fault) in &named {
        if let Some(fault) = fault {
            report(shared, receipt, &fault.code, &fault.pointer, &fault.detail);
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
    if let (Some(name), Some(spool)) = (batch.body.file().cloned(), shared.spool.clone()) {
        let moved = shared.io.run(move || spool.reject(&name)).await;
        if let Err(error) = moved.and_then(|result| result) {
            tracing::error!(%error, "a refused batch can't be moved to `rejected`, and is deleted");
        }
    }
    for receipt in &receipts {
        report(shared, receipt, code, pointer, detail);
    }
    shared.queue.lock().count_refused(receipts.len());
    end(shared, batch, false, Vec::new()).await;
}

fn report(shared: &ClientState, receipt: &Bytes, code: &str, pointer: &str, detail: &str) {
    let refused = RefusedReceipt {
        receipt_id: receipt_id(receipt),
        code: code.to_owned(),
        pointer: pointer.to_owned(),
        detail: detail.to_owned(),
        receipt: receipt.clone(),
    };
    let id = &refused.receipt_id;
    tracing::error!(receipt_id = id, code, pointer, detail, "a receipt was refused");
    if let Some(on_refused) = &shared.options.on_refused {
        on_refused(&refused);
    }
}

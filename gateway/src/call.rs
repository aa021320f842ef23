//! A call: one request in progress, with who sent it, when, and where it stands against the rate
//! limits.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::HeaderMap;
use service::problem::{Kind, Problem, ProblemFault};
use service::request_id::RequestId;
use service::trace::TraceParent;

use crate::answer::{Answer, json};
use crate::body::{Held, Upload};
use crate::encoding;
use crate::inflate::inflate;
use crate::rate::{Exceeded, Standing};
use crate::refusal::Refusal;
use crate::sender::Sender;
use crate::shared::Shared;

/// The most faults that a problem lists without a part of the budget.
const UNRESERVED_FAULTS_MAX: usize = 20;

/// A request that brings receipts.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) sender: Sender,
    pub(crate) id: &'a RequestId,
    /// The trace that its sender says it belongs to.
    pub(crate) trace: Option<TraceParent>,
    /// Unix time in milliseconds.
    pub(crate) arrived_ms: i64,
    /// The limit that is nearest to refusing, as far as known.
    pub(crate) standing: Option<Standing>,
    /// Receipts in the body; 1 until it is read.
    pub(crate) receipts: u32,
    /// Times that the request spent.
    pub(crate) spent: Spent,
}

/// Times that a request waited, in microseconds: logged of a slow one.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    /// The body's bytes, and room for them.
    pub(crate) body_us: AtomicU64,
    /// The log's word.
    pub(crate) log_us: AtomicU64,
}

impl Spent {
    /// Awaits `work` and adds the time to `part`.
    pub(crate) async fn on<T>(part: &AtomicU64, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.await;
        let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        part.fetch_add(took_us, Ordering::Relaxed);
        done
    }

    /// Milliseconds of body and log.
    pub(crate) fn ms(&self) -> (u64, u64) {
        let ms = |part: &AtomicU64| part.load(Ordering::Relaxed) / 1_000;
        (ms(&self.body_us), ms(&self.log_us))
    }
}

impl Call<'_> {
    /// Charges the address with the verifications that its request costs whatever is in the body.
    pub(crate) fn charge_request(&mut self, verifications: u32) -> Result<(), Refusal> {
        let charged = self.shared.charge_verifications(self.sender.key, verifications, 0);
        self.charged(charged)
    }

    /// Charges the key that made the outer signature, once that has been verified.
    pub(crate) fn charge_key(&mut self, fingerprint: &[u8; 32], receipts: u32) -> Result<(), Refusal> {
        // Half of a SHA-256 tells keys apart.
        let half = fingerprint.first_chunk().copied().unwrap_or_default();
        let rate = self.shared.key_rate.as_ref();
        let charged = rate.map(|rate| rate.charge(u128::from_be_bytes(half), receipts, 0));
        self.charged(charged.transpose())
    }

    fn charge_bytes(&mut self, bytes: usize) -> Result<(), Refusal> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let rate = self.shared.address_bytes_rate.as_ref();
        let charged = rate.map(|rate| rate.charge(self.sender.key, bytes, 0));
        self.charged(charged.transpose())
    }

    /// Takes over the outcome of a charge.
    pub(crate) fn charged(&mut self, charged: Result<Option<Standing>, Exceeded>) -> Result<(), Refusal> {
        match charged {
            Ok(standing) => {
                self.standing = standing.map_or(self.standing, |standing| Some(standing.nearer(self.standing)));
                Ok(())
            }
            Err(exceeded) => Err(self.over(exceeded)),
        }
    }

    /// The 429 of a sender over its limit.
    pub(crate) fn over(&mut self, exceeded: Exceeded) -> Refusal {
        let Exceeded { standing, what, wait } = exceeded;
        self.standing = Some(standing);
        let wait_s = u32::try_from(wait.as_millis().div_ceil(1_000))
            .unwrap_or(u32::MAX)
            .max(1);
        let detail = format!("too many {what}; send it again in {wait_s} s");
        Problem::new(Kind::RateLimited, detail).retry_after_s(wait_s).into()
    }

    /// The body, read and decoded: at most `bytes_max` either way. The address is charged with the
    /// decoded bytes.
    pub(crate) async fn receive(
        &mut self,
        headers: &HeaderMap,
        upload: &mut Upload,
        bytes_max: usize,
    ) -> Result<Held, Refusal> {
        let encoding = encoding::of(headers)?;
        // Whoever has used up its bytes is refused before more are decoded.
        self.charge_bytes(1)?;
        let reading = upload.read(self.shared.bounds(bytes_max), &self.shared.budget, self.sender.key);
        let body = Spent::on(&self.spent.body_us, reading).await?;
        self.shared.meters.body_read(body.as_ref().len());
        let body = inflate(encoding, body, bytes_max, &self.shared.cpu).await?;
        self.charge_bytes(body.as_ref().len())?;
        Ok(body)
    }

    /// 200 with `text`, which is JSON and may be as long as what it answers, while its reader may
    /// be slow.
    pub(crate) async fn long_answer(&self, text: Vec<u8>) -> Result<Answer, Refusal> {
        let reservation = self.shared.budget.reserve_for(self.sender.key, text.len()).await?;
        Ok(json(reservation.holding(text)))
    }

    /// Reserves the bytes of a problem with many faults, or cuts the faults.
    pub(crate) async fn reserve_faults(&self, mut refusal: Refusal) -> Refusal {
        let faults = &refusal.problem().faults;
        if faults.len() <= UNRESERVED_FAULTS_MAX {
            return refusal;
        }
        let fault_bytes = |fault: &ProblemFault| {
            // Names and quotes of the three members.
            40 + fault.pointer.len() + fault.code.len() + fault.detail.len()
        };
        let bytes = faults.iter().map(fault_bytes).sum();
        match self.shared.budget.reserve_for(self.sender.key, bytes).await {
            Ok(reservation) => refusal.hold(reservation),
            Err(_) => refusal.problem_mut().cut_faults(UNRESERVED_FAULTS_MAX),
        }
        refusal
    }
}

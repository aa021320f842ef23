//! A call: one request under way, with who sent it, when, and where it stands against the rate limits.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::HeaderMap;
use service::problem::{Kind, Problem};
use service::request_id::RequestId;
use service::trace::TraceParent;
use uuid::Uuid;

use crate::answer::Refusal;
use crate::body::{Held, Upload};
use crate::encoding;
use crate::inflate::inflate;
use crate::rate::{Exceeded, Rate, Standing};
use crate::sender::Sender;
use crate::shared::Shared;
use crate::source::Source;

/// One request that brings receipts.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) sender: Sender,
    pub(crate) source: Source<'a>,
    pub(crate) id: &'a RequestId,
    /// The trace that its sender says it belongs to.
    pub(crate) trace: Option<TraceParent>,
    /// Unix time in milliseconds.
    pub(crate) arrived_ms: i64,
    /// The limit that is nearest to refusing, as far as known.
    pub(crate) standing: Option<Standing>,
    /// Where its time goes.
    pub(crate) spent: Spent,
}

/// What a request waited for, in microseconds: told of one that took long.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    /// The body's bytes, and place for them.
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
    /// Charges the address with the request itself: one receipt, before anything of the body is known.
    pub(crate) fn charge_address(&mut self) -> Result<(), Refusal> {
        self.charge(
            self.shared.address_rate.as_ref(),
            self.sender.key,
            1,
            0,
            "from this address",
        )
    }

    /// Charges the address with the further receipts of a batch.
    pub(crate) fn charge_more(&mut self, receipts: u32) -> Result<(), Refusal> {
        if receipts <= 1 {
            return Ok(());
        }
        self.standing = None;
        self.charge(
            self.shared.address_rate.as_ref(),
            self.sender.key,
            receipts - 1,
            1,
            "from this address",
        )
    }

    /// Charges the client that the body names.
    pub(crate) fn charge_client(&mut self, client_id: Uuid, receipts: u32) -> Result<(), Refusal> {
        self.charge(
            self.shared.client_rate.as_ref(),
            client_id.as_u128(),
            receipts,
            0,
            "of this client",
        )
    }

    fn charge(
        &mut self,
        rate: Option<&Rate>,
        key: u128,
        receipts: u32,
        before: u32,
        whose: &str,
    ) -> Result<(), Refusal> {
        let Some(rate) = rate else { return Ok(()) };
        match rate.charge(key, receipts, before) {
            Ok(standing) => {
                self.standing = Some(standing.nearer(self.standing));
                Ok(())
            }
            Err(Exceeded { standing, wait }) => {
                self.standing = Some(standing);
                let wait_s = u32::try_from(wait.as_millis().div_ceil(1_000))
                    .unwrap_or(u32::MAX)
                    .max(1);
                let detail = format!("too many receipts {whose}; send it again in {wait_s} s");
                Err(Problem::new(Kind::RateLimited, detail).retry_after_s(wait_s).into())
            }
        }
    }

    /// The body, read and decoded: at most `bytes_max` either way.
    pub(crate) async fn receive(
        &self,
        headers: &HeaderMap,
        upload: &mut Upload,
        bytes_max: usize,
    ) -> Result<Held, Refusal> {
        let encoding = encoding::of(headers)?;
        let reading = upload.read(self.shared.bounds(bytes_max), &self.shared.admission, self.source);
        let body = Spent::on(&self.spent.body_us, reading).await?;
        self.shared.meters.body_read(body.as_ref().len());
        inflate(encoding, body, bytes_max, &self.shared.cpu).await
    }
}

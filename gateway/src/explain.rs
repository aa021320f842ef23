//! `POST /api/v1/receipts/explain`: what the service makes of a receipt or batch. A dry run, nothing is stored.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use receipt::{Arrival, BodyKind};
use serde::Deserialize;
use serde::de::IgnoredAny;
use service::problem::{Kind, Problem};

use crate::admission::{Full, Reservation};
use crate::answer::{Answer, Refusal, address_overloaded, json, overloaded};
use crate::body::Upload;
use crate::call::Call;
use crate::source::Claim;
use crate::submit::optional_signature;

/// What tells a batch from a receipt.
#[derive(Deserialize)]
struct Shape {
    receipts: Option<IgnoredAny>,
}

/// A text on its way out, with its share of the budget, which is in its reader's account until it is sent.
struct Written {
    text: Vec<u8>,
    _reservation: Reservation,
    _claim: Claim,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// The explanation as JSON. A body that is no receipt is explained too, not refused.
pub(crate) async fn explain(call: &mut Call<'_>, headers: &HeaderMap, upload: &mut Upload) -> Result<Answer, Refusal> {
    let signature = optional_signature(headers)?;
    let shared = Arc::clone(call.shared);
    let body = call.receive(headers, upload, shared.limits.batch_bytes_max).await?;
    // Not before the body is here: few slow senders would keep all others out.
    let Ok(_place) = shared.explaining.try_acquire() else {
        return Err(overloaded());
    };
    let received_at_ms = call.arrived_ms;
    let judge = Arc::clone(&shared);
    let explained = shared.cpu.run(move || {
        let body = body.as_ref();
        let shape: Option<Shape> = serde_json::from_slice(body).ok();
        let is_batch = shape.is_some_and(|shape| shape.receipts.is_some());
        let kind = if is_batch { BodyKind::Batch } else { BodyKind::Receipt };
        let request_signature = signature.as_ref().map(|signature| signature.text.as_str());
        let request_signature = request_signature.filter(|_| !is_batch);
        let explanation = judge.judge.explain(&Arrival {
            kind,
            body,
            request_signature,
            received_at_ms,
        });
        serde_json::to_vec(&explanation)
    });
    let text = explained.await?.map_err(|error| {
        tracing::error!(%error, "an explanation can't be written as JSON");
        Refusal::from(Problem::new(Kind::Internal, "the explanation could not be written"))
    })?;
    // An explanation is longer than what it explains, and its reader may be slow.
    let mut claim = call.source.begin().map_err(|Full| address_overloaded())?;
    if !claim.try_raise(text.len()) {
        return Err(address_overloaded());
    }
    let reservation = shared.admission.reserve(text.len()).await.map_err(|_| overloaded())?;
    Ok(json(Bytes::from_owner(Written {
        text,
        _reservation: reservation,
        _claim: claim,
    })))
}

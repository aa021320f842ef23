//! `POST /api/v1/receipts/explain`: what the service makes of a receipt or batch. A dry run,
//! nothing is stored.

use std::sync::Arc;

use http::HeaderMap;
use receipt::{Algorithm, Arrival, BodyKind};
use service::problem::{Kind, Problem};

use crate::answer::Answer;
use crate::body::Upload;
use crate::body_kind::{kind_of, receipt_count};
use crate::call::Call;
use crate::refusal::{Refusal, overloaded};
use crate::route::Route;
use crate::submit::optional_signature;

/// Explanations are charged as of this algorithm: receipts of a batch needn't have the batch's.
const DEAREST: Algorithm = Algorithm::EcdsaP256;

/// The explanation as JSON. A body that is no receipt is explained too, not refused.
pub(crate) async fn explain(call: &mut Call<'_>, headers: &HeaderMap, upload: &mut Upload) -> Result<Answer, Refusal> {
    let signature = optional_signature(headers)?;
    let shared = Arc::clone(call.shared);
    let body = call.receive(headers, upload, shared.limits.batch_bytes_max).await?;
    // Not before the body is here: few slow senders would keep all others out.
    let Ok(_permit) = shared.explaining.try_acquire() else {
        return Err(overloaded());
    };
    let received_at_ms = call.arrived_ms;
    let (judge, address) = (Arc::clone(&shared), call.sender.key);
    let explained = shared.cpu.run(move || {
        let body = body.as_ref();
        let kind = kind_of(body);
        let charged = judge.charge_algorithm(address, Route::Explain, DEAREST, receipt_count(body))?;
        let request_signature = signature.as_deref();
        let request_signature = request_signature.filter(|_| kind == BodyKind::Receipt);
        let explanation = judge.judge.explain(&Arrival {
            kind,
            body,
            request_signature,
            received_at_ms,
        });
        Ok((charged, serde_json::to_vec(&explanation)))
    });
    let (standing, text) = explained.await?.map_err(|exceeded| call.over(exceeded))?;
    call.charged(Ok(standing))?;
    let text = text.map_err(|error| {
        tracing::error!(%error, "an explanation can't be written as JSON");
        Refusal::from(Problem::new(Kind::Internal, "the explanation could not be written"))
    })?;
    // An explanation is longer than what it explains.
    call.long_answer(text).await
}

//! A long answer, with its share of the budget.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::{Full, Reservation};
use crate::answer::{Answer, Refusal, address_overloaded, json, overloaded};
use crate::call::Call;
use crate::source::Claim;

/// A text on its way out, with its share of the budget, which is in its reader's account until it
/// is sent.
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

/// 200 with `text`, which is JSON and may be as long as what it answers, while its reader may be
/// slow.
pub(crate) async fn written(call: &Call<'_>, text: Vec<u8>) -> Result<Answer, Refusal> {
    let mut claim = call.source.begin().map_err(|Full| address_overloaded())?;
    if !claim.try_raise(text.len()) {
        return Err(address_overloaded());
    }
    let admission = Arc::clone(&call.shared.admission);
    let reservation = admission.reserve(text.len()).await.map_err(|_| overloaded())?;
    Ok(json(Bytes::from_owner(Written {
        text,
        _reservation: reservation,
        _claim: claim,
    })))
}

//! Shares of the budget of bytes, each held by an answer until it is sent.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::{Admission, BudgetFull, Reservation};
use crate::source::{AddressSource, Claim};

/// Why an answer gets no share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoShare {
    /// The address, or all of them, hold as much as they may.
    Address,
    /// The budget has no room.
    Budget,
}

/// A share of the budget, which is in its reader's account until it is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    _reservation: Reservation,
    _claim: Claim,
}

impl BudgetShare {
    /// Takes `bytes` of the budget and of what the address may hold.
    pub(crate) async fn take(
        source: AddressSource<'_>,
        admission: &Arc<Admission>,
        bytes: usize,
    ) -> Result<Self, NoShare> {
        let mut claim = source.begin().map_err(|BudgetFull| NoShare::Address)?;
        if !claim.try_raise(bytes) {
            return Err(NoShare::Address);
        }
        let reservation = admission.reserve(bytes).await.map_err(|BudgetFull| NoShare::Budget)?;
        Ok(Self {
            _reservation: reservation,
            _claim: claim,
        })
    }

    /// The body of an answer, which holds this share until it is sent.
    pub(crate) fn holding(self, text: Vec<u8>) -> Bytes {
        Bytes::from_owner(Written { text, _share: self })
    }
}

/// A text on its way out.
struct Written {
    text: Vec<u8>,
    _share: BudgetShare,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

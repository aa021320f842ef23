//! A batch before and after it is sealed.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use uuid::Uuid;

use crate::signer::ReceiptSigner;
use crate::spool::{Spool, SpoolJournal, SpoolName};

/// Receipts that aren't a batch yet.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    /// Number of the batch that `record` filled. Parts of a batch that is taken apart have its
    /// number.
    pub(crate) sequence: u64,
    pub(crate) id: Uuid,
    pub(crate) name: SpoolName,
    pub(crate) journal: Option<Arc<SpoolJournal>>,
    pub(crate) opened: Instant,
    pub(crate) receipts: Vec<Bytes>,
    /// Bytes of the receipts, each with its comma.
    pub(crate) bytes: usize,
    pub(crate) not_before: Instant,
}

impl OpenBatch {
    pub(crate) fn new(sequence: u64) -> Self {
        let (id, now) = (Uuid::now_v7(), Instant::now());
        Self {
            sequence,
            id,
            name: SpoolName::new(id),
            journal: None,
            opened: now,
            receipts: Vec::new(),
            bytes: 0,
            not_before: now,
        }
    }

    pub(crate) fn extend(&mut self, receipts: impl Iterator<Item = Bytes>) {
        for receipt in receipts {
            self.bytes += receipt.len() + 1;
            self.receipts.push(receipt);
        }
    }

    /// Signs the batch, and stores it if there is a spool. One that can't be stored is sent from
    /// memory. Blocks.
    pub(crate) fn seal(&self, signer: &ReceiptSigner, spool: Option<&Spool>) -> io::Result<SealedBatch> {
        let body = signer.seal(self.id, self.receipts.iter());
        let body = Bytes::from(body.map_err(io::Error::other)?);
        let stored = spool.map(|spool| spool.store(&self.name, &body));
        if let Some(Err(error)) = &stored {
            tracing::error!(%error, "a batch can't be stored, and is sent from memory");
        }
        let is_stored = matches!(stored, Some(Ok(())));
        if let Some(journal) = self.journal.as_ref().filter(|_| is_stored) {
            journal.delete();
        }
        Ok(SealedBatch {
            sequence: self.sequence,
            name: self.name.clone(),
            receipts: self.receipts.len(),
            bytes: body.len(),
            body: Some(body),
            is_stored,
            attempts: 0,
            not_before: Instant::now(),
        })
    }
}

/// A signed batch that isn't acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct SealedBatch {
    pub(crate) sequence: u64,
    pub(crate) name: SpoolName,
    pub(crate) receipts: usize,
    pub(crate) bytes: usize,
    /// In memory, too, or only there.
    pub(crate) body: Option<Bytes>,
    /// Whether the spool has it in the file of its name.
    pub(crate) is_stored: bool,
    pub(crate) attempts: u32,
    pub(crate) not_before: Instant,
}

/// Returns the receipts of a batch, as they were when it was sealed.
pub(crate) fn receipts_of(body: &Bytes) -> Vec<Bytes> {
    #[derive(Deserialize)]
    struct SealedReceipts<'a> {
        #[serde(borrow)]
        receipts: Vec<&'a RawValue>,
    }
    let batch = serde_json::from_slice::<SealedReceipts<'_>>(body);
    batch.map_or_else(
        |_| Vec::new(),
        |batch| {
            let texts = batch.receipts.iter().map(|receipt| receipt.get().as_bytes());
            texts.map(|text| body.slice_ref(text)).collect()
        },
    )
}

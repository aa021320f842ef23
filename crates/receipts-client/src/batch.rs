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

    /// Signs the batch, and stores it if there is a spool. Blocks.
    pub(crate) fn seal(&self, signer: &ReceiptSigner, spool: Option<&Spool>) -> io::Result<SealedBatch> {
        let body = signer.seal(self.id, self.receipts.iter());
        let body = Bytes::from(body.map_err(io::Error::other)?);
        let mut sealed = SealedBatch {
            sequence: self.sequence,
            receipts: self.receipts.len(),
            bytes: body.len(),
            body: SealedBody::Memory(body.clone()),
            attempts: 0,
            not_before: Instant::now(),
        };
        if let Some(spool) = spool {
            spool.store(&self.name, &body)?;
            if let Some(journal) = &self.journal {
                journal.delete();
            }
            sealed.body = SealedBody::File(self.name.clone());
        }
        Ok(sealed)
    }
}

/// A signed batch that isn't acknowledged.
#[derive(Debug)]
pub(crate) struct SealedBatch {
    pub(crate) sequence: u64,
    pub(crate) receipts: usize,
    pub(crate) bytes: usize,
    pub(crate) body: SealedBody,
    pub(crate) attempts: u32,
    pub(crate) not_before: Instant,
}

/// Body of a sealed batch.
#[derive(Debug, Clone)]
pub(crate) enum SealedBody {
    Memory(Bytes),
    File(SpoolName),
}

impl SealedBody {
    pub(crate) fn file(&self) -> Option<&SpoolName> {
        match self {
            Self::Memory(_) => None,
            Self::File(name) => Some(name),
        }
    }
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

/// Returns the ID of a receipt.
pub(crate) fn receipt_id(receipt: &[u8]) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct IdentifiedReceipt {
        receipt_id: String,
    }
    serde_json::from_slice::<IdentifiedReceipt>(receipt).map_or_else(|_| String::new(), |receipt| receipt.receipt_id)
}

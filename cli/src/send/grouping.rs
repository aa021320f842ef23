//! Documents of the input, grouped into requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rayon::prelude::*;
use receipt::{BodyKind, Limits, SigningKey, sign_batch};
use receipts_client::submission::{Compression, Submission};
use serde::de::IgnoredAny;

use crate::failure::CommandFailure;
use crate::input::Document;

/// Requests prepared side by side: hashing and signing them is work for all cores.
const PREPARED_TOGETHER: usize = 32;
/// Largest size of a batch without its receipts, in bytes.
const BATCH_FRAME_BYTES: usize = 4 << 10;
/// A request, and the part of the input that it is made of.
#[derive(Debug)]
pub struct PreparedRequest {
    /// The request.
    pub submission: Submission,
    /// Number of its receipts.
    pub receipts: u64,
    /// The line of the input where it begins.
    pub line: u64,
    /// Bytes of the input it is made of.
    pub input_bytes: u64,
}

/// Documents that will be one request.
struct Draft {
    kind: BodyKind,
    documents: Vec<Document>,
    bytes: usize,
}

/// Groups documents into requests and signs these.
pub struct Grouping {
    key: Option<SigningKey>,
    signs_requests: bool,
    batch: Option<usize>,
    compression: Compression,
    limits: Limits,
}

impl Grouping {
    /// With `batch`, single receipts are put together into batches of that many, or fewer where
    /// they would be too large; that takes a key.
    #[must_use]
    pub fn new(key: Option<SigningKey>, batch: Option<usize>, compression: Compression) -> Self {
        Self {
            key,
            signs_requests: false,
            batch,
            compression,
            limits: Limits::default(),
        }
    }

    /// Adds a signature over each request's body.
    #[must_use]
    pub fn signing_requests(mut self) -> Self {
        self.signs_requests = true;
        self
    }

    /// Reads `documents` and hands each request to `take`, until that says false.
    ///
    /// # Errors
    /// The input can't be read, or a batch can't be signed. What stood before it was handed over.
    pub fn requests(
        &self,
        documents: impl Iterator<Item = Result<Document, CommandFailure>>,
        mut take: impl FnMut(PreparedRequest) -> bool,
    ) -> Result<(), CommandFailure> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut open: Option<Draft> = None;
        let mut failure = None;
        for document in documents {
            match document.and_then(|document| self.draft(document, &mut open)) {
                Ok(closed) => drafts.extend(closed),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
            let bytes: usize = drafts.iter().map(|draft| draft.bytes).sum();
            if (drafts.len() >= PREPARED_TOGETHER || bytes >= 4 * self.limits.batch_bytes_max)
                && !self.prepare_all(std::mem::take(&mut drafts), &mut take)?
            {
                return Ok(());
            }
        }
        drafts.extend(open);
        self.prepare_all(drafts, &mut take)?;
        failure.map_or(Ok(()), Err)
    }

    /// Adds a document to the open batch, or makes it a request of its own; returns what is
    /// complete now.
    fn draft(&self, document: Document, open: &mut Option<Draft>) -> Result<Vec<Draft>, CommandFailure> {
        let kind = document.kind();
        let bytes = document.bytes()?.len();
        let alone = |document| Draft {
            kind,
            documents: vec![document],
            bytes,
        };
        let Some(batch) = self.batch else {
            return Ok(vec![alone(document)]);
        };
        // What isn't JSON would spoil a whole batch: alone, the gateway says what is wrong with it.
        if kind == BodyKind::Batch || serde_json::from_slice::<IgnoredAny>(document.bytes()?).is_err() {
            return Ok(vec![alone(document)]);
        }
        let mut closed = Vec::new();
        let room = self.limits.batch_bytes_max.saturating_sub(BATCH_FRAME_BYTES);
        if open.as_ref().is_some_and(|draft| draft.bytes + bytes + 1 > room) {
            closed.extend(open.take());
        }
        let draft = open.get_or_insert_with(|| Draft {
            kind: BodyKind::Batch,
            documents: Vec::new(),
            bytes: 0,
        });
        draft.documents.push(document);
        draft.bytes += bytes + 1;
        if draft.documents.len() >= batch {
            closed.extend(open.take());
        }
        Ok(closed)
    }

    fn prepare_all(
        &self,
        drafts: Vec<Draft>,
        take: &mut impl FnMut(PreparedRequest) -> bool,
    ) -> Result<bool, CommandFailure> {
        let prepared: Vec<_> = drafts.into_par_iter().map(|draft| self.prepare(draft)).collect();
        for request in prepared {
            if !take(request?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn key(&self) -> Result<&SigningKey, CommandFailure> {
        let missing = || CommandFailure::Input("there is no key to sign with".to_owned());
        self.key.as_ref().ok_or_else(missing)
    }

    fn prepare(&self, draft: Draft) -> Result<PreparedRequest, CommandFailure> {
        let line = draft.documents.first().map_or(0, |document| document.line);
        let at_line = |what: String| CommandFailure::Input(format!("line {line}: {what}"));
        let is_made_here =
            draft.kind == BodyKind::Batch && draft.documents.iter().all(|d| d.kind() == BodyKind::Receipt);
        let (body, receipts) = if is_made_here {
            let batch = sign_batch(&batch_of(&draft.documents), self.key()?, &self.limits);
            (batch.map_err(|e| at_line(e.to_string()))?, draft.documents.len() as u64)
        } else {
            let body = draft
                .documents
                .into_iter()
                .next()
                .and_then(|d| d.bytes)
                .unwrap_or_default();
            let receipts = if draft.kind == BodyKind::Batch {
                receipts_in(&body)
            } else {
                1
            };
            (body, receipts)
        };
        let input_bytes = draft.bytes as u64;
        let signature = if self.signs_requests {
            let signature = self.key()?.sign(&body).map_err(|e| at_line(e.to_string()))?;
            Some(STANDARD.encode(signature))
        } else {
            None
        };
        Ok(PreparedRequest {
            submission: Submission {
                kind: draft.kind,
                body: body.into(),
                compression: self.compression,
                signature,
            },
            receipts,
            line,
            input_bytes,
        })
    }
}

/// A batch without its signature, its receipts' bytes as they stand.
fn batch_of(documents: &[Document]) -> Vec<u8> {
    let mut batch = format!(
        r#"{{"version":"1.0.0","batchId":"{}","receipts":["#,
        uuid::Uuid::new_v4()
    )
    .into_bytes();
    for (index, document) in documents.iter().enumerate() {
        if index > 0 {
            batch.push(b',');
        }
        batch.extend_from_slice(document.bytes.as_deref().unwrap_or_default());
    }
    batch.extend_from_slice(b"]}");
    batch
}

fn receipts_in(batch: &[u8]) -> u64 {
    #[derive(serde::Deserialize)]
    struct BatchReceipts {
        receipts: Vec<IgnoredAny>,
    }
    serde_json::from_slice::<BatchReceipts>(batch).map_or(1, |batch| batch.receipts.len() as u64)
}

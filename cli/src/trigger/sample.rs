//! The samples.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::ValueEnum;
use rand::seq::IndexedRandom as _;
use receipt::{BodyKind, Limits, SigningKey, sign_batch, sign_receipt};
use serde_json::{Value, json};
use service::instant::{DAY_MS, now_ms, rfc3339_ms};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::failure::CommandFailure;
use crate::new::unsigned::{self, ClientMembers, ContentMembers, UnsignedReceipt, UsageMembers};

/// Pages of the publisher that samples are about.
const PAGES: [&str; 5] = ["lead", "sport", "culture", "science", "weather"];
/// Purposes with an example of each.
const USES: [(&str, &str); 3] = [
    ("training", "pre-training of a language model"),
    ("inference", "answer to a question"),
    ("research", "study of headlines"),
];

/// Sample of `receipts trigger`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sample {
    /// A receipt: 202, verified
    Receipt,
    /// A batch of --count receipts: 202, verified
    Batch,
    /// A receipt twice: 202 both times, counted once
    Duplicate,
    /// Two receipts under one ID: 202 both times, a conflict
    Conflict,
    /// A receipt that was changed after it was signed: 202, rejected
    BadSignature,
    /// A batch with one such receipt: 202, and only that one is rejected
    BadReceiptInBatch,
    /// A batch that was changed after it was signed: 401
    BadBatchSignature,
    /// A body that was changed after the request was signed: 401
    BadRequestSignature,
    /// A request without X-Service-Signature: 401
    UnsignedRequest,
    /// A receipt that breaks three rules of the format: 400 with a pointer to each
    BadFormat,
    /// A receipt of a use 31 days ago: 400
    OldTimestamp,
}

/// Sender of a sample.
pub(super) struct SampleSender<'a> {
    pub(super) key: &'a SigningKey,
    pub(super) publisher: &'a str,
    /// Receipts of a batch.
    pub(super) count: usize,
}

/// A request of a sample.
#[derive(Debug)]
pub(super) struct SampleRequest {
    pub(super) kind: BodyKind,
    pub(super) body: Bytes,
    /// `X-Service-Signature`.
    pub(super) signature: Option<String>,
    /// ID of the receipt that the sample is about.
    pub(super) receipt_id: Uuid,
}

/// Answers and outcome that a sample should have.
pub(super) struct Expectation {
    /// Status of each answer, and the problem's code.
    pub(super) answer: (u16, Option<&'static str>),
    /// Status of the receipt, and the reason of its rejection.
    pub(super) outcome: Option<(&'static str, Option<&'static str>)>,
}

impl Sample {
    /// Answers and outcome that it should have.
    pub(super) fn expectation(self) -> Expectation {
        let verified = Some(("verified", None));
        let rejected = Some(("rejected", Some("bad_signature")));
        let (answer, outcome) = match self {
            Self::Receipt | Self::Batch | Self::Duplicate | Self::Conflict => ((202, None), verified),
            Self::BadSignature | Self::BadReceiptInBatch => ((202, None), rejected),
            Self::BadBatchSignature => ((401, Some("bad_batch_signature")), None),
            Self::BadRequestSignature => ((401, Some("bad_request_signature")), None),
            Self::UnsignedRequest => ((401, Some("missing_request_signature")), None),
            Self::BadFormat => ((400, Some("missing_member")), None),
            Self::OldTimestamp => ((400, Some("timestamp_out_of_range")), None),
        };
        Expectation { answer, outcome }
    }

    /// Whether the outcome of its receipt is as it should be.
    pub(super) fn expects(self, outcome: &Value) -> bool {
        let duplicates = outcome["duplicates"].as_u64().unwrap_or(0);
        let conflict = outcome["conflict"] == true;
        let special = match self {
            Self::Duplicate => duplicates == 1 && !conflict,
            Self::Conflict => conflict,
            _ => duplicates == 0 && !conflict,
        };
        let expected = self.expectation().outcome;
        special
            && expected.is_some_and(|(status, reason)| {
                outcome["status"] == status && reason.is_none_or(|reason| outcome["reason"] == reason)
            })
    }

    /// Requests of the sample, in order.
    ///
    /// # Errors
    /// The key can't sign.
    pub(super) fn requests(self, sender: &SampleSender<'_>) -> Result<Vec<SampleRequest>, CommandFailure> {
        let first = sender.unsigned()?;
        let signed = sender.sign(&first)?;
        Ok(match self {
            Self::Receipt => vec![sender.one(first.receipt_id, signed)?],
            Self::Batch => {
                let others: Result<Vec<Value>, CommandFailure> =
                    (1..sender.count).map(|_| sender.sign(&sender.unsigned()?)).collect();
                let receipts = [vec![signed], others?].concat();
                vec![sender.batch(first.receipt_id, &receipts)?]
            }
            Self::Duplicate => vec![
                sender.one(first.receipt_id, signed.clone())?,
                sender.one(first.receipt_id, signed)?,
            ],
            Self::Conflict => {
                let mut other = first.clone();
                other.usage.context += ", another";
                let other = sender.sign(&other)?;
                vec![
                    sender.one(first.receipt_id, signed)?,
                    sender.one(first.receipt_id, other)?,
                ]
            }
            Self::BadSignature => vec![sender.one(first.receipt_id, changed(signed))?],
            Self::BadReceiptInBatch => {
                let good = sender.sign(&sender.unsigned()?)?;
                vec![sender.batch(first.receipt_id, &[good, changed(signed)])?]
            }
            Self::BadBatchSignature => {
                let mut request = sender.batch(first.receipt_id, &[signed])?;
                let mut batch: Value = serde_json::from_slice(&request.body).map_err(CommandFailure::input)?;
                batch["batchId"] = "changed".into();
                request.body = batch.to_string().into();
                vec![request]
            }
            Self::BadRequestSignature => {
                let mut request = sender.one(first.receipt_id, signed)?;
                // Another byte, and still the same JSON.
                request.body = [&request.body[..], b"\n"].concat().into();
                vec![request]
            }
            Self::UnsignedRequest => {
                let mut request = sender.one(first.receipt_id, signed)?;
                request.signature = None;
                vec![request]
            }
            Self::BadFormat => {
                let mut bad = signed;
                if let Some(content) = bad["content"].as_object_mut() {
                    content.remove("contentHash");
                }
                bad["usage"]["purpose"] = "advertising".into();
                bad["client"]["id"] = "client-1".into();
                vec![sender.one(first.receipt_id, bad)?]
            }
            Self::OldTimestamp => {
                let mut old = first;
                old.timestamp = rfc3339_ms(now_ms() - 31 * DAY_MS);
                vec![sender.one(old.receipt_id, sender.sign(&old)?)?]
            }
        })
    }
}

/// A signed receipt with another context than was signed.
fn changed(mut signed: Value) -> Value {
    signed["usage"]["context"] = "changed after it was signed".into();
    signed
}

impl SampleSender<'_> {
    fn unsigned(&self) -> Result<UnsignedReceipt, CommandFailure> {
        let mut random = rand::rng();
        let page = PAGES.choose(&mut random).copied().unwrap_or("lead");
        let (purpose, context) = USES.choose(&mut random).copied().unwrap_or(("training", "sample"));
        let url = format!("https://{}/{page}", self.publisher);
        let (name, organization) = ("receipts trigger", "Sample");
        Ok(UnsignedReceipt {
            receipt_id: Uuid::now_v7(),
            timestamp: rfc3339_ms(now_ms()),
            content: ContentMembers {
                entry_id: unsigned::canonical(&url)?.entry_id(),
                content_hash: format!("sha256:{}", hex::encode(Sha256::digest(&url))),
                url,
                publisher: self.publisher.to_owned(),
            },
            client: ClientMembers {
                id: unsigned::client_id(organization, name),
                name: name.to_owned(),
                version: crate::version::SHORT.to_owned(),
                organization: organization.to_owned(),
                public_key: Some(self.key.public_key_pem().to_owned()),
            },
            usage: UsageMembers {
                purpose,
                context: context.to_owned(),
                model_id: Some("sample".to_owned()),
                ..UsageMembers::default()
            },
            ..UnsignedReceipt::default()
        })
    }

    fn sign(&self, receipt: &UnsignedReceipt) -> Result<Value, CommandFailure> {
        let signed = sign_receipt(&receipt.to_json()?, self.key, &Limits::default()).map_err(CommandFailure::input)?;
        serde_json::from_slice(&signed).map_err(CommandFailure::input)
    }

    /// A request with this receipt, well signed.
    fn one(&self, receipt_id: Uuid, receipt: Value) -> Result<SampleRequest, CommandFailure> {
        let body = Bytes::from(receipt.to_string());
        let signature = self.key.sign(&body).map_err(CommandFailure::input)?;
        Ok(SampleRequest {
            kind: BodyKind::Receipt,
            body,
            signature: Some(STANDARD.encode(signature)),
            receipt_id,
        })
    }

    /// A request with a batch of these receipts, well signed.
    fn batch(&self, receipt_id: Uuid, receipts: &[Value]) -> Result<SampleRequest, CommandFailure> {
        let batch = json!({"version": "1.0.0", "batchId": Uuid::now_v7(), "receipts": receipts});
        let signed = sign_batch(batch.to_string().as_bytes(), self.key, &Limits::default());
        Ok(SampleRequest {
            kind: BodyKind::Batch,
            body: signed.map_err(CommandFailure::input)?.into(),
            signature: None,
            receipt_id,
        })
    }
}

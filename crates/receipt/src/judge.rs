//! The verdict on a record: every receipt in it ends in exactly one outcome.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rayon::prelude::*;

use aws_lc_rs::digest::{Digest, SHA256, digest};
use uuid::Uuid;

use crate::batch::{self, Batch};
use crate::canonical::{SIGNATURE_MEMBERS, write_object, write_value};
use crate::fault::{FaultCode, FormatError};
use crate::key::{KeyedCheck, sha256, verify_all};
use crate::outer_signature::BadOuterSignature;
use crate::reason::{advised, describe, reason_of, summary};
use crate::receipt::{self, Receipt, Unreadable};
use crate::scan::{Scanned, Scanner, utf8};
use crate::scratch::{self, Scratch};
use crate::tape::{NodeKind, Tape};
use crate::verdict::{BatchSignature, Judged, Origin, RejectReason, RejectedReceipt, VerifiedReceipt};
use crate::{KeyCache, Limits, PublicKey, SignatureBytes, mistakes, rules};

/// Receipts that one thread judges together: about half a millisecond of one core.
pub const JUDGED_TOGETHER: usize = 16;

/// Bad signatures of one second of arrivals that are compared with the usual mistakes, which takes
/// about 20 verifications each: a flood of them costs no more than that.
const DIAGNOSED_PER_S_MAX: u64 = 10;

/// Receipts of a batch are judged in steps of this many. A batch is abandoned between two steps, so
/// which receipts are judged depends on the batch alone.
pub(crate) const STEP: usize = 32 * JUDGED_TOGETHER;

/// Bad signatures after which the receipts of further steps aren't judged. Whoever signs such a
/// batch pays for one signature, and each receipt costs the service another.
pub(crate) const BAD_SIGNATURES_MAX: usize = 100;

/// Kind of a record's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyKind {
    /// A single receipt.
    Receipt,
    /// A batch of receipts.
    Batch,
}

/// A record as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Kind of the body.
    pub kind: BodyKind,
    /// The body, decoded from any Content-Encoding.
    pub body: &'a [u8],
    /// `X-Service-Signature`, where it came with one. Only checked for single receipts.
    pub request_signature: Option<&'a str>,
    /// When it arrived, in Unix milliseconds.
    pub received_at_ms: i64,
}

/// Judges records. One serves all threads.
#[derive(Debug)]
pub struct Judge {
    pub(crate) limits: Limits,
    pub(crate) keys: KeyCache,
    /// A second of arrivals, in steps of 256, and the number of its diagnoses.
    diagnosed: AtomicU64,
}

/// A receipt to examine.
#[derive(Clone, Copy)]
pub(crate) struct ReceiptToJudge<'a> {
    pub(crate) text: &'a str,
    pub(crate) received_at_ms: i64,
    /// Signature of the request that brought it, as its header has it. It is verified first.
    pub(crate) request_signature: Option<&'a str>,
    /// Whether its own signature is verified.
    pub(crate) verifies: bool,
}

/// A receipt that was read, and whose signatures aren't verified yet.
struct ReadReceipt<'a> {
    candidate: ReceiptToJudge<'a>,
    /// Place of its canonical bytes in the scratch; empty where it has none.
    canonical: Range<usize>,
    /// SHA-256 of the canonical bytes.
    hash: Option<Digest>,
    key: Option<PublicKey>,
    receipt: Result<Receipt<'a>, Box<Unreadable<'a>>>,
    request_signature: Option<SignatureBytes>,
}

/// Verdicts on a receipt's signatures; `None` where there is nothing to verify.
#[derive(Clone, Copy)]
struct SignatureVerdicts {
    /// On the request's.
    outer: Option<bool>,
    /// On its own.
    own: Option<bool>,
}

impl SignatureVerdicts {
    /// Whether its own signature isn't its key's, and that of the request isn't bad.
    fn only_own_is_bad(self) -> bool {
        self.outer != Some(false) && self.own == Some(false)
    }
}

/// A receipt that was examined by itself.
pub(crate) struct Examined<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) payload_hash: Option<[u8; 32]>,
    /// Fingerprint of the key if the signature of the request is the key's; `None` where there is
    /// no signature to check.
    pub(crate) outer: Result<Option<[u8; 32]>, BadOuterSignature>,
    pub(crate) state: JudgingState<'a>,
    /// Advice where the receipt's own signature is bad, and was compared with the usual mistakes.
    pub(crate) advice: Option<&'static str>,
}

/// State of a receipt that is being judged.
pub(crate) enum JudgingState<'a> {
    /// The receipt breaks a rule of the format, or its key can't be used.
    Unreadable(Box<Unreadable<'a>>),
    /// The signature isn't the key's, or wasn't verified because that of the request isn't.
    Unsigned(Box<Receipt<'a>>),
    /// The signature wasn't verified, because the receipt's batch was abandoned before.
    Abandoned(Box<Receipt<'a>>),
    /// The receipt itself is good.
    Good(Box<Receipt<'a>>, PublicKey),
}

impl Judge {
    /// A judge by these limits that keeps up to `key_cache_entries_max` parsed keys.
    #[must_use]
    pub fn new(limits: Limits, key_cache_entries_max: usize) -> Self {
        Self {
            limits,
            keys: KeyCache::new(key_cache_entries_max),
            diagnosed: AtomicU64::new(0),
        }
    }

    /// Whether a bad signature that arrived now may be compared with the usual mistakes.
    fn may_diagnose(&self, received_at_ms: i64) -> bool {
        let second = u64::try_from(received_at_ms / 1_000).unwrap_or(0) << 8;
        let next = |last: u64| match last.checked_sub(second) {
            Some(count) if count >= DIAGNOSED_PER_S_MAX => None,
            Some(_) => Some(last + 1),
            None => Some(second + 1),
        };
        self.diagnosed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }

    /// The limits it judges by.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The keys it has met.
    #[must_use]
    pub fn keys(&self) -> &KeyCache {
        &self.keys
    }

    /// Judges one record from the outside in: `each` is called once for every receipt, with its
    /// index in the record, and its results are returned in that order. Never empty: a body that is
    /// no receipt or batch, or a batch with a fault or a bad signature of its own, is one rejected
    /// receipt at index 0 whose `raw` is the whole body.
    ///
    /// The receipts of a signed batch are judged in parallel on the rayon pool of the calling
    /// thread, each by itself: a verdict doesn't depend on what else is in the batch. Once a step
    /// of 512 receipts ends with 100 bad signatures or more, there are no further verdicts: the
    /// receipts behind it are rejected as [`RejectReason::BatchAbandoned`].
    pub fn judge<R: Send>(&self, arrival: &Arrival<'_>, each: &(impl Fn(u16, Judged<'_>) -> R + Sync)) -> Vec<R> {
        let add = |results: &mut Vec<R>, index, judged: Judged<'_>| results.push(each(index, judged));
        self.fold(arrival, &add).into_iter().flatten().collect()
    }

    /// Judges one record as [`judge`](Self::judge) does. `add` adds a receipt to the result of
    /// those that one thread judges one after the other; the results are in the receipts' order.
    pub fn fold<A: Default + Send>(
        &self,
        arrival: &Arrival<'_>,
        add: &(impl Fn(&mut A, u16, Judged<'_>) + Sync),
    ) -> Vec<A> {
        let one = |judged: Judged<'_>| {
            let mut result = A::default();
            add(&mut result, 0, judged);
            vec![result]
        };
        match arrival.kind {
            BodyKind::Receipt => self
                .judge_receipts(std::slice::from_ref(arrival))
                .into_iter()
                .flat_map(one)
                .collect(),
            BodyKind::Batch => self.fold_batch(arrival, add).unwrap_or_else(|judged| one(*judged)),
        }
    }

    /// Judges records of single receipts as [`judge`](Self::judge) does, on the calling thread:
    /// their signatures are verified together, which costs less. One verdict for each, in order.
    pub fn judge_receipts<'b>(&self, arrivals: &[Arrival<'b>]) -> Vec<Judged<'b>> {
        let texts: Vec<_> = arrivals.iter().map(|arrival| self.text(arrival)).collect();
        let candidates = arrivals.iter().zip(&texts).filter_map(|(arrival, text)| {
            Some(ReceiptToJudge {
                text: text.as_ref().ok()?,
                received_at_ms: arrival.received_at_ms,
                request_signature: arrival.request_signature,
                verifies: true,
            })
        });
        let examined = scratch::with(|scratch| self.examine(candidates, scratch));
        let mut examined = examined.into_iter();
        let judged = arrivals.iter().zip(texts).filter_map(|(arrival, text)| match text {
            Ok(_) => examined.next().map(|examined| examined.judged(None)),
            Err(error) => Some(no_receipt(arrival.body, &error)),
        });
        judged.collect()
    }

    /// Folds a batch's receipts; the error is the one verdict on a batch that is rejected as a
    /// whole.
    fn fold_batch<'b, A: Default + Send>(
        &self,
        arrival: &Arrival<'b>,
        add: &(impl Fn(&mut A, u16, Judged<'_>) + Sync),
    ) -> Result<Vec<A>, Box<Judged<'b>>> {
        let mut payload = Vec::new();
        let batch = self
            .text(arrival)
            .and_then(|text| Ok((text, self.read_batch(text, &mut payload)?)));
        let (text, batch) = batch.map_err(|error| {
            let mut judged = no_receipt(arrival.body, &error);
            if let Judged::Rejected(rejected) = &mut judged
                && rejected.reason == RejectReason::BadSignature
            {
                rejected.reason = RejectReason::BadBatchSignature;
            }
            Box::new(judged)
        })?;
        let key_fingerprint = self
            .check_batch_signature(&batch, &payload)
            .map_err(|(reason, detail)| Box::new(not_sent(arrival.body, reason, detail)))?;
        let signature = Arc::new(BatchSignature {
            signature: batch.signature.to_vec(),
            payload_hash: sha256(&payload),
            key_fingerprint,
        });
        let bad = AtomicUsize::new(0);
        let judge = |mut result: A, first: usize, ranges: &[Range<usize>], verifies: bool| {
            let candidates = ranges.iter().map(|range| ReceiptToJudge {
                text: &text[range.clone()],
                received_at_ms: arrival.received_at_ms,
                request_signature: None,
                verifies,
            });
            let examined = scratch::with(|scratch| self.examine(candidates, scratch));
            for (index, examined) in (first..).zip(examined) {
                bad.fetch_add(usize::from(examined.has_bad_signature()), Ordering::Relaxed);
                let index = u16::try_from(index).unwrap_or(u16::MAX);
                add(&mut result, index, examined.judged(Some(&signature)));
            }
            result
        };
        let mut results = Vec::new();
        for (step, ranges) in batch.receipts.chunks(STEP).enumerate() {
            let verifies = bad.load(Ordering::Relaxed) < BAD_SIGNATURES_MAX;
            let chunks = ranges.par_chunks(JUDGED_TOGETHER).enumerate();
            let folded = chunks.fold(A::default, |result, (chunk, ranges)| {
                judge(result, step * STEP + chunk * JUDGED_TOGETHER, ranges, verifies)
            });
            results.extend(folded.collect::<Vec<_>>());
        }
        Ok(results)
    }

    /// The body as text, if it isn't too large to be checked.
    pub(crate) fn text<'b>(&self, arrival: &Arrival<'b>) -> Result<&'b str, FormatError> {
        match arrival.kind {
            BodyKind::Receipt => receipt::check_size(arrival.body.len(), &self.limits)?,
            BodyKind::Batch => batch::check_size(arrival.body.len(), &self.limits)?,
        }
        Ok(utf8(arrival.body)?)
    }

    /// Reads a batch and appends to `payload` the canonical bytes that its signature is over.
    pub(crate) fn read_batch<'b>(&self, text: &'b str, payload: &mut Vec<u8>) -> Result<Batch<'b>, FormatError> {
        scratch::with(|scratch| {
            let mut receipts = Vec::with_capacity(text.len());
            let batch = batch::read(text, &self.limits, scratch, &mut |index, tape| {
                if index > 0 {
                    receipts.push(b',');
                }
                write_value(tape, 0, text, &mut receipts);
                std::ops::ControlFlow::Continue(())
            })?;
            // One receipt more can't make the batch's index wrap: Limits allows 65,535.
            if batch.receipts.len() > usize::from(u16::MAX) {
                let detail = "a batch may hold at most 65535 receipts".to_owned();
                return Err(FormatError::one(
                    "/receipts".to_owned(),
                    FaultCode::TooManyReceipts,
                    detail,
                ));
            }
            payload.reserve(receipts.len() + 1_024);
            batch::write_payload(&scratch.own, text, &receipts, payload);
            Ok(batch)
        })
    }

    /// Examines one receipt. Leaves its canonical bytes in `scratch.canonical`, empty where it has
    /// none. With `diagnoses`, a bad signature is compared with the usual mistakes.
    pub(crate) fn examine_one<'b>(
        &self,
        candidate: ReceiptToJudge<'b>,
        diagnoses: bool,
        scratch: &mut Scratch,
    ) -> Examined<'b> {
        scratch.canonical.clear();
        let reading = self.read(candidate, scratch);
        let [outer, own] = reading
            .checks(&scratch.canonical)
            .map(|check| check.map(|check| check.verify()));
        let verdicts = SignatureVerdicts { outer, own };
        self.conclude(reading, verdicts, diagnoses, scratch)
    }

    /// Examines receipts, each by itself. Their signatures are verified together, because that
    /// costs less (see [`verify_all`]).
    fn examine<'b>(
        &self,
        candidates: impl Iterator<Item = ReceiptToJudge<'b>>,
        scratch: &mut Scratch,
    ) -> Vec<Examined<'b>> {
        scratch.canonical.clear();
        let readings: Vec<_> = candidates.map(|candidate| self.read(candidate, scratch)).collect();
        let checks = readings.iter().flat_map(|reading| reading.checks(&scratch.canonical));
        let verdicts = verify_all(checks.map(|check| check.ok_or(())));
        let examined = readings
            .into_iter()
            .zip(verdicts.chunks_exact(2))
            .map(|(reading, verdicts)| {
                let verdicts = SignatureVerdicts {
                    outer: verdicts[0].ok(),
                    own: verdicts[1].ok(),
                };
                let may_diagnose = verdicts.only_own_is_bad() && self.may_diagnose(reading.candidate.received_at_ms);
                self.conclude(reading, verdicts, may_diagnose, scratch)
            });
        examined.collect()
    }

    /// Reads a receipt, and appends its canonical bytes to `scratch.canonical`.
    fn read<'b>(&self, candidate: ReceiptToJudge<'b>, scratch: &mut Scratch) -> ReadReceipt<'b> {
        let Scratch { tape, canonical, .. } = scratch;
        let ReceiptToJudge {
            text, received_at_ms, ..
        } = candidate;
        let start = canonical.len();
        let (mut hash, mut key) = (None, None);
        let scanned = receipt::check_size(text.len(), &self.limits).and_then(|()| Ok(self.scan(text, tape)?));
        let receipt = match scanned {
            Err(error) => Err(Box::new(error.into())),
            Ok(()) => {
                if tape.kind(0) == NodeKind::Object {
                    write_object(tape, 0, text, &SIGNATURE_MEMBERS, canonical);
                    hash = Some(digest(&SHA256, &canonical[start..]));
                }
                let mut key_kind = |pem: &str| match self.keys.get(pem) {
                    Ok(found) => Ok(key.insert(found).algorithm()),
                    Err(error) => Err(error.detail),
                };
                receipt::read(tape, text, received_at_ms, &self.limits, &mut key_kind)
            }
        };
        ReadReceipt {
            // Bytes that can't be a signature, where the header isn't one.
            request_signature: candidate
                .request_signature
                .map(|header| rules::signature(header).unwrap_or_default()),
            candidate,
            canonical: start..canonical.len(),
            hash,
            key,
            receipt,
        }
    }

    fn scan(&self, text: &str, tape: &mut Tape) -> Scanned<()> {
        Scanner::new(text, self.limits.depth_max, self.limits.string_bytes_max).document(tape)
    }

    /// Concludes from the verdicts on a receipt's checks. With `diagnoses`, a bad signature is
    /// compared with the usual mistakes.
    fn conclude<'b>(
        &self,
        reading: ReadReceipt<'b>,
        verdicts: SignatureVerdicts,
        diagnoses: bool,
        scratch: &mut Scratch,
    ) -> Examined<'b> {
        let ReadReceipt {
            candidate: ReceiptToJudge { text, verifies, .. },
            canonical,
            hash,
            key,
            receipt,
            ..
        } = reading;
        let raw = text.as_bytes();
        let outer = match (&key, verdicts.outer) {
            (Some(key), Some(false)) => Err(BadOuterSignature::new(RejectReason::BadRequestSignature, raw, key)),
            (Some(key), Some(true)) => Ok(Some(*key.fingerprint())),
            _ => Ok(None),
        };
        let mut advice = None;
        let state = match (receipt, key) {
            (Err(unreadable), _) => JudgingState::Unreadable(unreadable),
            (Ok(receipt), _) if outer.is_ok() && !verifies => JudgingState::Abandoned(Box::new(receipt)),
            (Ok(receipt), Some(key)) if outer.is_ok() && verdicts.own == Some(true) => {
                JudgingState::Good(Box::new(receipt), key)
            }
            (Ok(receipt), key) => {
                advice = key.filter(|_| verdicts.only_own_is_bad() && diagnoses).map(|key| {
                    // The tape has the receipt that was read last.
                    let read = self.scan(text, &mut scratch.tape).ok();
                    let read = read.map(|()| (&scratch.tape, text));
                    let signed_request = matches!(outer, Ok(Some(_)));
                    mistakes::advice(
                        &key,
                        &scratch.canonical[canonical],
                        &receipt.signature,
                        read,
                        signed_request,
                    )
                });
                JudgingState::Unsigned(Box::new(receipt))
            }
        };
        Examined {
            raw,
            payload_hash: hash.as_ref().map(bytes),
            outer,
            state,
            advice,
        }
    }
}

impl ReadReceipt<'_> {
    /// The request's signature and its own, where they are to be verified.
    fn checks<'c>(&'c self, canonical: &'c [u8]) -> [Option<KeyedCheck<'c>>; 2] {
        let Some(key) = &self.key else { return [None; 2] };
        let outer = self.request_signature.as_deref().map(|signature| KeyedCheck {
            key,
            message: self.candidate.text.as_bytes(),
            sha256: None,
            signature,
        });
        let own = match &self.receipt {
            Ok(receipt) if self.candidate.verifies => Some(KeyedCheck {
                key,
                message: &canonical[self.canonical.clone()],
                sha256: self.hash.as_ref(),
                signature: &receipt.signature,
            }),
            _ => None,
        };
        [outer, own]
    }
}

impl<'a> Examined<'a> {
    /// Whether its own signature isn't its key's.
    pub(crate) fn has_bad_signature(&self) -> bool {
        matches!(self.state, JudgingState::Unsigned(_)) && self.outer.is_ok()
    }

    /// The outcome, of a receipt in a batch if it was signed.
    pub(crate) fn judged(self, batch: Option<&Arc<BatchSignature>>) -> Judged<'a> {
        let origin = if batch.is_some() {
            Origin::SignedBatch
        } else {
            Origin::Record
        };
        let Self {
            raw,
            payload_hash,
            outer,
            state,
            advice,
        } = self;
        let (reason, detail, ids) = match (state, payload_hash) {
            (JudgingState::Good(receipt, key), Some(payload_hash)) => {
                return Judged::Verified(VerifiedReceipt {
                    receipt: *receipt,
                    payload_hash,
                    key_fingerprint: *key.fingerprint(),
                    raw,
                    origin,
                    batch: batch.map(Arc::clone),
                });
            }
            (JudgingState::Good(receipt, _) | JudgingState::Unsigned(receipt), _) => {
                let reason = RejectReason::BadSignature;
                (reason, advised(reason, advice), Ids::of(*receipt))
            }
            (JudgingState::Abandoned(receipt), _) => {
                let reason = RejectReason::BatchAbandoned;
                (reason, describe(reason).to_owned(), Ids::of(*receipt))
            }
            (JudgingState::Unreadable(unreadable), _) => {
                let Unreadable {
                    error,
                    receipt_id,
                    publisher,
                    client_id,
                    entry_id,
                } = *unreadable;
                let ids = Ids {
                    receipt_id,
                    publisher,
                    client_id,
                    entry_id,
                };
                (reason_of(&error), summary(&error), ids)
            }
        };
        let (reason, detail, request_key) = match outer {
            Ok(request_key) => (reason, detail, request_key),
            Err(bad) => (bad.reason, bad.to_string(), None),
        };
        Judged::Rejected(RejectedReceipt {
            reason,
            detail,
            receipt_id: ids.receipt_id,
            publisher: ids.publisher,
            client_id: ids.client_id,
            entry_id: ids.entry_id,
            payload_hash,
            key_fingerprint: batch.map(|batch| batch.key_fingerprint).or(request_key),
            raw,
            origin,
        })
    }
}

/// Identifiers that a rejected receipt states.
#[derive(Default)]
struct Ids<'a> {
    receipt_id: Option<Uuid>,
    publisher: Option<Cow<'a, str>>,
    client_id: Option<Uuid>,
    entry_id: Option<Uuid>,
}

impl<'a> Ids<'a> {
    fn of(receipt: Receipt<'a>) -> Self {
        Self {
            receipt_id: Some(receipt.receipt_id),
            publisher: Some(receipt.host()),
            client_id: Some(receipt.client_id),
            entry_id: Some(receipt.entry_id),
        }
    }
}

/// A whole body that is no receipt or batch.
fn no_receipt<'a>(body: &'a [u8], error: &FormatError) -> Judged<'a> {
    not_sent(body, reason_of(error), summary(error))
}

/// A whole body whose receipts aren't checked.
fn not_sent(body: &[u8], reason: RejectReason, detail: String) -> Judged<'_> {
    Judged::Rejected(RejectedReceipt {
        reason,
        detail,
        receipt_id: None,
        publisher: None,
        client_id: None,
        entry_id: None,
        payload_hash: None,
        key_fingerprint: None,
        raw: body,
        origin: Origin::Record,
    })
}

fn bytes(hash: &Digest) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.as_ref());
    bytes
}

//! The domain: receipts as JSON, canonical bytes, hashes, keys, signatures, verdicts. Pure and
//! synchronous.
//!
//! The way of a body, and the module of each step:
//!
//! ```text
//! bytes -- scan --> tape -- receipt, batch (rules, timestamp, spki) --> Receipt
//!                    |                                                     |
//!                    +-- canonical --> payload --> hash --> key -----------+--> judge --> Judged
//! ```
//!
//! - [`check_receipt`] and [`check_batch`] stop before the cryptography.
//! - [`Judge::check_signed_receipt`] and [`Judge::check_signed_batch`] verify the outer signature,
//!   too. The gateway refuses by them.
//! - [`Judge`] goes the whole way, and trusts nothing that was checked before: this is what the
//!   verifier decides by.
//! - [`SigningKey`], [`sign_receipt`] and [`sign_batch`] are the client's side, and so is
//!   [`entry_id_of`].
//!
//! docs/receipt-format.md describes the rules and limits.
#![forbid(unsafe_code)]

mod algorithm;
mod batch;
mod block;
mod canonical;
mod canonical_url;
mod check;
mod ecdsa;
mod ed25519;
mod evidence;
mod explain;
mod fault;
mod fields;
mod fixed_base;
mod hash_tree;
mod host;
mod judge;
mod key;
mod key_cache;
mod key_error;
mod key_kinds;
mod limits;
mod mistakes;
mod number;
mod outer;
mod outer_signature;
mod pem;
mod purpose;
mod reason;
mod receipt;
mod rules;
mod scan;
mod schema;
mod scratch;
mod sign;
mod signing_key;
mod spki;
mod table_points;
mod tables;
mod tape;
mod text;
mod timestamp;
mod verdict;

pub use algorithm::{Algorithm, ImpossibleLength, UnknownAlgorithm};
pub use block::{SignatureCheck, verify_block};
pub use canonical::{canonicalize, payload_hash};
pub use canonical_url::{CanonicalUrl, CanonicalUrlError, canonical_url, entry_id_of};
pub use check::{BatchHead, ReceiptHead, check_batch, check_receipt, check_request_signature};
pub use evidence::Evidence;
pub use explain::{CheckResult, ExplainedCheck, Explanation};
pub use fault::{Fault, FaultCode, FormatError};
pub use hash_tree::{Sibling, TreeHash, hash_tree, tree_root};
pub use judge::{Arrival, BodyKind, JUDGED_TOGETHER, Judge};
pub use key::PublicKey;
pub use key_cache::KeyCache;
pub use key_error::KeyError;
pub use limits::Limits;
pub use outer::{NotSigned, SignedRequest, Signer, UnverifiedBatch, UnverifiedReceipt, VerifiedReceiptHead};
pub use outer_signature::BadOuterSignature;
pub use purpose::{Purpose, UnknownPurpose};
pub use receipt::{Receipt, parse_receipt};
pub use rules::SignatureBytes;
pub use schema::{BATCH_SCHEMA, RECEIPT_SCHEMA};
pub use scratch::Scratch;
pub use sign::{SignError, sign_batch, sign_receipt};
pub use signing_key::SigningKey;
pub use timestamp::timestamp_millis;
pub use verdict::{BatchSignature, Judged, Origin, RejectReason, RejectedReceipt, UnknownReason, VerifiedReceipt};

//! Acknowledgements: signed proof for a sender that the log has its receipt or batch.
//!
//! `signature` is Ed25519 over the other members in canonical form (RFC 8785). Of records that are
//! acknowledged together, it is over the root of a hash tree, and each has its `path` to the root.
//! All public keys are at `/.well-known/receipts-keys.json`, so that old acknowledgements verify
//! after a rotation.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_signatures::{DirectoryKey, key_set};
use receipt::{Algorithm, Sibling, SigningKey, canonicalize, hash_tree};
use receipt_log::Position;
use serde::Serialize;
use service::instant::rfc3339_ms;
use uuid::Uuid;

/// File that is created in the data directory where no key is configured.
const KEY_FILE: &str = "acknowledgement.key";

/// No PKCS#8 key of Ed25519 is near this long.
const KEY_BYTES_MAX: u64 = 4 << 10;

/// Levels of nesting in an acknowledgement: the object and `logPosition`.
const DEPTH_MAX: usize = 2;

/// Keys of a gateway: one signs acknowledgements, all are published.
pub struct AcknowledgementKeys {
    signing: SigningKey,
    key_id: String,
    key_set: Bytes,
}

/// Why an acknowledgement key can't be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct AcknowledgementKeyError(String);

fn error(detail: impl Into<String>) -> AcknowledgementKeyError {
    AcknowledgementKeyError(detail.into())
}

impl AcknowledgementKeys {
    /// Reads the configured keys. Without any, it reads the key of `data_dir`, which is created
    /// first where there is none.
    ///
    /// # Errors
    /// A file that can't be read or created, or isn't an Ed25519 key in PKCS#8 PEM.
    pub fn open(configured: &[PathBuf], data_dir: &Path) -> Result<Self, AcknowledgementKeyError> {
        if configured.is_empty() {
            let path = data_dir.join(KEY_FILE);
            create_if_absent(&path)?;
            return Self::new(vec![read(&path)?]);
        }
        let keys: Result<Vec<_>, _> = configured.iter().map(|path| read(path)).collect();
        Self::new(keys?)
    }

    /// Returns a new key that is nowhere stored, for a gateway that acknowledges nothing, and for
    /// tests.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn generate() -> Result<Self, AcknowledgementKeyError> {
        let key = SigningKey::generate(Algorithm::Ed25519).map_err(|why| error(why.to_string()))?;
        Self::new(vec![key])
    }

    fn new(keys: Vec<SigningKey>) -> Result<Self, AcknowledgementKeyError> {
        let public: Result<Vec<_>, _> = keys
            .iter()
            .map(|key| DirectoryKey::from_pem(key.public_key_pem()))
            .collect();
        let public = public.map_err(error)?;
        let (Some(first), Some(signing)) = (public.first(), keys.into_iter().next()) else {
            return Err(error("no acknowledgement key is given"));
        };
        Ok(Self {
            key_id: first.thumbprint.clone(),
            key_set: key_set(&public).map_err(error)?.into(),
            signing,
        })
    }

    /// The JWK Set (RFC 7517) of all public keys.
    pub(crate) fn key_set(&self) -> Bytes {
        self.key_set.clone()
    }

    /// Returns the body of a 202 in JSON for each record, with acknowledgements that are signed
    /// together.
    ///
    /// # Errors
    /// No sender can cause one: JSON can't be written or made canonical, or a signature
    /// can't be made.
    pub fn queued(&self, records: &[StoredRecord]) -> Result<Vec<Vec<u8>>, AcknowledgementKeyError> {
        let failed = |why: &dyn std::fmt::Display| error(format!("the acknowledgement couldn't be signed: {why}"));
        let acknowledgements: Vec<_> = records.iter().map(|record| self.unsigned(record)).collect();
        let canonical = acknowledgements.iter().map(|unsigned| {
            let json = serde_json::to_vec(unsigned).map_err(|why| failed(&why))?;
            canonicalize(&json, DEPTH_MAX).map_err(|why| failed(&why))
        });
        let canonical = canonical.collect::<Result<Vec<_>, _>>()?;
        let (signature, paths) = if let [alone] = canonical.as_slice() {
            (self.signing.sign(alone), vec![None])
        } else {
            let (root, paths) = hash_tree(canonical.iter().map(Vec::as_slice));
            (self.signing.sign(&root), paths.into_iter().map(Some).collect())
        };
        let signature = STANDARD.encode(signature.map_err(|why| failed(&why))?);
        let bodies = acknowledgements.into_iter().zip(paths).map(|(unsigned, path)| {
            let queued = Queued {
                subject: unsigned.subject,
                status: "queued",
                acknowledgement: Acknowledgement {
                    path,
                    signature: Some(&signature),
                    ..unsigned
                },
            };
            serde_json::to_vec(&queued).map_err(|why| failed(&why))
        });
        bodies.collect()
    }

    fn unsigned<'a>(&'a self, record: &'a StoredRecord) -> Acknowledgement<'a> {
        let position = record.position;
        Acknowledgement {
            request_digest: format!("sha256:{}", hex::encode(record.body_sha256)),
            subject: &record.subject,
            log_position: LogPosition {
                epoch: position.epoch,
                partition: position.partition,
                offset: position.offset,
            },
            received_at: rfc3339_ms(record.received_at_ms),
            key_id: &self.key_id,
            outcome: record.subject.outcome(),
            path: None,
            signature: None,
        }
    }
}

/// A record that the log has durably.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// Kind of the body.
    pub subject: Acknowledged,
    /// SHA-256 of the body after content decoding.
    pub body_sha256: [u8; 32],
    /// Position of the record in the log.
    pub position: Position,
    /// When the log took it, in milliseconds since the Unix epoch: `completeThrough` is by the same
    /// clock.
    pub received_at_ms: i64,
}

/// Receipt or batch that is acknowledged.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Acknowledged {
    /// A single receipt.
    Receipt {
        /// The receipt's `receiptId`.
        receipt_id: Uuid,
    },
    /// A batch.
    Batch {
        /// The batch's `batchId`.
        batch_id: String,
        /// Number of receipts in the batch.
        receipt_count: u32,
    },
}

impl Acknowledged {
    /// Address of the outcome, relative to the service's base URL; for a batch a URI template
    /// (RFC 6570).
    fn outcome(&self) -> String {
        match self {
            Self::Receipt { receipt_id } => format!("/api/v1/receipts/{receipt_id}"),
            Self::Batch { .. } => "/api/v1/receipts/{receiptId}".to_owned(),
        }
    }
}

/// The body of a 202.
#[derive(Serialize)]
struct Queued<'a> {
    #[serde(flatten)]
    subject: &'a Acknowledged,
    status: &'static str,
    acknowledgement: Acknowledgement<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Acknowledgement<'a> {
    request_digest: String,
    #[serde(flatten)]
    subject: &'a Acknowledged,
    log_position: LogPosition,
    received_at: String,
    key_id: &'a str,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<Sibling>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'a str>,
}

#[derive(Serialize)]
struct LogPosition {
    epoch: u32,
    partition: u32,
    offset: u64,
}

fn read(path: &Path) -> Result<SigningKey, AcknowledgementKeyError> {
    let shown = path.display();
    let mut pem = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(KEY_BYTES_MAX).read_to_string(&mut pem))
        .map_err(|why| error(format!("the acknowledgement key {shown} can't be read: {why}")))?;
    let unusable = |why: &dyn std::fmt::Display| {
        error(format!(
            "the acknowledgement key {shown} can't be used: {why}; `receipts keygen --algorithm Ed25519 --out FILE` \
             makes one"
        ))
    };
    let key = SigningKey::from_pkcs8_pem(&pem).map_err(|why| unusable(&why))?;
    match key.algorithm() {
        Algorithm::Ed25519 => Ok(key),
        other => Err(unusable(&format_args!("it is a key of {other}, not of Ed25519"))),
    }
}

/// Creates the key file whole or not at all, readable by its owner alone.
fn create_if_absent(path: &Path) -> Result<(), AcknowledgementKeyError> {
    if path.exists() {
        return Ok(());
    }
    let key = SigningKey::generate(Algorithm::Ed25519).and_then(|key| key.to_pkcs8_pem());
    let pem = key.map_err(|why| error(why.to_string()))?;
    let create = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // Its mode is 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(pem.as_bytes())?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            Err(failed) if failed.error.kind() != io::ErrorKind::AlreadyExists => Err(failed.error),
            // Another process was first; its key is read.
            _ => fs::File::open(folder)?.sync_all(),
        }
    };
    create().map_err(|why| {
        error(format!(
            "the acknowledgement key {} can't be created: {why}",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use receipt::{PublicKey, tree_root};
    use serde_json::{Value, json};

    use super::*;

    fn stored(subject: Acknowledged) -> StoredRecord {
        StoredRecord {
            subject,
            body_sha256: [0xab; 32],
            position: Position {
                epoch: 1,
                partition: 2,
                offset: (1 << 48) - 1,
            },
            received_at_ms: 1_800_000_000_000,
        }
    }

    #[test]
    fn a_receipts_202_has_every_member_and_a_signature_over_the_others() {
        let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
        let public = PublicKey::from_pem(key.public_key_pem()).unwrap();
        let keys = AcknowledgementKeys::new(vec![key]).unwrap();
        let receipt_id = Uuid::from_u128(7);
        let bodies = keys.queued(&[stored(Acknowledged::Receipt { receipt_id })]).unwrap();
        let body: Value = serde_json::from_slice(&bodies[0]).unwrap();
        let mut acknowledgement = body["acknowledgement"].clone();
        let signature = acknowledgement.as_object_mut().unwrap().remove("signature").unwrap();
        let signature = STANDARD.decode(signature.as_str().unwrap()).unwrap();
        let canonical = canonicalize(acknowledgement.to_string().as_bytes(), DEPTH_MAX).unwrap();
        assert!(public.verify(&canonical, &signature));
        let wanted = json!({
            "requestDigest": format!("sha256:{}", "ab".repeat(32)),
            "receiptId": receipt_id,
            "logPosition": {"epoch": 1, "partition": 2, "offset": 281_474_976_710_655_u64},
            "receivedAt": "2027-01-15T08:00:00.000Z",
            "keyId": keys.key_id,
            "outcome": format!("/api/v1/receipts/{receipt_id}"),
        });
        assert_eq!(acknowledgement, wanted);
        assert_eq!(
            (&body["receiptId"], &body["status"]),
            (&json!(receipt_id), &json!("queued"))
        );
    }

    #[test]
    fn records_that_are_acknowledged_together_have_one_signature_and_a_path_each() {
        let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
        let public = PublicKey::from_pem(key.public_key_pem()).unwrap();
        let keys = AcknowledgementKeys::new(vec![key]).unwrap();
        let receipt_id = Uuid::from_u128;
        let records: Vec<_> = (0..7)
            .map(|number| {
                stored(Acknowledged::Receipt {
                    receipt_id: receipt_id(number),
                })
            })
            .collect();
        let mut signatures = Vec::new();
        for (number, body) in (0..).zip(keys.queued(&records).unwrap()) {
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["receiptId"], json!(receipt_id(number)));
            let acknowledgement = body["acknowledgement"].as_object_mut().unwrap();
            let path: Vec<Sibling> = serde_json::from_value(acknowledgement.remove("path").unwrap()).unwrap();
            signatures.push(acknowledgement.remove("signature").unwrap());
            let canonical = canonicalize(body["acknowledgement"].to_string().as_bytes(), DEPTH_MAX).unwrap();
            let root = tree_root(&canonical, &path).unwrap();
            let signature = STANDARD.decode(signatures[0].as_str().unwrap()).unwrap();
            assert!(public.verify(&root, &signature));
        }
        signatures.dedup();
        assert_eq!(signatures.len(), 1);
    }

    #[test]
    fn a_batchs_202_has_strange_ids_as_they_are() {
        let keys = AcknowledgementKeys::generate().unwrap();
        let batch_id = "a\"b\\c\u{1}\u{7f}\u{1f600}".to_owned();
        let subject = Acknowledged::Batch {
            batch_id: batch_id.clone(),
            receipt_count: 12,
        };
        let bodies = keys.queued(&[stored(subject)]).unwrap();
        let body: Value = serde_json::from_slice(&bodies[0]).unwrap();
        for part in [&body, &body["acknowledgement"]] {
            assert_eq!(
                (&part["batchId"], &part["receiptCount"]),
                (&json!(batch_id), &json!(12))
            );
        }
        assert_eq!(body["acknowledgement"]["outcome"], "/api/v1/receipts/{receiptId}");
    }

    #[test]
    fn the_first_key_signs_and_all_are_published() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = ["new.key", "old.key"].map(|name| folder.path().join(name)).into();
        for path in &paths {
            let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
            fs::write(path, key.to_pkcs8_pem().unwrap()).unwrap();
        }
        let keys = AcknowledgementKeys::open(&paths, folder.path()).unwrap();
        let old = AcknowledgementKeys::open(&paths[1..], folder.path()).unwrap();
        let set: Value = serde_json::from_slice(&keys.key_set()).unwrap();
        let ids: Vec<&str> = set["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key["kid"].as_str().unwrap())
            .collect();
        assert_eq!(ids, [keys.key_id.as_str(), old.key_id.as_str()]);
        assert!(!folder.path().join(KEY_FILE).exists());
    }

    #[test]
    fn a_key_is_created_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("data");
        let first = AcknowledgementKeys::open(&[], &data_dir).unwrap();
        let again = AcknowledgementKeys::open(&[], &data_dir).unwrap();
        assert_eq!(first.key_id, again.key_id);
        let mode = fs::metadata(data_dir.join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn other_keys_and_absent_files_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let other = SigningKey::generate(Algorithm::EcdsaP256).unwrap();
        let path = folder.path().join("other.key");
        for (content, wanted) in [
            (None, "can't be read"),
            (Some(String::new()), "can't be used"),
            (Some(other.to_pkcs8_pem().unwrap()), "not of Ed25519"),
        ] {
            if let Some(content) = content {
                fs::write(&path, content).unwrap();
            }
            let refused = AcknowledgementKeys::open(std::slice::from_ref(&path), folder.path());
            let detail = refused.err().unwrap().to_string();
            assert!(detail.contains(wanted) && detail.contains("other.key"), "{detail}");
        }
    }
}

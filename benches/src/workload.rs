//! Client keys, signed receipts and batches, as an ordinary client makes them.

use anyhow::{Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rayon::prelude::*;
use receipt::{Algorithm, Arrival, BodyKind, Judge, Judged, Limits, SigningKey};
use serde_json::json;
use uuid::Uuid;

/// A signed receipt is padded to this size, in bytes, where its key and signature leave room: the
/// size of the figures in the project's papers. RSA's are longer by themselves.
pub const RECEIPT_BYTES: usize = 1_200;
/// Client keys that take turns: few enough to stay in every cache, as an operator's are.
pub const CLIENTS: usize = 16;

/// A client: a key of its own.
pub struct Client {
    id: Uuid,
    key: SigningKey,
    context_bytes: usize,
}

/// A body as it is sent.
#[derive(Debug, Clone)]
pub struct Signed {
    /// The receipt or batch.
    pub body: Bytes,
    /// `X-Service-Signature`, for a single receipt.
    pub request_signature: String,
}

impl Signed {
    /// The body as the verifier finds it in the log, without its request's signature.
    #[must_use]
    pub fn arrival(&self, kind: BodyKind, received_at_ms: i64) -> Arrival<'_> {
        Arrival {
            kind,
            body: &self.body,
            request_signature: None,
            received_at_ms,
        }
    }
}

impl Client {
    /// A client with a new key.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn new(algorithm: Algorithm) -> Result<Self> {
        let mut client = Self {
            id: Uuid::new_v4(),
            key: SigningKey::generate(algorithm)?,
            context_bytes: 8,
        };
        let shortest = client.receipt()?.len();
        client.context_bytes += RECEIPT_BYTES.saturating_sub(shortest);
        Ok(client)
    }

    /// A new receipt without its signature.
    fn unsigned(&self) -> Result<Vec<u8>> {
        let entry = Uuid::new_v4();
        let context: String = "answering a reader's question; "
            .chars()
            .cycle()
            .take(self.context_bytes)
            .collect();
        let receipt = json!({
            "version": "1.0.0",
            "receiptId": Uuid::new_v4(),
            "timestamp": service::instant::rfc3339_ms(service::instant::now_ms()),
            "content": {
                "entryId": entry,
                "url": format!("https://news.publisher.example/2026/articles/{entry}?section=science"),
                "contentHash": format!("sha256:{:064x}", entry.as_u128()),
                "publisher": "news.publisher.example",
            },
            "client": {
                "id": self.id,
                "name": "Example Reader",
                "version": "4.2.0",
                "organization": "Example Operator",
                "publicKey": self.key.public_key_pem(),
            },
            "usage": {
                "purpose": "inference",
                "context": context,
                "queryId": "q-81723",
                "sessionId": "s-1128",
            },
        });
        Ok(serde_json::to_vec(&receipt)?)
    }

    fn receipt(&self) -> Result<Vec<u8>> {
        Ok(receipt::sign_receipt(&self.unsigned()?, &self.key, &Limits::default())?)
    }

    fn single(&self) -> Result<Signed> {
        self.signed(self.receipt()?)
    }

    fn batch(&self, receipts: usize) -> Result<Signed> {
        let mut body = format!(r#"{{"version":"1.0.0","batchId":"{}","receipts":["#, Uuid::new_v4()).into_bytes();
        for index in 0..receipts {
            if index > 0 {
                body.push(b',');
            }
            body.extend(self.receipt()?);
        }
        body.extend(b"]}");
        self.signed(receipt::sign_batch(&body, &self.key, &Limits::default())?)
    }

    fn signed(&self, body: Vec<u8>) -> Result<Signed> {
        let request_signature = STANDARD.encode(self.key.sign(&body)?);
        Ok(Signed {
            body: body.into(),
            request_signature,
        })
    }
}

/// `count` single receipts of [`CLIENTS`] clients in turn.
///
/// # Errors
/// A key can't be made.
pub fn singles(algorithm: Algorithm, count: usize) -> Result<Vec<Signed>> {
    let clients = (0..CLIENTS)
        .map(|_| Client::new(algorithm))
        .collect::<Result<Vec<_>>>()?;
    clients.iter().cycle().take(count).map(Client::single).collect()
}

/// `count` batches of `receipts` each, every one of a client of its own.
///
/// # Errors
/// A key can't be made.
pub fn batches(algorithm: Algorithm, count: usize, receipts: usize) -> Result<Vec<Signed>> {
    (0..count).map(|_| Client::new(algorithm)?.batch(receipts)).collect()
}

/// Requests of `batch` receipts each, `receipts` in all, each receipt once, signed on all cores.
/// The clients take turns: `clients` has their number by algorithm. A batch of 1 is a single
/// receipt.
///
/// # Errors
/// A key can't be made.
pub fn unique(clients: &[(Algorithm, usize)], batch: usize, receipts: usize) -> Result<Vec<Signed>> {
    let algorithms: Vec<Algorithm> = clients
        .iter()
        .flat_map(|(algorithm, count)| std::iter::repeat_n(*algorithm, *count))
        .collect();
    let clients = algorithms
        .into_par_iter()
        .map(Client::new)
        .collect::<Result<Vec<_>>>()?;
    let requests = (0..receipts / batch).into_par_iter();
    let signed = requests.map(|request| {
        let client = &clients[request % clients.len()];
        if batch == 1 {
            client.single()
        } else {
            client.batch(batch)
        }
    });
    signed.collect()
}

/// Makes sure that what is about to be measured is the good path.
///
/// # Errors
/// A receipt isn't verified.
pub fn all_verified(judge: &Judge, arrival: &Arrival<'_>) -> Result<()> {
    let reasons = judge.judge(arrival, &|_, judged| match judged {
        Judged::Verified(_) => None,
        Judged::Rejected(rejected) => Some(format!("{}: {}", rejected.reason, rejected.detail)),
    });
    ensure!(!reasons.is_empty(), "a body of the workload holds no receipts");
    if let Some(reason) = reasons.into_iter().flatten().next() {
        bail!("a receipt of the workload is rejected: {reason}");
    }
    Ok(())
}

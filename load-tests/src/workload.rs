//! Client keys, signed bodies, and what each one must lead to. Signing runs on threads of its own,
//! ahead of the sending by a bounded queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use receipt::{Algorithm, Limits, SigningKey};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::expected::Item;
use crate::plan::{Extent, Plan};

/// Earlier receipts of each client that are sent again.
const REPEATABLE_MAX: usize = 256;
/// Requests signed ahead.
const AHEAD_MAX: usize = 256;

/// Answer that the gateway must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 202.
    Accepted,
    /// 400.
    Refused,
}

/// A request, ready to send.
#[derive(Debug, Clone)]
pub struct Request {
    /// `/api/v1/receipts` or `/api/v1/receipts/batch`.
    pub path: &'static str,
    /// The body.
    pub body: Bytes,
    /// `X-Service-Signature`, for a single receipt.
    pub signature: Option<String>,
    /// Required answer.
    pub answer: Answer,
    /// Expected outcomes of its receipts.
    pub items: Vec<Item>,
}

struct Client {
    id: Uuid,
    key: SigningKey,
    public_pem: String,
    earlier: VecDeque<(Vec<u8>, Item)>,
}

/// Starts signing; the receiver ends when the plan's extent is reached, or after `stop`.
///
/// # Errors
/// A key can't be made.
pub fn start(plan: Arc<Plan>, stop: CancellationToken) -> Result<(mpsc::Receiver<Request>, JoinHandle<Result<()>>)> {
    let (sender, receiver) = mpsc::channel(AHEAD_MAX.min(100_000 / plan.batch.max(1)).max(4));
    let mut maker = Maker::new(Arc::clone(&plan))?;
    let thread = std::thread::Builder::new().name("signing".to_owned()).spawn(move || {
        let mut made = 0_u64;
        let started = std::time::Instant::now();
        loop {
            let wanted = match plan.extent {
                _ if stop.is_cancelled() => break,
                Extent::Receipts(count) if made >= count => break,
                Extent::Receipts(count) => (count - made).min(plan.batch as u64),
                Extent::Time(time) if started.elapsed() >= time => break,
                Extent::Time(_) => plan.batch as u64,
            };
            let request = maker.request(usize::try_from(wanted)?)?;
            made += wanted;
            if sender.blocking_send(request).is_err() {
                break;
            }
        }
        Ok(())
    })?;
    Ok((receiver, thread))
}

struct Maker {
    plan: Arc<Plan>,
    random: StdRng,
    clients: Vec<Client>,
    entries: Vec<Uuid>,
    limits: Limits,
}

impl Maker {
    fn new(plan: Arc<Plan>) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(plan.seed);
        let weights: u32 = plan.algorithms.iter().map(|(_, weight)| weight).sum();
        let mut clients = Vec::with_capacity(plan.clients);
        for index in 0..plan.clients {
            // The first clients take the algorithms in turn, so that each occurs; the rest follow
            // the weights.
            let mut pick = random.random_range(0..weights);
            let drawn = plan.algorithms.iter().find(|(_, weight)| {
                let here = pick < *weight;
                pick = pick.saturating_sub(*weight);
                here
            });
            let algorithm = plan
                .algorithms
                .get(index)
                .or(drawn)
                .map_or(Algorithm::Ed25519, |(algorithm, _)| *algorithm);
            let key = SigningKey::generate(algorithm)?;
            let public_pem = key.public_key_pem().to_owned();
            clients.push(Client {
                id: Uuid::new_v4(),
                key,
                public_pem,
                earlier: VecDeque::new(),
            });
        }
        let entries = (0..plan.entries).map(|_| Uuid::new_v4()).collect();
        Ok(Self {
            plan,
            random,
            clients,
            entries,
            limits: Limits::default(),
        })
    }

    fn request(&mut self, receipts: usize) -> Result<Request> {
        if self.random.random_bool(self.plan.malformed) {
            return self.malformed();
        }
        let client = self.random.random_range(0..self.clients.len());
        let mut bodies = Vec::with_capacity(receipts);
        let mut items = Vec::with_capacity(receipts);
        for _ in 0..receipts {
            let (body, item) = self.receipt(client)?;
            bodies.push(body);
            items.push(item);
        }
        if self.plan.batch == 1 {
            let body = bodies.pop().context("a request of no receipts")?;
            let signature = STANDARD.encode(self.clients[client].key.sign(&body)?);
            return Ok(Request {
                path: "/api/v1/receipts",
                body: body.into(),
                signature: Some(signature),
                answer: Answer::Accepted,
                items,
            });
        }
        let mut batch = Vec::with_capacity(bodies.iter().map(|body| body.len() + 1).sum::<usize>() + 1024);
        batch.extend_from_slice(b"{\"version\":\"1.0.0\",\"batchId\":\"batch_");
        batch.extend_from_slice(Uuid::new_v4().simple().to_string().as_bytes());
        batch.extend_from_slice(b"\",\"receipts\":[");
        for (index, body) in bodies.iter().enumerate() {
            if index > 0 {
                batch.push(b',');
            }
            batch.extend_from_slice(body);
        }
        batch.extend_from_slice(b"]}");
        let body = receipt::sign_batch(&batch, &self.clients[client].key, &self.limits)?;
        Ok(Request {
            path: "/api/v1/receipts/batch",
            body: body.into(),
            signature: None,
            answer: Answer::Accepted,
            items,
        })
    }

    /// Makes a receipt of a client: new, repeated or tampered with.
    fn receipt(&mut self, client: usize) -> Result<(Vec<u8>, Item)> {
        let share: f64 = self.random.random();
        let earlier = self.clients[client].earlier.len();
        if share < self.plan.duplicates && earlier > 0 {
            let (body, item) = &self.clients[client].earlier[self.random.random_range(0..earlier)];
            return Ok((body.clone(), item.clone()));
        }
        let (body, mut item) = self.new_receipt(client)?;
        if share >= self.plan.duplicates && share < self.plan.duplicates + self.plan.tampered {
            item.rejected = Some("bad_signature");
            return Ok((tamper(body)?, item));
        }
        let earlier = &mut self.clients[client].earlier;
        if earlier.len() == REPEATABLE_MAX {
            earlier.pop_front();
        }
        earlier.push_back((body.clone(), item.clone()));
        Ok((body, item))
    }

    fn new_receipt(&mut self, client: usize) -> Result<(Vec<u8>, Item)> {
        let entry_id = self.entries[self.random.random_range(0..self.entries.len())];
        let (purpose, extra) = match self.random.random_range(0..3) {
            0 => ("training", r#""datasetId":"ds-2026-11","modelId":"m-large-3""#),
            1 => ("inference", r#""queryId":"q-81723","sessionId":"s-1128""#),
            _ => ("research", r#""studyId":"st-7","researcherId":"r-19""#),
        };
        let timestamp_ms = now_ms() - self.random.random_range(0..3_600_000);
        let timestamp = jiff::Timestamp::from_millisecond(timestamp_ms)?;
        let receipt_id = Uuid::new_v4();
        let client = &self.clients[client];
        let body = format!(
            concat!(
                r#"{{"version":"1.0.0","receiptId":"{receipt}","timestamp":"{timestamp:.3}","#,
                r#""content":{{"entryId":"{entry}","url":"https://{publisher}/articles/{entry}","#,
                r#""contentHash":"sha256:{hash:064x}","publisher":"{publisher}"}},"#,
                r#""client":{{"id":"{client}","name":"Load Reader","version":"4.2.0","organization":"Example Operator","#,
                r#""publicKey":{key}}},"usage":{{"purpose":"{purpose}","context":"load test","#,
                r#"{extra}}}}}"#
            ),
            receipt = receipt_id,
            timestamp = timestamp,
            entry = entry_id,
            publisher = self.plan.publisher,
            hash = entry_id.as_u128(),
            client = client.id,
            key = serde_json::to_string(&client.public_pem)?,
            purpose = purpose,
            extra = extra,
        );
        let signed = receipt::sign_receipt(body.as_bytes(), &client.key, &self.limits)?;
        Ok((
            signed,
            Item {
                receipt_id,
                client_id: client.id,
                entry_id,
                purpose,
                rejected: None,
            },
        ))
    }

    fn malformed(&mut self) -> Result<Request> {
        let (body, _) = self.new_receipt(0)?;
        let body = match self.random.random_range(0..4) {
            0 => body[..body.len() / 2].to_vec(),
            1 => b"not json at all".to_vec(),
            2 => String::from_utf8(body)?
                .replace("\"purpose\":", "\"purposes\":")
                .into_bytes(),
            _ => b"{}".to_vec(),
        };
        let batch = self.plan.batch > 1;
        Ok(Request {
            path: if batch {
                "/api/v1/receipts/batch"
            } else {
                "/api/v1/receipts"
            },
            body: body.into(),
            signature: (!batch).then(|| STANDARD.encode([7_u8; 64])),
            answer: Answer::Refused,
            items: Vec::new(),
        })
    }
}

/// Changes one signed member; the receipt stays well-formed.
fn tamper(body: Vec<u8>) -> Result<Vec<u8>> {
    Ok(String::from_utf8(body)?.replace("load test", "load tost").into_bytes())
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

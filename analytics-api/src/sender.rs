//! Senders: whoever proves a key by a signature of RFC 9421 sees what became of the receipts that
//! the key sent. Possession of the key is the whole authorisation; there is no account.
//!
//! | field | content |
//! |---|---|
//! | `X-Client-Public-Key` | base64 of the SPKI in DER |
//! | `Signature-Input`, `Signature` | one signature over at least `"@method" "@target-uri"`, with `created` and `expires`; a `keyid` must be the key's RFC 7638 thumbprint |

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_signatures::{DirectoryKey, Message, MessageSignature};
use receipt::PublicKey;
use service::instant::now_ms;
use service::problem::Kind;
use service::rate_limit::{InProcessLimiter, Quota};
use web::Failure;
use web::access::{COST, Gatekeeper};

use crate::access::Access;

/// The longest that a signature may hold, in seconds.
const SECONDS_MAX: i64 = 300;
/// No SPKI of the three kinds is longer in base64.
const KEY_BYTES_MAX: usize = 1_024;
/// Keys counted one by one; further ones share one count.
const KEYS_COUNTED_MAX: usize = 10_000;
/// The account of all senders together, where accounts share resources: keys cost nothing.
const ACCOUNT: &str = "senders";

const PUBLIC_KEY: HeaderName = HeaderName::from_static("x-client-public-key");
const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
const SIGNATURE: HeaderName = HeaderName::from_static("signature");

/// A caller who has proven a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProvenSender {
    /// SHA-256 of the key's SPKI.
    pub(crate) key_fingerprint: [u8; 32],
}

/// A caller who may look up a receipt.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// By an API key.
    Publisher(Access),
    /// By a signature.
    Sender(ProvenSender),
}

impl ProvenSender {
    /// The account that resources are shared by.
    pub(crate) fn account_id(self) -> &'static str {
        ACCOUNT
    }
}

impl Caller {
    /// The account that resources are shared by.
    pub(crate) fn account_id(&self) -> &str {
        match self {
            Self::Publisher(access) => access.account_id(),
            Self::Sender(sender) => sender.account_id(),
        }
    }

    /// Operators whose receipts the caller counts as proven; all of them if there are none.
    pub(crate) fn trusted(&self) -> &[String] {
        match self {
            Self::Publisher(access) => access.trusted(),
            Self::Sender(_) => &[],
        }
    }
}

/// Authenticates senders, and counts their requests by key in this process.
#[derive(Clone)]
pub(crate) struct SenderGate {
    limiter: Arc<InProcessLimiter>,
    quota: Quota,
    /// Scheme and authority that clients use; without it `http://` and the request's own authority.
    public_url: Option<Arc<str>>,
    cost: fn(&Request) -> u32,
}

impl SenderGate {
    pub(crate) fn new(per_minute: u32, public_url: Option<&str>, cost: fn(&Request) -> u32) -> Self {
        Self {
            limiter: Arc::new(InProcessLimiter::new(KEYS_COUNTED_MAX)),
            quota: Quota {
                per_minute,
                per_day: None,
            },
            public_url: public_url.map(|url| url.trim_end_matches('/').into()),
            cost,
        }
    }

    fn authenticate(&self, request: &Request, now_s: i64) -> Result<ProvenSender, Failure> {
        let base = self.base(request)?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let authority = base.split_once("://").map_or(&*base, |(_, authority)| authority);
        let message = Message {
            method: request.method().as_str(),
            target_uri: &format!("{base}{path}"),
            authority,
            content_digest: None,
            is_response: false,
        };
        verify(request.headers(), &message, now_s)
    }

    fn base(&self, request: &Request) -> Result<String, Failure> {
        if let Some(url) = &self.public_url {
            return Ok(url.to_string());
        }
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = request.uri().authority().map(Authority::as_str).or(host);
        let authority = authority.ok_or_else(|| Failure::new(Kind::BadRequest, "send one Host"))?;
        let authority = authority.to_ascii_lowercase();
        Ok(format!(
            "http://{}",
            authority.strip_suffix(":80").unwrap_or(&authority)
        ))
    }
}

/// The layer of addresses for senders alone: puts a [`ProvenSender`] beside the request.
pub(crate) async fn signed(State(gate): State<SenderGate>, mut request: Request, next: Next) -> Response {
    let sender = match gate.authenticate(&request, now_ms().div_euclid(1_000)) {
        Ok(sender) => sender,
        Err(failure) => return failure.into_response(),
    };
    let cost = (gate.cost)(&request).min(gate.quota.per_minute);
    let key: String = sender
        .key_fingerprint
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let decision = gate.limiter.take_now(&key, cost, &gate.quota);
    let mut response = match decision.problem(cost) {
        Some(problem) => Failure::from(problem).into_response(),
        None => {
            request.extensions_mut().insert(sender);
            next.run(request).await
        }
    };
    decision.write_headers(response.headers_mut());
    response.headers_mut().insert(COST, HeaderValue::from(cost));
    response
}

/// The layer of addresses for publishers and senders: a request with `Signature-Input` is a
/// sender's, any other needs an API key.
pub(crate) async fn signed_or_keyed(
    State((gate, gatekeeper)): State<(SenderGate, Gatekeeper)>,
    request: Request,
    next: Next,
) -> Response {
    if request.headers().contains_key(SIGNATURE_INPUT) {
        signed(State(gate), request, next).await
    } else {
        web::access::api_key(State(gatekeeper), request, next).await
    }
}

fn missing() -> Failure {
    let detail = "sign the request with the key that sent the receipts (RFC 9421): send X-Client-Public-Key, \
        Signature-Input and Signature, each once";
    Failure::new(Kind::MissingMessageSignature, detail)
}

fn invalid(detail: impl Into<String>) -> Failure {
    Failure::new(Kind::InvalidMessageSignature, detail)
}

fn verify(headers: &HeaderMap, message: &Message<'_>, now_s: i64) -> Result<ProvenSender, Failure> {
    let field = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none()).ok_or_else(missing)?;
        value.to_str().map_err(|_| missing())
    };
    let key = public_key(field(&PUBLIC_KEY)?)?;
    let signatures = MessageSignature::parse(field(&SIGNATURE_INPUT)?, field(&SIGNATURE)?)
        .map_err(|error| invalid(error.to_string()))?;
    // One, so that a request costs one verification.
    let [signature] = signatures.as_slice() else {
        return Err(invalid(format!("send one signature, not {}", signatures.len())));
    };
    if let Some(key_id) = signature.key_id() {
        let thumbprint = key.thumbprint.as_deref();
        if thumbprint != Some(key_id) {
            let wanted = thumbprint.unwrap_or("not given");
            return Err(invalid(format!(
                "keyid must be {wanted}, the thumbprint (RFC 7638) of X-Client-Public-Key, or be left out"
            )));
        }
    }
    signature
        .verify(&key.key, message, &["@method", "@target-uri"], now_s, SECONDS_MAX)
        .map_err(|error| {
            let (method, uri) = (message.method, message.target_uri);
            invalid(format!("{error}; here @method is {method} and @target-uri is {uri}"))
        })?;
    Ok(ProvenSender {
        key_fingerprint: *key.key.fingerprint(),
    })
}

struct SenderKey {
    key: PublicKey,
    /// Thumbprint; `None` for an RSA key with an unusual exponent.
    thumbprint: Option<String>,
}

fn public_key(text: &str) -> Result<SenderKey, Failure> {
    let unusable = |why: &str| invalid(format!("X-Client-Public-Key: {why}"));
    let is_base64 = text.len() <= KEY_BYTES_MAX && STANDARD.decode(text).is_ok();
    if !is_base64 {
        return Err(unusable("must be base64 of the SubjectPublicKeyInfo in DER"));
    }
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
    let key = PublicKey::from_pem(&pem).map_err(|error| unusable(&error.to_string()))?;
    let thumbprint = DirectoryKey::from_pem(&pem).ok().map(|key| key.thumbprint);
    Ok(SenderKey { key, thumbprint })
}

impl<S: Sync> FromRequestParts<S> for ProvenSender {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        // Every address with senders has the layer.
        let unlayered = || Failure::new(Kind::Internal, "the request id finds the cause in the log");
        parts.extensions.get::<Self>().copied().ok_or_else(unlayered)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match parts.extensions.get::<ProvenSender>() {
            Some(sender) => Ok(Self::Sender(*sender)),
            None => Access::from_request_parts(parts, state).await.map(Self::Publisher),
        }
    }
}

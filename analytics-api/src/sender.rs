//! Senders: whoever proves a key by a signature of RFC 9421 sees what became of the receipts that
//! the key sent. Possession of the key is the whole authorisation; there is no account.
//!
//! | field | content |
//! |---|---|
//! | `X-Client-Public-Key` | base64 of the SPKI in DER |
//! | `Signature-Input`, `Signature` | one signature over at least `"@method" "@target-uri"`, with `created` and `expires`; a `keyid` must be the key's RFC 7638 thumbprint |
//!
//! Keys cost nothing, so a key by itself is no reason to serve anybody. A key is *cached* once an
//! answer has shown that it has sent receipts. Before a signature is verified, its request is
//! charged to its address: unknown keys of an address share the quota of one key, and cached ones
//! have a larger quota by address beside that of each key. Half of the senders' queries and of an
//! address's waiting requests is for cached keys.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_server::address::Network;
use http_signatures::{DirectoryKey, Message, MessageSignature};
use receipt::PublicKey;
use service::instant::now_ms;
use service::problem::Kind;
use service::rate_limit::{Decision, InProcessLimiter, Quota};
use sha2::{Digest, Sha256};
use web::Failure;
use web::access::{COST, Gatekeeper};
use web::client_address::quota_key;

use crate::access::Access;
use crate::cached_senders::CachedSenders;
use crate::config::AnalyticsConfig;

/// The longest that a signature may hold, in seconds.
const SECONDS_MAX: i64 = 300;
/// No SPKI of the three kinds is longer in base64.
const KEY_BYTES_MAX: usize = 1_024;
/// Addresses whose whole quota of cached keys fits into the table of counted keys.
const ADDRESSES_COUNTED: usize = 10;
/// The account of all senders together, where accounts share resources: keys cost nothing.
const ACCOUNT: &str = "senders";
/// The part of all unknown keys of that account, and of an address.
const UNKNOWN: &str = "unknown";

const PUBLIC_KEY: HeaderName = HeaderName::from_static("x-client-public-key");
const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
const SIGNATURE: HeaderName = HeaderName::from_static("signature");

/// A caller who has proven a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProvenSender {
    /// SHA-256 of the key's SPKI.
    pub(crate) key_fingerprint: [u8; 32],
    /// Whether the key was cached as one that has sent receipts.
    is_cached: bool,
    /// Key of the quotas of its address.
    address: String,
    /// Name of its key, or of all unknown ones.
    name: String,
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
    /// The account that queries are shared by, and its part.
    pub(crate) fn query_path(&self) -> &'static [&'static str] {
        if self.is_cached {
            &[ACCOUNT]
        } else {
            &[ACCOUNT, UNKNOWN]
        }
    }

    /// The account that waiting requests are shared by, and its parts.
    fn waiting_path(&self) -> Vec<&str> {
        vec![ACCOUNT, &self.address, &self.name]
    }
}

impl Caller {
    /// The account that queries are shared by, and its part.
    pub(crate) fn query_path(&self) -> Vec<&str> {
        match self {
            Self::Publisher(access) => vec![access.account_id()],
            Self::Sender(sender) => sender.query_path().to_vec(),
        }
    }

    /// The account that waiting requests are shared by, and its parts.
    pub(crate) fn waiting_path(&self) -> Vec<&str> {
        match self {
            Self::Publisher(access) => vec![access.account_id()],
            Self::Sender(sender) => sender.waiting_path(),
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

/// Authenticates senders, and counts their requests by address and by key in this process.
#[derive(Clone)]
pub(crate) struct SenderGate {
    cached: Arc<CachedSenders>,
    limiter: Arc<InProcessLimiter>,
    /// Of a cached key, and of all unknown keys of an address.
    of_key: Quota,
    /// Of all cached keys of an address.
    of_address: Quota,
    proxies: Arc<[Network]>,
    /// Scheme and authority that clients use.
    public_url: Option<Arc<str>>,
    /// The listening address, which is accepted as the authority without `public_url`.
    local: SocketAddr,
    cost: fn(&Request) -> u32,
}

impl SenderGate {
    pub(crate) fn new(
        config: &AnalyticsConfig,
        cached: Arc<CachedSenders>,
        local: SocketAddr,
        cost: fn(&Request) -> u32,
    ) -> Self {
        let AnalyticsConfig {
            sender_requests_per_minute,
            sender_address_requests_per_minute,
            trusted_proxies,
            public_url,
            ..
        } = config;
        let quota = |per_minute: &u32| Quota {
            per_minute: *per_minute,
            per_day: None,
        };
        let address_max = usize::try_from(*sender_address_requests_per_minute).unwrap_or(usize::MAX);
        Self {
            limiter: Arc::new(InProcessLimiter::new(address_max.saturating_mul(ADDRESSES_COUNTED))),
            of_key: quota(sender_requests_per_minute),
            of_address: quota(sender_address_requests_per_minute),
            proxies: trusted_proxies.as_slice().into(),
            public_url: public_url.as_ref().map(|url| url.trim_end_matches('/').into()),
            local,
            cached,
            cost,
        }
    }

    /// Charges a request to its address and its key, and verifies its signature in between.
    fn admit(&self, request: &Request) -> (Option<(u32, Decision)>, Result<ProvenSender, Failure>) {
        let most = self.of_key.per_minute.min(self.of_address.per_minute);
        let cost = (self.cost)(request).min(most);
        let address = quota_key(&self.proxies, request.headers(), request.extensions());
        let claimed = claimed_fingerprint(request.headers());
        let is_cached = claimed.is_some_and(|key| self.cached.contains(&key));
        let (count, quota) = if is_cached {
            ("cached keys", &self.of_address)
        } else {
            ("unknown keys", &self.of_key)
        };
        let decision = self.limiter.take_now(&format!("{address} {count}"), cost, quota);
        if let Some(mut problem) = decision.problem(cost) {
            problem.detail = format!("all {count} of an address share one quota: {}", problem.detail);
            return (Some((cost, decision)), Err(problem.into()));
        }
        let key_fingerprint = match self.authenticate(request, now_ms().div_euclid(1_000)) {
            Ok(key_fingerprint) => key_fingerprint,
            Err(failure) => return (None, Err(failure)),
        };
        let sender = |name| ProvenSender {
            key_fingerprint,
            is_cached,
            address,
            name,
        };
        if !is_cached {
            return (Some((cost, decision)), Ok(sender(UNKNOWN.to_owned())));
        }
        let key = hex::encode(key_fingerprint);
        let decision = self.limiter.take_now(&key, cost, &self.of_key);
        let admitted = decision
            .problem(cost)
            .map_or(Ok(sender(key)), |problem| Err(problem.into()));
        (Some((cost, decision)), admitted)
    }

    fn authenticate(&self, request: &Request, now_s: i64) -> Result<[u8; 32], Failure> {
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
        // Else a signature for another service would be valid here, with that service's Host.
        if authority != self.local.to_string() && !is_loopback(&authority) {
            let local = self.local;
            return Err(invalid(format!(
                "this service doesn't know the URL by which clients reach it: whoever runs it sets \
                 analytics.public_url. Until then only requests for http://{local} and loopback names are accepted"
            )));
        }
        Ok(format!(
            "http://{}",
            authority.strip_suffix(":80").unwrap_or(&authority)
        ))
    }
}

/// Whether the host of an authority is this machine, whatever its port.
fn is_loopback(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else {
        return false;
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Fingerprint of the key that a request names, before anything is verified.
fn claimed_fingerprint(headers: &HeaderMap) -> Option<[u8; 32]> {
    let text = headers.get(PUBLIC_KEY)?;
    if text.len() > KEY_BYTES_MAX {
        return None;
    }
    Some(Sha256::digest(STANDARD.decode(text).ok()?).into())
}

/// The layer of addresses for senders alone: puts a [`ProvenSender`] beside the request.
pub(crate) async fn signed(State(gate): State<SenderGate>, mut request: Request, next: Next) -> Response {
    let (charged, admitted) = gate.admit(&request);
    let mut response = match admitted {
        Ok(sender) => {
            request.extensions_mut().insert(sender);
            next.run(request).await
        }
        Err(failure) => failure.into_response(),
    };
    if let Some((cost, decision)) = charged {
        decision.write_headers(response.headers_mut());
        response.headers_mut().insert(COST, HeaderValue::from(cost));
    }
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

/// Verifies the signature; returns the fingerprint of its key.
fn verify(headers: &HeaderMap, message: &Message<'_>, now_s: i64) -> Result<[u8; 32], Failure> {
    let field = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none()).ok_or_else(missing)?;
        value.to_str().map_err(|_| missing())
    };
    // Lines of a structured field are one (RFC 9651, section 4.2).
    let joined = |name: &HeaderName| {
        let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(|line| line.to_str()).collect();
        let joined = lines.map_err(|_| missing())?.join(", ");
        if joined.is_empty() { Err(missing()) } else { Ok(joined) }
    };
    let key = public_key(field(&PUBLIC_KEY)?)?;
    let signatures = MessageSignature::parse(&joined(&SIGNATURE_INPUT)?, &joined(&SIGNATURE)?)
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
    Ok(*key.key.fingerprint())
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
        let unlayered = || Failure::internal();
        parts.extensions.get::<Self>().cloned().ok_or_else(unlayered)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match parts.extensions.get::<ProvenSender>() {
            Some(sender) => Ok(Self::Sender(sender.clone())),
            None => Access::from_request_parts(parts, state).await.map(Self::Publisher),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_are_this_machine() {
        for (authority, expected) in [
            ("localhost", true),
            ("localhost:8080", true),
            ("127.0.0.1:1", true),
            ("127.9.9.9", true),
            ("[::1]:8080", true),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1@evil.example", false),
            ("10.0.0.1:8080", false),
            ("[::2]", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(authority), expected, "{authority}");
        }
    }
}

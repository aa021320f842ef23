//! Problems: errors as RFC 9457 `application/problem+json`.
//!
//! [`Kind`] is the one table from what went wrong to the status, stable code and title; handlers
//! name the kind and say what a person can do about it in `detail`. `type` is the relative
//! reference `/problems/<code>` (RFC 9457, 3.1.1), the same on every host that runs this service.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use crate::request_id::{HEADER as REQUEST_ID, RequestId};

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The most faults one problem lists; a batch of 10,000 wrong receipts is told about the first
/// ones.
pub const FAULTS_MAX: usize = 100;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $status:ident, $code:literal, $title:literal;)*) => {
        /// Kind of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// The HTTP status it is answered with.
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Kind::$kind => StatusCode::$status,)* }
            }

            /// Stable code: public interface.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Kind::$kind => $code,)* }
            }

            /// Title, a few words that never change.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Kind::$kind => $title,)* }
            }

            /// Value of `type`, a relative reference.
            #[must_use]
            pub fn type_uri(self) -> &'static str {
                match self { $(Kind::$kind => concat!("/problems/", $code),)* }
            }
        }
    };
}

kinds! {
    /// The body isn't JSON as RFC 7493 wants it.
    InvalidJson = BAD_REQUEST, "invalid_json", "The body isn't valid JSON";
    /// The body is JSON and no receipt; the faults say where.
    InvalidReceipt = BAD_REQUEST, "invalid_receipt", "The body isn't a valid receipt";
    /// The body is JSON and no batch; the faults say where.
    InvalidBatch = BAD_REQUEST, "invalid_batch", "The body isn't a valid batch";
    /// The body isn't in the encoding that Content-Encoding names.
    InvalidEncoding = BAD_REQUEST, "invalid_encoding", "The body isn't in its declared encoding";
    /// The body is JSON and not of the shape that is wanted; the faults say where.
    InvalidBody = BAD_REQUEST, "invalid_body", "The body isn't valid";
    /// A parameter of the query has a value that can't be.
    InvalidQuery = BAD_REQUEST, "invalid_query", "A query parameter is invalid";
    /// The request itself is malformed in another way.
    BadRequest = BAD_REQUEST, "bad_request", "The request is malformed";
    /// No `X-Service-Signature`.
    MissingRequestSignature = UNAUTHORIZED, "missing_request_signature", "The request signature is missing";
    /// `X-Service-Signature` that isn't base64 of a signature.
    InvalidRequestSignature = BAD_REQUEST, "invalid_request_signature", "The request signature is malformed";
    /// `X-Service-Signature` that doesn't verify.
    BadRequestSignature = UNAUTHORIZED, "bad_request_signature", "The request signature doesn't verify";
    /// A receipt's own signature that doesn't verify.
    BadSignature = UNAUTHORIZED, "bad_signature", "A receipt's signature doesn't verify";
    /// A batch's signature that doesn't verify.
    BadBatchSignature = UNAUTHORIZED, "bad_batch_signature", "The batch's signature doesn't verify";
    /// No signature of RFC 9421, where one proves a key.
    MissingMessageSignature = UNAUTHORIZED, "missing_message_signature", "A message signature is required";
    /// A signature of RFC 9421 that doesn't hold.
    InvalidMessageSignature = UNAUTHORIZED, "invalid_message_signature", "The message signature isn't valid";
    /// No API key.
    MissingApiKey = UNAUTHORIZED, "missing_api_key", "An API key is required";
    /// An API key that is malformed, unknown or revoked.
    InvalidApiKey = UNAUTHORIZED, "invalid_api_key", "The API key isn't valid";
    /// An API key past its time.
    ExpiredApiKey = UNAUTHORIZED, "expired_api_key", "The API key has expired";
    /// No JWT.
    MissingToken = UNAUTHORIZED, "missing_token", "A JWT is required";
    /// A JWT that doesn't hold, for whatever reason but its end.
    InvalidToken = UNAUTHORIZED, "invalid_token", "The JWT isn't valid";
    /// A JWT past its time.
    ExpiredToken = UNAUTHORIZED, "expired_token", "The JWT has expired";
    /// The key hasn't the scope this needs.
    InsufficientScope = FORBIDDEN, "insufficient_scope", "The API key lacks a scope";
    /// The key's account hasn't verified the domain this is about.
    DomainNotVerified = FORBIDDEN, "domain_not_verified", "The domain isn't verified for this account";
    /// The key is limited to other domains of its account.
    KeyDomains = FORBIDDEN, "key_domains", "The API key is for other domains";
    /// A client's key that isn't registered, where only registered ones may sign.
    ClientKeyUnknown = FORBIDDEN, "client_key_unknown", "The client's key isn't registered";
    /// A client's key that is revoked, where only registered ones may sign.
    ClientKeyRevoked = FORBIDDEN, "client_key_revoked", "The client's key is revoked";
    /// A key to be registered whose possession the request doesn't prove.
    KeyNotProven = FORBIDDEN, "key_not_proven", "The request doesn't prove possession of the key";
    /// The address is unknown.
    NotFound = NOT_FOUND, "not_found", "There is nothing at this address";
    /// A receipt for an entry that isn't here, where entries are required.
    EntryUnknown = NOT_FOUND, "entry_unknown", "The entry is unknown";
    /// The entry's id is used: by another entry of the account's, or by someone else.
    EntryConflict = CONFLICT, "entry_conflict", "The entry's id is used";
    /// The account has as many entries as it may have.
    TooManyEntries = CONFLICT, "too_many_entries", "The account has as many entries as it may have";
    /// The account has as many open verification tokens as it may have.
    TooManyChallenges = CONFLICT, "too_many_tokens", "Too many verification tokens wait to be found";
    /// The account has as many domains as it may have.
    TooManyDomains = CONFLICT, "too_many_domains", "The account has as many domains as it may have";
    /// The account has as many erasures in progress as it may have.
    TooManyErasures = CONFLICT, "too_many_erasures", "Too many erasures are under way";
    /// The erasure to be cancelled has begun.
    ErasureBegun = CONFLICT, "erasure_begun", "The erasure has begun";
    /// The key to be rotated doesn't work any more, or has been replaced.
    KeyEnded = CONFLICT, "key_ended", "The API key has come to its end";
    /// The account has as many keys as it may have.
    TooManyKeys = CONFLICT, "too_many_keys", "The account has as many API keys as it may have";
    /// Another operator has the key.
    OperatorKeyHeldElsewhere = CONFLICT, "operator_key_held_elsewhere", "Another operator has the key";
    /// The account or the operator has as many of these as it may have.
    TooManyOperatorItems = CONFLICT, "too_many_operator_items", "As many operators, keys or client IDs as allowed";
    /// No deletion is pending.
    NoDeletionPending = CONFLICT, "no_deletion_pending", "The account isn't to be deleted";
    /// The time to take a deletion back is over.
    DeletionFinal = CONFLICT, "deletion_final", "The deletion can't be taken back any more";
    /// The resource isn't in the state that If-Match names.
    PreconditionFailed = PRECONDITION_FAILED, "precondition_failed", "It is in another state";
    /// The address exists, but not with this method; answer with `Allow`.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed", "The method isn't allowed here";
    /// No media type that Accept names can be produced.
    NotAcceptable = NOT_ACCEPTABLE, "not_acceptable", "None of the accepted media types is available";
    /// Head or body didn't arrive in time.
    RequestTimeout = REQUEST_TIMEOUT, "request_timeout", "The request took too long to arrive";
    /// More body than allowed.
    BodyTooLarge = PAYLOAD_TOO_LARGE, "body_too_large", "The body is too large";
    /// More body than allowed after decoding.
    DecodedBodyTooLarge = PAYLOAD_TOO_LARGE, "decoded_body_too_large", "The decoded body is too large";
    /// Not JSON by its Content-Type.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "The media type isn't supported";
    /// A Content-Encoding other than gzip, zstd and identity.
    UnsupportedEncoding = UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", "The content encoding isn't supported";
    /// A transfer coding other than chunked.
    UnsupportedTransferCoding = NOT_IMPLEMENTED, "unsupported_transfer_coding", "The transfer coding isn't supported";
    /// More head than allowed.
    HeadTooLarge = REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", "The request head is too large";
    /// More requests than the quota allows.
    RateLimited = TOO_MANY_REQUESTS, "rate_limited", "Too many requests";
    /// The log can't take the record in time.
    LogUnavailable = SERVICE_UNAVAILABLE, "log_unavailable", "The receipt log isn't available";
    /// As much in flight as allowed.
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "The service is at its limit";
    /// The warehouse can't be asked.
    WarehouseUnavailable = SERVICE_UNAVAILABLE, "warehouse_unavailable", "The warehouse isn't available";
    /// The warehouse can be asked, and fails at this.
    WarehouseFailed = SERVICE_UNAVAILABLE, "warehouse_failed", "The warehouse failed";
    /// The account store can't be asked.
    AccountsUnavailable = SERVICE_UNAVAILABLE, "accounts_unavailable", "The account store isn't available";
    /// The keys that JWTs are checked with can't be had.
    TokensUnavailable = SERVICE_UNAVAILABLE, "tokens_unavailable", "JWTs can't be checked now";
    /// The process is going away.
    Draining = SERVICE_UNAVAILABLE, "draining", "The service is shutting down";
    /// A bug or a broken engine; the detail says no more than the request id.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Something went wrong on our side";
}

impl Kind {
    /// Whether `code` is that of the first fault, which says more than the kind.
    fn is_format_fault(self) -> bool {
        matches!(self, Kind::InvalidJson | Kind::InvalidReceipt | Kind::InvalidBatch)
    }
}

/// A fault of a body or query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProblemFault {
    /// JSON Pointer (RFC 6901) into the decoded body, or a query parameter's name. Empty:
    /// the whole.
    pub pointer: String,
    /// Stable code.
    pub code: String,
    /// The fault, and what is allowed.
    pub detail: String,
}

/// An error on its way to the client.
#[derive(Debug, Clone)]
#[must_use]
pub struct Problem {
    /// Kind of the error.
    pub kind: Kind,
    /// Detail of this occurrence, and what a person can do about it.
    pub detail: String,
    /// Faults of the body; at most [`FAULTS_MAX`] are answered.
    pub faults: Vec<ProblemFault>,
    /// `Retry-After`, in seconds.
    pub retry_after_s: Option<u32>,
    /// Further headers, such as `Allow` or the quota's.
    pub headers: HeaderMap,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    code: &'a str,
    detail: &'a str,
    #[serde(rename = "requestId")]
    request_id: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [ProblemFault],
}

impl Problem {
    /// A problem of this kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            faults: Vec::new(),
            retry_after_s: None,
            headers: HeaderMap::new(),
        }
    }

    /// Adds a fault.
    pub fn fault(mut self, pointer: impl Into<String>, code: impl Into<String>, detail: impl Into<String>) -> Self {
        self.faults.push(ProblemFault {
            pointer: pointer.into(),
            code: code.into(),
            detail: detail.into(),
        });
        self
    }

    /// Sets `Retry-After`.
    pub fn retry_after_s(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The stable code: the first fault's for a malformed body, else the kind's.
    #[must_use]
    pub fn code(&self) -> &str {
        match self.faults.first() {
            Some(fault) if self.kind.is_format_fault() => &fault.code,
            _ => self.kind.code(),
        }
    }

    /// The answer: members `type`, `title`, `status`, `code`, `detail`, `requestId`, and `errors`
    /// if there are faults.
    #[must_use]
    pub fn into_response(mut self, request_id: &RequestId) -> Response<Full<Bytes>> {
        self.faults.truncate(FAULTS_MAX);
        let status = self.kind.status();
        let body = serde_json::to_vec(&Body {
            r#type: self.kind.type_uri(),
            title: self.kind.title(),
            status: status.as_u16(),
            code: self.code(),
            detail: &self.detail,
            request_id: request_id.as_str(),
            errors: &self.faults,
        });
        let mut response = Response::new(Full::new(Bytes::from(body.unwrap_or_default())));
        *response.status_mut() = status;
        *response.headers_mut() = self.headers;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(REQUEST_ID, request_id.header_value());
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::collections::HashSet;

    use http_body_util::BodyExt;

    use super::*;

    async fn json(response: Response<Full<Bytes>>) -> serde_json::Value {
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    #[tokio::test]
    async fn a_problem_has_the_members_of_rfc_9457_and_ours() {
        let id = RequestId::new();
        let problem = Problem::new(Kind::InvalidReceipt, "2 faults")
            .fault("/receiptId", "invalid_uuid", "must be a UUID")
            .fault(
                "/usage/purpose",
                "unknown_purpose",
                "must be training, inference or research",
            );
        let response = problem.into_response(&id);
        assert_eq!(response.status(), 400);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert_eq!(response.headers()["x-request-id"], id.as_str());
        let wanted = serde_json::json!({
        "type": "/problems/invalid_receipt", "title": "The body isn't a valid receipt", "status": 400,
        "code": "invalid_uuid", "detail": "2 faults", "requestId": id.as_str(), "errors": [
            {"pointer": "/receiptId", "code": "invalid_uuid", "detail": "must be a UUID"},
            {"pointer": "/usage/purpose", "code": "unknown_purpose", "detail": "must be training, inference or research"}
        ]});
        assert_eq!(json(response).await, wanted);
    }

    #[tokio::test]
    async fn retry_after_and_headers_are_sent_and_empty_errors_left_out() {
        let problem = Problem::new(Kind::MethodNotAllowed, "use POST")
            .header(http::header::ALLOW, HeaderValue::from_static("POST"))
            .retry_after_s(7);
        let response = problem.into_response(&RequestId::new());
        assert_eq!(response.headers()["allow"], "POST");
        assert_eq!(response.headers()["retry-after"], "7");
        let body = json(response).await;
        assert_eq!(body["code"], "method_not_allowed");
        assert!(body.get("errors").is_none());
    }

    #[tokio::test]
    async fn faults_are_cut_at_the_limit() {
        let mut problem = Problem::new(Kind::InvalidBatch, "many");
        for index in 0..FAULTS_MAX + 1 {
            problem = problem.fault(format!("/receipts/{index}"), "wrong_type", "must be an object");
        }
        let body = json(problem.into_response(&RequestId::new())).await;
        assert_eq!(body["errors"].as_array().unwrap().len(), FAULTS_MAX);
    }

    #[test]
    fn every_code_is_its_own_and_every_status_an_error() {
        let codes: HashSet<_> = Kind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            assert!(kind.status().is_client_error() || kind.status().is_server_error());
            assert_eq!(kind.type_uri(), format!("/problems/{}", kind.code()));
        }
    }
}

//! Problems: errors as RFC 9457 `application/problem+json`.
//!
//! [`Kind`] is the one table from what went wrong to the status, stable code, title, meaning and
//! remedy; handlers name the kind and say what a person can do about it in `detail`. `type` is the
//! relative reference `/problems/<code>` (RFC 9457, 3.1.1), the same on every host that runs this
//! service. [`crate::problem_page`] serves the table at these addresses.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use crate::request_id::{HEADER as REQUEST_ID, RequestId};

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The most faults that one problem lists. `moreErrors` says if there are more.
pub const FAULTS_MAX: usize = 1_000;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $status:ident, $code:literal, $title:literal, $remedy:literal;)*) => {
        /// Kind of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[doc = $doc])+ $kind,)* }

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

            /// Meaning, for people who meet the code.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Kind::$kind => concat!($($doc),+).trim(),)* }
            }

            /// Advice: what to change.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self { $(Kind::$kind => $remedy,)* }
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
    /// The body isn't JSON as RFC 8259 and RFC 7493 define it. The fault names the position.
    InvalidJson = BAD_REQUEST, "invalid_json", "The body isn't valid JSON",
        "Serialize the body with a JSON library, as UTF-8 without a byte order mark, and \
         write each member once.";
    /// The body is JSON, but not a receipt. `errors` names each member that breaks a rule.
    InvalidReceipt = BAD_REQUEST, "invalid_receipt", "The body isn't a valid receipt",
        "Correct the members that `errors` names and sign again. docs/receipt-format.md has \
         the rules.";
    /// The body is JSON, but not a batch of receipts. `errors` names each fault, with the
    /// receipt's index in its pointer. Nothing of the batch is stored.
    InvalidBatch = BAD_REQUEST, "invalid_batch", "The body isn't a valid batch",
        "Drop or correct the receipts that `errors` names, and sign the batch again. With \
         `moreErrors`, further receipts may be faulty.";
    /// The body is a batch at the address of single receipts, or a single receipt at the
    /// address of batches.
    WrongAddress = BAD_REQUEST, "wrong_address", "The body belongs to another address",
        "Send a receipt to `/api/v1/receipts` with `X-Service-Signature`, and a batch to \
         `/api/v1/receipts/batch`.";
    /// The body can't be decoded as `Content-Encoding` declares.
    InvalidEncoding = BAD_REQUEST, "invalid_encoding", "The body isn't in its declared encoding",
        "Compress the whole body with gzip or zstd, or remove `Content-Encoding`.";
    /// The body is JSON, but not of the form that this address reads. `errors` names the
    /// members.
    InvalidBody = BAD_REQUEST, "invalid_body", "The body isn't valid",
        "Correct the members that `errors` names; `/openapi.json` has the form.";
    /// A query parameter is unknown, occurs twice, is empty or has an invalid value.
    InvalidQuery = BAD_REQUEST, "invalid_query", "A query parameter is invalid",
        "Correct the parameter that `errors` names. The detail lists what is allowed.";
    /// The person behind the JWT is in several accounts, and the request names none of them.
    AccountRequired = BAD_REQUEST, "account_required", "The request must name an account",
        "Send the account's ID in `X-Account-Id`. `GET /api/v1/user/information` lists yours.";
    /// The request breaks a rule of HTTP, such as a missing or repeated `Host`, or its body
    /// ended early.
    BadRequest = BAD_REQUEST, "bad_request", "The request is malformed",
        "Send the request with a common HTTP client; the detail names the rule.";
    /// A single receipt came without the header `X-Service-Signature`.
    MissingRequestSignature = UNAUTHORIZED, "missing_request_signature", "The request signature is missing",
        "Sign the exact bytes of the body with the receipt's key and send the signature in \
         base64. A batch needs none: send it to `/api/v1/receipts/batch`.";
    /// `X-Service-Signature` isn't base64 of a signature of the receipt's algorithm, or occurs
    /// twice.
    InvalidRequestSignature = BAD_REQUEST, "invalid_request_signature", "The request signature is malformed",
        "Send the signature once, in base64 with padding (RFC 4648 section 4).";
    /// `X-Service-Signature` isn't the signature of `client.publicKey` over the body's bytes.
    /// The detail has the SHA-256 of the bytes that arrived and the key's fingerprint.
    BadRequestSignature = UNAUTHORIZED, "bad_request_signature", "The request signature doesn't verify",
        "Send exactly the bytes that were signed, and sign with the key whose public half is \
         in the receipt.";
    /// `signature` isn't the signature of `client.publicKey` over the canonical receipt without
    /// `signature` and `signatureAlgorithm`.
    BadSignature = UNAUTHORIZED, "bad_signature", "A receipt's signature doesn't verify",
        "Canonicalize with RFC 8785 before signing. `POST /api/v1/receipts/explain` returns \
         the bytes to sign.";
    /// The batch's `signature` isn't that of its receipts' key over the canonical batch. The
    /// detail has the SHA-256 of the canonical bytes and the key's fingerprint.
    BadBatchSignature = UNAUTHORIZED, "bad_batch_signature", "The batch's signature doesn't verify",
        "Sign the canonical batch last, and don't change it afterwards. Compare the SHA-256 \
         with that of your bytes.";
    /// This address needs a signature of the request (RFC 9421) by the key that it is about.
    MissingMessageSignature = UNAUTHORIZED, "missing_message_signature", "A message signature is required",
        "Send `Signature-Input` and `Signature` over the components that the detail names.";
    /// The signature of the request (RFC 9421) doesn't verify, is expired or doesn't cover the
    /// required components.
    InvalidMessageSignature = UNAUTHORIZED, "invalid_message_signature", "The message signature isn't valid",
        "Sign the components that the detail names with a fresh `created`, and check the \
         clock.";
    /// The request has no API key.
    MissingApiKey = UNAUTHORIZED, "missing_api_key", "An API key is required",
        "Send `Authorization: Bearer <API_KEY>`. `POST /api/v1/auth/keys` creates keys.";
    /// The API key is malformed, unknown or revoked.
    InvalidApiKey = UNAUTHORIZED, "invalid_api_key", "The API key isn't valid",
        "Check that the whole key is sent. Otherwise create a new one.";
    /// The API key's `expiresAt` is in the past.
    ExpiredApiKey = UNAUTHORIZED, "expired_api_key", "The API key has expired",
        "Create a new key, and rotate keys before they expire.";
    /// The address is about a person, and the request has no JWT.
    MissingToken = UNAUTHORIZED, "missing_token", "A JWT is required",
        "Send `Authorization: Bearer <JWT>` with a token of the configured identity provider.";
    /// The JWT's signature, issuer, audience or claims are wrong.
    InvalidToken = UNAUTHORIZED, "invalid_token", "The JWT isn't valid",
        "Request a new token from the configured identity provider. The detail names the \
         claim.";
    /// The JWT's `exp` is in the past.
    ExpiredToken = UNAUTHORIZED, "expired_token", "The JWT has expired",
        "Request a new token from the identity provider, and check the clock.";
    /// The request has no session's cookie, or the session has ended.
    NoSession = UNAUTHORIZED, "no_session", "There is no session",
        "Sign in again.";
    /// The API key doesn't have the scope that the method needs: `read` for GET, `erase` for
    /// erasures, else `write`.
    InsufficientScope = FORBIDDEN, "insufficient_scope", "The API key lacks a scope",
        "Create a key with the scope that the detail names.";
    /// The person's role in the account doesn't allow this: readers read, editors also change
    /// entries, domains and operators, owners do everything.
    InsufficientRole = FORBIDDEN, "insufficient_role", "Your role in the account doesn't allow this",
        "Ask an owner of the account to do it.";
    /// A request with a session's cookie wasn't sent by a page of this service: `Sec-Fetch-Site` is
    /// neither `same-origin` nor `none`.
    CrossSite = FORBIDDEN, "cross_site", "The request comes from elsewhere",
        "Use the dashboard of this address. Programs send an API key.";
    /// A request that changes something has a session's cookie, and not the session's token in
    /// `X-CSRF-Token`.
    BadCsrfToken = FORBIDDEN, "bad_csrf_token", "The CSRF token is missing or another session's",
        "Load the page again. `GET /api/v1/auth/session` has the token.";
    /// API keys, people's data and erasures can be changed for ten minutes after a sign-in.
    SignInAgain = FORBIDDEN, "sign_in_again", "The sign-in is too long ago for this",
        "Sign in again at `/api/v1/auth/login?fresh=true`, or by a new login link, and repeat the request.";
    /// The account hasn't verified any domain.
    NoVerifiedDomain = FORBIDDEN, "no_verified_domain", "The account has no verified domain",
        "Verify one with `POST /api/v1/verification/generate` and `GET \
         /api/v1/verification/check`.";
    /// The account hasn't verified the domain that the request names.
    DomainNotVerified = FORBIDDEN, "domain_not_verified", "The domain isn't verified for this account",
        "Verify it with `POST /api/v1/verification/generate` and `GET \
         /api/v1/verification/check`.";
    /// The API key is limited to other domains of its account.
    KeyDomains = FORBIDDEN, "key_domains", "The API key is for other domains",
        "Use a key without a limit, or one for this domain.";
    /// This deployment accepts receipts of registered keys only, and this key isn't registered
    /// for `client.id`.
    ClientKeyUnknown = FORBIDDEN, "client_key_unknown", "The client's key isn't registered",
        "Register the key as an operator, or publish it in the operator's key directory \
         (docs/operators.md).";
    /// This deployment accepts receipts of registered keys only, and this key was revoked.
    ClientKeyRevoked = FORBIDDEN, "client_key_revoked", "The client's key is revoked",
        "Sign with another key of the operator.";
    /// A key can be registered only by a request that the key signed.
    KeyNotProven = FORBIDDEN, "key_not_proven", "The request doesn't prove possession of the key",
        "Sign the request with the private key of the key to be registered \
         (docs/operators.md).";
    /// The address doesn't exist, or names something that doesn't exist or belongs to another
    /// account.
    NotFound = NOT_FOUND, "not_found", "Not found",
        "Check the path. `/docs` lists all addresses.";
    /// The publisher has no entry with `content.entryId`, and this receiver requires one.
    EntryUnknown = NOT_FOUND, "entry_unknown", "The entry is unknown",
        "Use the entry ID that the publisher lists for the URL.";
    /// An entry with this ID and other content exists.
    EntryConflict = CONFLICT, "entry_conflict", "The entry's id is used",
        "Change the entry with PATCH, or choose another ID.";
    /// The account's number of entries is at its limit.
    TooManyEntries = CONFLICT, "too_many_entries", "The account has as many entries as it may have",
        "Erase entries that aren't needed, or get a higher tier from the service's operator.";
    /// The account has as many open verification tokens as it may have.
    TooManyChallenges = CONFLICT, "too_many_tokens", "Too many verification tokens wait to be found",
        "Publish and check the open tokens, or wait until they expire.";
    /// The account's number of domains is at its limit.
    TooManyDomains = CONFLICT, "too_many_domains", "The account has as many domains as it may have",
        "Remove a domain, or get a higher tier from the service's operator.";
    /// Another account has verified the domain.
    DomainHeld = CONFLICT, "domain_held", "Another account has verified the domain",
        "Leave your token published. The other account's proof is checked every day: check again once it is gone.";
    /// The account has as many unfinished erasures as it may have.
    TooManyErasures = CONFLICT, "too_many_erasures", "Too many erasures are in progress",
        "Wait until one is done. An erasure can name many entries.";
    /// An erasure can be cancelled only before it begins.
    ErasureBegun = CONFLICT, "erasure_begun", "The erasure has begun",
        "Nothing can be cancelled any more; the erasure's state shows its progress.";
    /// The key to be rotated is revoked, expired or already replaced.
    KeyEnded = CONFLICT, "key_ended", "The API key has come to its end",
        "Create a new key.";
    /// The account's number of active API keys is at the limit of its tier.
    TooManyKeys = CONFLICT, "too_many_keys", "The account has as many API keys as it may have",
        "Revoke a key that isn't used, or rotate one.";
    /// An account has at least one owner, who can't be removed or get another role.
    LastOwner = CONFLICT, "last_owner", "It is the account's last owner",
        "Make somebody else an owner first, or delete the account.";
    /// The account has as many members or open invitations as it may have.
    TooManyMembers = CONFLICT, "too_many_members", "As many members or invitations as allowed",
        "Remove a member or withdraw an invitation. The detail has the limit.";
    /// The signing key is registered for another operator.
    OperatorKeyHeldElsewhere = CONFLICT, "operator_key_held_elsewhere", "Another operator has the key",
        "Generate a key of your own: each key belongs to one operator.";
    /// The account or the operator has as many of these as it may have.
    TooManyOperatorItems = CONFLICT, "too_many_operator_items", "As many operators, keys or client IDs as allowed",
        "Remove one that isn't used. The detail has the limit.";
    /// There is no deletion of the account to be taken back.
    NoDeletionPending = CONFLICT, "no_deletion_pending", "The account isn't to be deleted",
        "Nothing needs to be done: the account remains.";
    /// The time to take back the account's deletion is over.
    DeletionFinal = CONFLICT, "deletion_final", "The deletion can't be taken back any more",
        "Create a new account.";
    /// The resource isn't in the state that `If-Match` names: somebody else changed it.
    PreconditionFailed = PRECONDITION_FAILED, "precondition_failed", "It is in another state",
        "Read it again, and repeat the change with its new `ETag`.";
    /// The address exists, but not with this method.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed", "The method isn't allowed here",
        "Use a method that the header `Allow` lists.";
    /// `Accept` names no media type that this address can produce.
    NotAcceptable = NOT_ACCEPTABLE, "not_acceptable", "None of the accepted media types is available",
        "Send `Accept: application/json`, or one that the detail lists.";
    /// The body didn't arrive within its time. A connection whose head is late is closed without an
    /// answer.
    RequestTimeout = REQUEST_TIMEOUT, "request_timeout", "The request took too long to arrive",
        "Send the request again. Send smaller batches, or compress them, on a slow line.";
    /// The body is longer than this address allows.
    BodyTooLarge = PAYLOAD_TOO_LARGE, "body_too_large", "The body is too large",
        "Send less at once: divide a batch, shorten a receipt. The detail has the limit.";
    /// The body is longer than allowed once its `Content-Encoding` is removed.
    DecodedBodyTooLarge = PAYLOAD_TOO_LARGE, "decoded_body_too_large", "The decoded body is too large",
        "Divide the batch: limits are for decoded bytes.";
    /// `Content-Type` isn't the media type that this address reads.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "The media type isn't supported",
        "Send `Content-Type: application/json`, or what the detail names.";
    /// `Content-Encoding` isn't one that this address reads.
    UnsupportedEncoding = UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", "The content encoding isn't supported",
        "The gateway reads gzip, zstd and identity; the APIs read identity.";
    /// `Transfer-Encoding` names another coding than chunked.
    UnsupportedTransferCoding = NOT_IMPLEMENTED, "unsupported_transfer_coding", "The transfer coding isn't supported",
        "Compress with `Content-Encoding` instead.";
    /// Request line and header fields together are longer than allowed.
    HeadTooLarge = REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", "The request head is too large",
        "Remove header fields such as cookies, or shorten the query.";
    /// The sender used up its quota. `X-RateLimit-*` show limit, rest and reset.
    RateLimited = TOO_MANY_REQUESTS, "rate_limited", "Too many requests",
        "Send the same request again after `Retry-After` seconds. Receipts that are sent \
         twice count once.";
    /// The log didn't confirm the receipts in time. They may be stored.
    LogUnavailable = SERVICE_UNAVAILABLE, "log_unavailable", "The receipt log isn't available",
        "Send the same bytes again after `Retry-After` seconds. Receipts that were stored \
         count once.";
    /// The gateway's clock jumped against monotonic time, so it can't say when the receipts
    /// arrived. Nothing was stored.
    ClockStepped = SERVICE_UNAVAILABLE, "clock_stepped", "The service's clock is in doubt",
        "Send the same bytes again after `Retry-After` seconds. Operators: \
         docs/runbooks/ReceiptsClockWrong.md.";
    /// As many requests, or bytes, are in progress as the service allows.
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "The service is at its limit",
        "Send the same request again after `Retry-After` seconds, with fewer at a time.";
    /// The warehouse didn't answer in time.
    WarehouseUnavailable = SERVICE_UNAVAILABLE, "warehouse_unavailable", "The warehouse isn't available",
        "Send the request again after `Retry-After` seconds. Operators: docs/runbooks.";
    /// The warehouse failed at this query.
    WarehouseFailed = SERVICE_UNAVAILABLE, "warehouse_failed", "The warehouse failed",
        "Report the `requestId` to the service's operator: the log has the cause.";
    /// The account store didn't answer in time.
    AccountsUnavailable = SERVICE_UNAVAILABLE, "accounts_unavailable", "The account store isn't available",
        "Send the request again after `Retry-After` seconds.";
    /// The identity provider's keys can't be fetched.
    TokensUnavailable = SERVICE_UNAVAILABLE, "tokens_unavailable", "JWTs can't be checked now",
        "Send the request again after `Retry-After` seconds.";
    /// This process ends; another one replaces it.
    Draining = SERVICE_UNAVAILABLE, "draining", "The service is shutting down",
        "Send the request again on a new connection.";
    /// A fault of the service. Nothing is known to be wrong with the request.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Something went wrong on our side",
        "Send the request again later. Report the `requestId` to the service's operator: the \
         log has the cause.";
}

impl Kind {
    /// Value of `WWW-Authenticate`, which RFC 9110 (15.5.2) requires of each 401: `Bearer` for API
    /// keys and JWTs (RFC 6750), `Signature` for what is signed.
    fn challenge(self) -> Option<HeaderValue> {
        match self {
            _ if self.status() != StatusCode::UNAUTHORIZED => None,
            Kind::MissingApiKey
            | Kind::InvalidApiKey
            | Kind::ExpiredApiKey
            | Kind::MissingToken
            | Kind::InvalidToken
            | Kind::ExpiredToken
            | Kind::NoSession => Some(HeaderValue::from_static(r#"Bearer realm="receipts""#)),
            _ => Some(HeaderValue::from_static(r#"Signature realm="receipts""#)),
        }
    }

    /// Whether `code` is that of the first fault, which says more than the kind.
    pub(crate) fn is_format_fault(self) -> bool {
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
    /// Whether the body has more faults than these.
    pub more_faults: bool,
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
    #[serde(rename = "moreErrors", skip_serializing_if = "std::ops::Not::not")]
    more_errors: bool,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            faults: Vec::new(),
            more_faults: false,
            retry_after_s: None,
            headers: kind
                .challenge()
                .map(|value| (WWW_AUTHENTICATE, value))
                .into_iter()
                .collect(),
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

    /// Lists at most `count_max` faults.
    pub fn cut_faults(&mut self, count_max: usize) {
        self.more_faults |= self.faults.len() > count_max;
        self.faults.truncate(count_max);
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
    /// if there are faults, with `moreErrors` if there are more than those.
    #[must_use]
    pub fn into_response(self, request_id: &RequestId) -> Response<Full<Bytes>> {
        self.into_response_with(request_id, Bytes::from)
    }

    /// Writes the answer as [`Problem::into_response`] does. `own` makes its body, to account for
    /// memory.
    #[must_use]
    pub fn into_response_with(
        mut self,
        request_id: &RequestId,
        own: impl FnOnce(Vec<u8>) -> Bytes,
    ) -> Response<Full<Bytes>> {
        self.cut_faults(FAULTS_MAX);
        let status = self.kind.status();
        let body = serde_json::to_vec(&Body {
            r#type: self.kind.type_uri(),
            title: self.kind.title(),
            status: status.as_u16(),
            code: self.code(),
            detail: &self.detail,
            request_id: request_id.as_str(),
            errors: &self.faults,
            more_errors: self.more_faults,
        });
        let mut response = Response::new(Full::new(own(body.unwrap_or_default())));
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
        assert_eq!(body["moreErrors"], true);
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

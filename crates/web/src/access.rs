//! API keys and sessions: who asks, and how often their account may.

use std::sync::Arc;

use accounts::{AccountQuota, Accounts, AuthError, Principal, Scope, SecretToken, Tier, TrailActor, UserSession};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header};
use http_server::address::Network;
use service::problem::{Kind, Problem};
use service::rate_limit::{Quota, QuotasConfig, RateLimiter};

use crate::client_address::quota_key;
use crate::{Failure, session};

/// Number of requests that the request counted for.
pub const COST: HeaderName = HeaderName::from_static("x-ratelimit-cost");

/// Dependencies of the layer.
#[derive(Clone)]
pub struct Gatekeeper {
    /// Knows keys and sessions.
    pub accounts: Accounts,
    /// Counts the requests of each account: its keys share one quota, and its people another.
    pub limiter: Arc<dyn RateLimiter>,
    /// The quota of each tier, and that of wrong keys of an address.
    pub quotas: QuotasConfig,
    /// Proxies whose word on a client's address is taken.
    pub proxies: Arc<[Network]>,
    /// Number of requests that a request counts for, at least 1: a function of its head.
    pub cost: fn(&Request) -> u32,
    /// The scope that a request with this method needs.
    pub scope: fn(&Method) -> Scope,
}

/// Credential of a request: an API key, or a session's cookie.
#[derive(Debug, Clone)]
pub enum Credential {
    /// The text after `Bearer `.
    Key(String),
    /// A session's secret.
    Session(SecretToken),
}

impl Credential {
    /// The credential of a request. `Authorization` goes before a cookie.
    ///
    /// # Errors
    /// 401: there is none, or one that can't hold.
    pub fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        if !headers.contains_key(header::AUTHORIZATION)
            && let Some(token) = session::token(headers)?
        {
            return Ok(Self::Session(token));
        }
        bearer(headers).map(|key| Self::Key(key.to_owned()))
    }

    /// The text that names it, for maps in memory.
    #[must_use]
    pub fn secret(&self) -> String {
        match self {
            Self::Key(key) => key.clone(),
            Self::Session(token) => token.reveal(),
        }
    }

    /// Principal of the credential now, for what lasts longer than its request.
    ///
    /// # Errors
    /// The credential doesn't hold any more, or the store fails.
    pub async fn principal(&self, accounts: &Accounts) -> Result<Principal, AuthError> {
        match self {
            Self::Key(key) => accounts.authenticate(key).await,
            Self::Session(token) => {
                let session = accounts.session(token).await?;
                session.map(|session| session.principal).ok_or(AuthError::Unknown)
            }
        }
    }
}

/// Count of the unknown credentials of an address.
pub struct UnknownCredentials<'a> {
    limiter: &'a dyn RateLimiter,
    quota: Quota,
    key: String,
}

impl UnknownCredentials<'_> {
    /// Counts one more.
    pub async fn add(&self) {
        let _ = self.limiter.take(&self.key, 1, &self.quota).await;
    }
}

/// `read` for GET and HEAD, `write` for anything else.
#[must_use]
pub fn read_or_write(method: &Method) -> Scope {
    match *method {
        Method::GET | Method::HEAD => Scope::Read,
        _ => Scope::Write,
    }
}

/// Whether a request with this method of a person without an account makes one for them.
#[must_use]
pub fn makes_account(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// The layer of every address that needs an API key: authenticates, counts, checks the scope that
/// the method needs, and puts an `Arc<Principal>` beside the request. The quota is the account's:
/// its keys share it. Its headers are on every answer to a valid key, and so is [`COST`].
///
/// A session's cookie does what a key does, with the permissions of its person's role and the
/// quota of the account's people. What needs the scope `erase` needs a fresh sign-in as well.
///
/// A request never costs more than the account may ask in a minute, or a day: at the beginning of
/// the window it can be asked, and it is then all that can.
pub async fn api_key(State(gatekeeper): State<Gatekeeper>, mut request: Request, next: Next) -> Response {
    let (principal, signed_in_at_ms) = match gatekeeper
        .principal(request.method(), request.headers(), request.extensions())
        .await
    {
        Ok(found) => found,
        Err(failure) => return failure.into_response(),
    };
    let quota = account_quota(&gatekeeper.quotas, principal.tier, principal.quota);
    let cost = affordable((gatekeeper.cost)(&request), &quota);
    let bucket = match principal.actor {
        TrailActor::Key(_) => principal.account_id.clone(),
        TrailActor::User(_) => people_bucket(&principal.account_id),
    };
    let decision = gatekeeper.limiter.take(&bucket, cost, &quota).await;
    let scope = (gatekeeper.scope)(request.method());
    let is_fresh = || match signed_in_at_ms.filter(|_| scope == Scope::Erase) {
        Some(at_ms) => session::check_fresh(at_ms, gatekeeper.accounts.now_ms()),
        None => Ok(()),
    };
    let mut response = match decision.problem(cost) {
        Some(problem) => Failure::from(problem).into_response(),
        None => match may(&principal, scope).and_then(|()| is_fresh()) {
            Ok(()) => {
                request.extensions_mut().insert(Arc::new(principal));
                next.run(request).await
            }
            Err(failure) => failure.into_response(),
        },
    };
    // A problem's own Retry-After wins over nothing: the decision writes one only if it refused.
    decision.write_headers(response.headers_mut());
    response.headers_mut().insert(COST, HeaderValue::from(cost));
    response
}

/// Key of the quota that the people of an account share. It is apart from that of the API keys: a
/// key that uses up its quota can still be revoked.
#[must_use]
pub fn people_bucket(account_id: &str) -> String {
    format!("people:{account_id}")
}

/// The quota of an account: its own, or that of its tier.
#[must_use]
pub fn account_quota(quotas: &QuotasConfig, tier: Tier, own: Option<AccountQuota>) -> Quota {
    own.map_or_else(
        || quotas.quota(tier.as_str()),
        |own| Quota {
            per_minute: own.per_minute,
            per_day: own.per_day,
        },
    )
}

/// Cost of a request, limited to the whole quota.
fn affordable(cost: u32, quota: &Quota) -> u32 {
    let most = quota
        .per_day
        .map_or(quota.per_minute, |per_day| per_day.min(quota.per_minute));
    cost.min(most).max(1)
}

impl Gatekeeper {
    /// The caller; and when, if it is a person, they signed in.
    async fn principal(
        &self,
        method: &Method,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<(Principal, Option<i64>), Failure> {
        match Credential::of(headers)? {
            Credential::Key(key) => Ok((self.of_key(&key, headers, extensions).await?, None)),
            Credential::Session(token) => {
                let session = self.session(&token, method, headers, extensions).await?;
                let session = self.with_account(session, &token, method).await?;
                Ok((session.principal, Some(session.signed_in_at_ms)))
            }
        }
    }

    /// Principal of a key. An address that has sent too many unknown credentials this minute is
    /// refused before the account store is queried, but for keys that have been right before.
    async fn of_key(&self, key: &str, headers: &HeaderMap, extensions: &Extensions) -> Result<Principal, Failure> {
        if self.accounts.was_right(key) {
            return Ok(self.accounts.authenticate(key).await?);
        }
        let unknown = self.unknown_credentials(headers, extensions).await?;
        let found = self.accounts.authenticate(key).await;
        if let Err(AuthError::Unknown) = found {
            unknown.add().await;
        }
        Ok(found?)
    }

    /// The session of a cookie, if the request brings the proofs that it needs; its use is
    /// recorded.
    ///
    /// # Errors
    /// 401, 403 or 429, as the detail says; 503.
    pub async fn session(
        &self,
        token: &SecretToken,
        method: &Method,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<UserSession, Failure> {
        session::check(token, method, headers)?;
        let unknown = self.unknown_credentials(headers, extensions).await?;
        let Some(session) = self.accounts.session(token).await? else {
            unknown.add().await;
            return Err(session::none());
        };
        self.accounts.touch_session(&session).await?;
        Ok(session)
    }

    /// The session with the account that a request with this method acts on: who is in none gets
    /// one of their own by the first request that makes or changes something.
    ///
    /// # Errors
    /// 401: the person was erased; 503.
    pub async fn with_account(
        &self,
        session: UserSession,
        token: &SecretToken,
        method: &Method,
    ) -> Result<UserSession, Failure> {
        if session.account_id.is_some() || !makes_account(method) {
            return Ok(session);
        }
        self.accounts.own_account(&session.user_id).await?;
        self.accounts.session(token).await?.ok_or_else(session::none)
    }

    /// The count of unknown credentials of the request's address.
    ///
    /// # Errors
    /// 429: there were too many this minute.
    pub async fn unknown_credentials(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<UnknownCredentials<'_>, Failure> {
        let address = quota_key(&self.proxies, headers, extensions);
        let key = format!("{address} wrong keys");
        let quota = Quota {
            per_minute: self.quotas.address_wrong_keys_per_minute,
            per_day: None,
        };
        // Without a charge: a right key costs the address nothing.
        if self.limiter.take(&key, 0, &quota).await.remaining == 0
            && let Some(mut problem) = self.limiter.take(&key, 1, &quota).await.problem(1)
        {
            let (wrong, wait_s) = (quota.per_minute, problem.retry_after_s.unwrap_or(1));
            problem.detail = format!(
                "this address has sent {wrong} unknown API keys or sessions this minute; try again in {wait_s} s. Keys \
                 that have been used before are still accepted"
            );
            return Err(problem.into());
        }
        Ok(UnknownCredentials {
            limiter: &*self.limiter,
            quota,
            key,
        })
    }
}

fn may(principal: &Principal, scope: Scope) -> Result<(), Failure> {
    if principal.can(scope) {
        return Ok(());
    }
    Err(match principal.actor {
        TrailActor::Key(_) => {
            let detail = format!("this API key lacks the scope {scope}: use a key that has it, or create one");
            Failure::new(Kind::InsufficientScope, detail)
        }
        TrailActor::User(_) => {
            let detail = format!("this needs the permission {scope}, which your role doesn't have: ask an owner");
            Failure::new(Kind::InsufficientRole, detail)
        }
    })
}

/// The credentials of `Authorization: Bearer <credentials>` (RFC 6750 section 2.1).
///
/// # Errors
/// 401 if there is no such header, more than one, or another scheme.
pub fn bearer(headers: &HeaderMap) -> Result<&str, Failure> {
    let missing = "send Authorization: Bearer <API_KEY>";
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Err(Failure::new(Kind::MissingApiKey, missing));
    };
    if values.next().is_some() {
        return Err(Failure::new(Kind::InvalidApiKey, "more than one Authorization header"));
    }
    let malformed = || {
        Failure::new(
            Kind::InvalidApiKey,
            "the Authorization header must be: Bearer <API_KEY>",
        )
    };
    let (scheme, key) = value
        .to_str()
        .map_err(|_| malformed())?
        .split_once(' ')
        .ok_or_else(malformed)?;
    let key = key.trim_matches(' ');
    if !scheme.eq_ignore_ascii_case("bearer") || key.is_empty() {
        return Err(malformed());
    }
    Ok(key)
}

impl From<accounts::AuthError> for Failure {
    fn from(error: accounts::AuthError) -> Self {
        match error {
            AuthError::Unavailable(cause) => {
                tracing::warn!(%cause, "API keys can't be checked");
                let detail = "API keys can't be checked now; try again";
                Problem::new(Kind::AccountsUnavailable, detail).retry_after_s(1).into()
            }
            // Told only to who had the right secret.
            AuthError::Expired => Self::new(Kind::ExpiredApiKey, "the API key has expired: create a new one"),
            other => Self::new(Kind::InvalidApiKey, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_request_costs_at_most_what_can_be_asked_at_all() {
        let quota = |per_minute, per_day| Quota { per_minute, per_day };
        for (cost, quota, taken) in [
            (1, quota(60, None), 1),
            (20, quota(60, Some(10_000)), 20),
            (20, quota(5, Some(10_000)), 5),
            (20, quota(60, Some(7)), 7),
            (0, quota(60, None), 1),
        ] {
            assert_eq!(affordable(cost, &quota), taken, "{cost} of {quota:?}");
        }
    }

    #[test]
    fn bearer_credentials() {
        for (value, expected) in [
            ("Bearer rk_1", Some("rk_1")),
            ("bearer  rk_1 ", Some("rk_1")),
            ("Basic rk_1", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("rk_1", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer(&headers).ok(), expected, "{value}");
        }
        let missing = bearer(&HeaderMap::new()).unwrap_err();
        assert_eq!(missing.0.kind, Kind::MissingApiKey);
        assert!(missing.0.headers.contains_key(header::WWW_AUTHENTICATE));
        let mut two = HeaderMap::new();
        two.append(header::AUTHORIZATION, "Bearer a".parse().unwrap());
        two.append(header::AUTHORIZATION, "Bearer b".parse().unwrap());
        assert_eq!(bearer(&two).unwrap_err().0.kind, Kind::InvalidApiKey);
    }
}

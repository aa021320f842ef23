//! Who asks, how often they may, and whose receipts they may see.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use service::problem::{Kind, Problem};
use service::rate_limit::Decision;
use warehouse::Scope;

use crate::app::App;
use crate::failure::Failure;
use crate::params::{Params, shortened};

/// A caller who may read: at least one verified domain.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// In lower case.
    domains: Arc<[String]>,
}

impl Access {
    /// The domains a query is about: all of the key's, or the one that `domain` names.
    ///
    /// # Errors
    /// 403 if `domain` isn't one of the key's, whether it exists or not.
    pub(crate) fn scope(&self, params: &Params) -> Result<Scope, Failure> {
        let Some(domain) = params.get("domain") else {
            return Ok(Scope {
                publishers: self.domains.to_vec(),
            });
        };
        let domain = domain.to_ascii_lowercase();
        if !self.domains.contains(&domain) {
            let detail = format!(
                "{} is not a verified domain of this API key's account",
                shortened(&domain)
            );
            return Err(Failure::new(Kind::DomainNotVerified, detail));
        }
        Ok(Scope {
            publishers: vec![domain],
        })
    }
}

/// The layer of every address that needs a key: authenticates, counts, and puts [`Access`] beside the request. The quota's
/// headers are on every answer to a valid key, whatever the answer is.
pub(crate) async fn access(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let principal = match authenticated(&app, request.headers()).await {
        Ok(principal) => principal,
        Err(failure) => return failure.into_response(),
    };
    let quota = app.deps.quotas.quota(principal.tier.as_str());
    let decision = app.deps.limiter.take(&principal.key_id, 1, &quota).await;
    let response = match decision.problem() {
        Some(problem) => Failure::from(problem).into_response(),
        None => match allowed(&principal) {
            Ok(access) => {
                request.extensions_mut().insert(access);
                next.run(request).await
            }
            Err(failure) => failure.into_response(),
        },
    };
    counted(response, &decision)
}

fn counted(mut response: Response, decision: &Decision) -> Response {
    // A problem's own Retry-After wins over nothing: the decision writes one only if it refused.
    decision.write_headers(response.headers_mut());
    response
}

async fn authenticated(app: &App, headers: &HeaderMap) -> Result<accounts::Principal, Failure> {
    let key = bearer(headers)?;
    app.deps.accounts.authenticate(key).await.map_err(Failure::from)
}

/// The credentials of `Authorization: Bearer <API_KEY>` (RFC 6750 section 2.1).
fn bearer(headers: &HeaderMap) -> Result<&str, Failure> {
    let missing = "send Authorization: Bearer <API_KEY>";
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Err(Failure::unauthorized(Kind::MissingApiKey, missing));
    };
    if values.next().is_some() {
        return Err(Failure::unauthorized(
            Kind::InvalidApiKey,
            "more than one Authorization header",
        ));
    }
    let malformed = || {
        Failure::unauthorized(
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

fn allowed(principal: &accounts::Principal) -> Result<Access, Failure> {
    if !principal.can(accounts::Scope::Read) {
        return Err(Failure::new(
            Kind::InsufficientScope,
            "this API key lacks the scope read",
        ));
    }
    let domains: Arc<[String]> = principal
        .domains
        .iter()
        .map(|domain| domain.to_ascii_lowercase())
        .collect();
    if domains.is_empty() {
        let detail = "the account of this API key has no verified domain";
        return Err(Failure::new(Kind::DomainNotVerified, detail));
    }
    Ok(Access { domains })
}

impl From<accounts::AuthError> for Failure {
    fn from(error: accounts::AuthError) -> Self {
        use accounts::AuthError;
        match error {
            AuthError::Unavailable(cause) => {
                tracing::warn!(%cause, "API keys can't be checked");
                let detail = "API keys can't be checked now; try again";
                Problem::new(Kind::AccountsUnavailable, detail).retry_after_s(1).into()
            }
            // Told only to who had the right secret.
            AuthError::Expired => Self::unauthorized(Kind::ExpiredApiKey, "the API key has expired: create a new one"),
            other => Self::unauthorized(Kind::InvalidApiKey, &other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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

    #[test]
    fn a_domain_narrows_and_a_foreign_one_is_refused() {
        let access = Access {
            domains: ["a.example".to_owned(), "b.example".to_owned()].into(),
        };
        let params = |query: &str| Params::parse(&format!("/x?{query}").parse().unwrap(), &["domain"]).unwrap();
        assert_eq!(
            access.scope(&params("")).unwrap().publishers,
            ["a.example", "b.example"]
        );
        assert_eq!(
            access.scope(&params("domain=B.example")).unwrap().publishers,
            ["b.example"]
        );
        let refused = access.scope(&params("domain=c.example")).unwrap_err();
        assert_eq!(refused.0.kind, Kind::DomainNotVerified);
    }
}

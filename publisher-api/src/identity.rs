//! Extractor of a person: a JWT, and the user it is about.

use std::sync::Arc;

use accounts::User;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue};
use service::problem::{Kind, Problem};
use web::Failure;
use web::access::account_quota;

use crate::jwt::TokenError;
use crate::state::PublisherState;

/// The user behind a request with a JWT.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) user: User,
}

impl Identity {
    /// As the audit trail names the user.
    pub(crate) fn actor(&self) -> String {
        format!("user:{}", self.user.id)
    }

    /// The account the user acts for.
    pub(crate) fn account_id(&self) -> &str {
        &self.user.account_id
    }
}

/// The layer of every address that needs a JWT: checks it, makes the user at the first time, counts
/// the request by the account within its quota, and puts an `Arc<Identity>` beside it.
/// The quota's headers are on every answer to a valid token.
///
/// The count is apart from that of the account's API keys: a key that uses up the quota can still
/// be revoked.
pub(crate) async fn identity(State(app): State<Arc<PublisherState>>, mut request: Request, next: Next) -> Response {
    let identity = match identified(&app, request.headers()).await {
        Ok(identity) => identity,
        Err(failure) => return failure.into_response(),
    };
    let quota = account_quota(&app.deps.quotas, identity.user.tier, identity.user.quota);
    let decision = app
        .deps
        .limiter
        .take(&format!("people:{}", identity.account_id()), 1, &quota)
        .await;
    let mut response = match decision.problem(1) {
        Some(problem) => Failure::from(problem).into_response(),
        None => {
            request.extensions_mut().insert(Arc::new(identity));
            next.run(request).await
        }
    };
    decision.write_headers(response.headers_mut());
    response
        .headers_mut()
        .insert(web::access::COST, HeaderValue::from(1_u32));
    response
}

async fn identified(app: &PublisherState, headers: &HeaderMap) -> Result<Identity, Failure> {
    let token = token(headers)?;
    let accounts = &app.deps.accounts;
    let subject = app.deps.authority.subject(token, accounts.now_ms()).await?;
    let user = accounts.sign_in(&subject).await?;
    Ok(Identity { user })
}

fn token(headers: &HeaderMap) -> Result<&str, Failure> {
    web::bearer(headers).map_err(|Failure(problem)| match problem.kind {
        Kind::MissingApiKey => Failure::new(Kind::MissingToken, "send Authorization: Bearer <JWT>"),
        _ => Failure::new(
            Kind::InvalidToken,
            "one Authorization header is needed, and it must be: Bearer <JWT>",
        ),
    })
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        let detail = error.to_string();
        match error {
            TokenError::Unavailable => {
                let detail = "the identity provider's keys can't be had now, so tokens can't be checked; try again";
                Problem::new(Kind::TokensUnavailable, detail).retry_after_s(10).into()
            }
            // Told only to who had the right signature.
            TokenError::Expired => Self::new(Kind::ExpiredToken, detail),
            _ => Self::new(Kind::InvalidToken, detail),
        }
    }
}

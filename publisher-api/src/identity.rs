//! Layer of addresses about a person: a JWT or a session's cookie, and the user behind it.

use std::sync::Arc;

use accounts::{AccountMembership, AccountQuota, AccountRole, SecretToken, Tier, User, UserSession};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header};
use service::problem::{Kind, Problem};
use web::Failure;
use web::access::{Gatekeeper, account_quota, makes_account, people_bucket};
use web::session;

use crate::jwt::TokenError;
use crate::state::PublisherState;

/// Header that names the account of a request with a JWT, whose person may be in several.
const ACCOUNT: HeaderName = HeaderName::from_static("x-account-id");

/// The user behind a request with a JWT or a session, and the account that they act for.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) user: User,
    /// The account; `None`: they are in none yet, and would own it.
    pub(crate) account_id: Option<String>,
    /// The user's role there.
    pub(crate) role: AccountRole,
    tier: Tier,
    quota: Option<AccountQuota>,
    /// The session and its secret; none with a JWT.
    pub(crate) session: Option<(UserSession, SecretToken)>,
}

/// Dependencies of the layer.
#[derive(Clone)]
pub(crate) struct IdentityGate {
    pub(crate) app: Arc<PublisherState>,
    /// Finds sessions.
    pub(crate) gatekeeper: Gatekeeper,
    /// Role that a request with this method needs. What only owners may do, a session does for ten
    /// minutes after its sign-in.
    pub(crate) role: fn(&Method) -> AccountRole,
    /// Whether a JWT is a credential here: sessions are about cookies alone.
    pub(crate) takes_jwt: bool,
    /// Whether the addresses are about an account: who is in none gets one by what changes it.
    pub(crate) is_of_account: bool,
}

impl Identity {
    /// As the audit trail names the user.
    pub(crate) fn actor(&self) -> String {
        format!("user:{}", self.user.id)
    }

    /// The account that the user acts for. For who is in none it is their own ID, under which
    /// nothing is stored.
    pub(crate) fn account_id(&self) -> &str {
        self.account_id.as_ref().unwrap_or(&self.user.id)
    }

    fn of_session(user: User, session: UserSession, token: SecretToken) -> Self {
        Self {
            user,
            account_id: session.account_id.clone(),
            role: session.role,
            tier: session.principal.tier,
            quota: session.principal.quota,
            session: Some((session, token)),
        }
    }

    fn of_jwt(user: User, membership: Option<AccountMembership>) -> Self {
        Self {
            user,
            role: membership.as_ref().map_or(AccountRole::Owner, |one| one.role),
            tier: membership.as_ref().map_or(Tier::Free, |one| one.tier),
            quota: membership.as_ref().and_then(|one| one.quota),
            account_id: membership.map(|one| one.account_id),
            session: None,
        }
    }
}

/// Role for addresses where everybody in an account reads, and owners change.
pub(crate) fn owners_change(method: &Method) -> AccountRole {
    match *method {
        Method::GET | Method::HEAD => AccountRole::Reader,
        _ => AccountRole::Owner,
    }
}

/// Checks the credential, makes the user of a JWT at the first time, counts the request by the
/// account within its people's quota, checks the role, and puts an `Arc<Identity>` beside the
/// request. The quota's headers are on every answer to a valid credential.
pub(crate) async fn identity(State(gate): State<IdentityGate>, mut request: Request, next: Next) -> Response {
    let identity = match gate
        .identified(request.method(), request.headers(), request.extensions())
        .await
    {
        Ok(identity) => identity,
        Err(failure) => return failure.into_response(),
    };
    let deps = &gate.app.deps;
    let quota = account_quota(&deps.quotas, identity.tier, identity.quota);
    let decision = deps
        .limiter
        .take(&people_bucket(identity.account_id()), 1, &quota)
        .await;
    let mut response = match decision.problem(1) {
        Some(problem) => Failure::from(problem).into_response(),
        None => match gate.allow(&identity, request.method()) {
            Ok(()) => {
                request.extensions_mut().insert(Arc::new(identity));
                next.run(request).await
            }
            Err(failure) => failure.into_response(),
        },
    };
    decision.write_headers(response.headers_mut());
    response
        .headers_mut()
        .insert(web::access::COST, HeaderValue::from(1_u32));
    response
}

impl IdentityGate {
    async fn identified(
        &self,
        method: &Method,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Identity, Failure> {
        let accounts = &self.app.deps.accounts;
        let cookie = match headers.contains_key(header::AUTHORIZATION) {
            true => None,
            false => session::token(headers)?,
        };
        match cookie {
            Some(token) => {
                let mut session = self.gatekeeper.session(&token, method, headers, extensions).await?;
                if self.is_of_account {
                    session = self.gatekeeper.with_account(session, &token, method).await?;
                }
                let user = accounts.user(&session.user_id).await?.ok_or_else(session::none)?;
                Ok(Identity::of_session(user, session, token))
            }
            None if self.takes_jwt => {
                let text = token(headers)?;
                let subject = self.app.deps.authority.subject(text, accounts.now_ms()).await?;
                let user = accounts.sign_in(&subject).await?;
                let membership = self.membership(&user, method, headers).await?;
                Ok(Identity::of_jwt(user, membership))
            }
            None => Err(session::none()),
        }
    }

    /// The account of a request with a JWT: the one that it names, or the only one.
    async fn membership(
        &self,
        user: &User,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Option<AccountMembership>, Failure> {
        let accounts = &self.app.deps.accounts;
        let mut memberships = accounts.memberships(&user.id).await?;
        if memberships.is_empty() && self.is_of_account && makes_account(method) {
            accounts.own_account(&user.id).await?;
            memberships = accounts.memberships(&user.id).await?;
        }
        if let Some(named) = headers.get(ACCOUNT) {
            let found = memberships.into_iter().find(|one| one.account_id.as_bytes() == named);
            return found.map(Some).ok_or_else(|| {
                let detail =
                    "you are in no account with the ID that X-Account-Id has; GET /api/v1/user/information lists yours";
                Failure::not_found(detail)
            });
        }
        if memberships.len() > 1 && self.is_of_account {
            let detail =
                "you are in several accounts: name one in X-Account-Id; GET /api/v1/user/information lists them";
            return Err(Failure::new(Kind::AccountRequired, detail));
        }
        Ok(memberships.into_iter().next())
    }

    fn allow(&self, identity: &Identity, method: &Method) -> Result<(), Failure> {
        let needed = (self.role)(method);
        if identity.role < needed {
            let detail = format!(
                "this needs the role {needed}, and yours is {}: ask an owner",
                identity.role
            );
            return Err(Failure::new(Kind::InsufficientRole, detail));
        }
        match &identity.session {
            Some((session, _)) if needed == AccountRole::Owner => {
                session::check_fresh(session.signed_in_at_ms, self.app.deps.accounts.now_ms())
            }
            _ => Ok(()),
        }
    }
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

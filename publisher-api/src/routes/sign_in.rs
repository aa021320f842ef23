//! `/api/v1/auth/login` and `/api/v1/auth/callback`: signing in at the identity provider.

use std::sync::Arc;

use accounts::{SecretToken, SignInMethod};
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::access::Gatekeeper;
use web::openapi::{ProblemBody, PublicRefusals};
use web::params::{InvalidQuery, Params};
use web::{Failure, session};

use super::join::accepted;
use super::login_link::signed_in;
use super::sign_in_page::{LOGIN, PageAction, SignInPage};
use crate::oidc::{ATTEMPT_S_MAX, SignInAttempt, SignInError};
use crate::state::PublisherState;

const CALLBACK: &str = "/api/v1/auth/callback";
/// Cookie of a sign-in in progress. It must come back with the provider's redirect, so it is `Lax`.
const COOKIE: &str = "__Host-receipts-sign-in";
/// Largest age of the person's sign-in at the provider for a fresh one here, in seconds.
const FRESH_S_MAX: u32 = 600;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(login)).routes(routes!(callback))
}

/// Sign in at the identity provider
///
/// For browsers: leads to the identity provider of this deployment, and back to the dashboard.
#[utoipa::path(
    get, path = LOGIN, tag = "sessions",
    params(
        ("fresh" = Option<bool>, Query, description = "Sign in again even where the provider knows you, as for keys and erasures"),
        ("invitation" = Option<String>, Query, description = "Secret of an invitation, which the sign-in accepts; from the invitation's page alone"),
    ),
    responses(
        (status = 303, description = "The provider's page", headers(("Location" = String, description = "Its address"), ("Set-Cookie" = String, description = "The sign-in in progress"))),
        (status = 403, description = "Another site's page sent the request", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "This deployment has no identity provider", content_type = "text/html"),
        PublicRefusals,
    ),
)]
async fn login(State(app): State<Arc<PublisherState>>, request: Request) -> Result<Response, Failure> {
    let (head, _) = request.into_parts();
    session::check_site(&head.headers)?;
    let params = Params::parse(&head.uri, &["fresh", "invitation"])?;
    let is_fresh = match params.get("fresh") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(InvalidQuery::new("fresh", "must be true or false").into()),
    };
    let invitation = match params.get("invitation") {
        None => None,
        Some(text) => {
            session::check_own_page(&head.headers)?;
            let token = SecretToken::parse(text);
            Some(token.ok_or_else(|| InvalidQuery::new("invitation", "isn't the secret of an invitation"))?)
        }
    };
    let Some(provider) = &app.deps.provider else {
        return Ok(no_provider());
    };
    let now_ms = app.deps.accounts.now_ms();
    let age_s_max = if is_fresh {
        FRESH_S_MAX
    } else {
        app.deps.accounts.session_s_max()
    };
    let before = session::token(&head.headers).ok().flatten();
    let attempt = SignInAttempt::begin(age_s_max, before, invitation, now_ms)?;
    let url = provider.authorization_url(&attempt, &redirect_uri(&app), now_ms).await;
    let location = url.and_then(|url| {
        HeaderValue::try_from(url).map_err(|_| SignInError::Unavailable("its address can't be a header".to_owned()))
    });
    match location {
        Ok(location) => {
            let cookie = session::set_cookie(COOKIE, &attempt.cookie(), "Lax", Some(ATTEMPT_S_MAX));
            let headers = [(header::LOCATION, location), (header::SET_COOKIE, cookie)];
            Ok((StatusCode::SEE_OTHER, headers).into_response())
        }
        Err(error) => Ok(failed(&error)),
    }
}

/// Come back from the identity provider
///
/// For browsers: where the provider sends a person after a sign-in that this browser began.
#[utoipa::path(
    get, path = CALLBACK, tag = "sessions",
    params(
        ("code" = Option<String>, Query, description = "The provider's code"),
        ("state" = Option<String>, Query, description = "What the sign-in was begun with"),
        ("iss" = Option<String>, Query, description = "The provider"),
        ("error" = Option<String>, Query, description = "Why the provider refuses"),
    ),
    responses(
        (status = 303, description = "Signed in; the dashboard", headers(("Location" = String, description = "/dashboard"), ("Set-Cookie" = String, description = "The session"))),
        (status = 403, description = "The answer isn't one to a sign-in of this browser, or isn't good", content_type = "text/html"),
        (status = 404, description = "This deployment has no identity provider, or the invitation can't be used", content_type = "text/html"),
        (status = 409, description = "The invitation's account, or the person, is at a limit", content_type = "text/html"),
        PublicRefusals,
    ),
)]
async fn callback(
    State(app): State<Arc<PublisherState>>,
    Extension(gatekeeper): Extension<Gatekeeper>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, _) = request.into_parts();
    let unknown = gatekeeper.unknown_credentials(&head.headers, &head.extensions).await?;
    let Some(provider) = &app.deps.provider else {
        return Ok(no_provider());
    };
    let accounts = &app.deps.accounts;
    let now_ms = accounts.now_ms();
    let answer = ProviderAnswer::parse(head.uri.query().unwrap_or_default());
    let cookie = session::cookie(&head.headers, COOKIE).and_then(|text| SignInAttempt::parse(text, now_ms));
    let Some(attempt) = cookie.filter(|attempt| attempt.is_answered_by(answer.state.as_deref().unwrap_or_default()))
    else {
        unknown.add().await;
        let why = "it isn't an answer to a sign-in that this browser began a moment ago";
        return Ok(failed(&SignInError::Refused(why.to_owned())));
    };
    let exchanged = async {
        provider.check_issuer(answer.iss.as_deref(), now_ms).await?;
        let refused = || SignInError::Refused("the identity provider gave no code".to_owned());
        let code = answer
            .code
            .as_deref()
            .filter(|_| !answer.has_error)
            .ok_or_else(refused)?;
        let sent = (code, redirect_uri(&app));
        provider
            .exchange(&app.deps.authority, &attempt, (sent.0, &sent.1), now_ms)
            .await
    };
    let (subject, authenticated_at_ms) = match exchanged.await {
        Ok(person) => person,
        Err(error) => {
            unknown.add().await;
            return Ok(failed(&error));
        }
    };
    let user = match &attempt.invitation {
        None => accounts.sign_in(&subject).await?,
        Some(token) => match accepted(accounts.accept_invitation(token, Some(&subject)).await)? {
            Ok(user) => user,
            Err(page) => return Ok((AppendHeaders([(header::SET_COOKIE, forgotten())]), page).into_response()),
        },
    };
    let at_ms = authenticated_at_ms.unwrap_or(now_ms);
    let started = accounts.start_session(&user, SignInMethod::Provider, at_ms, attempt.before.as_ref());
    let answer = signed_in(&started.await?);
    Ok((AppendHeaders([(header::SET_COOKIE, forgotten())]), answer).into_response())
}

/// Parameters of the provider's answer. Others may be among them, which say nothing here.
#[derive(Default)]
struct ProviderAnswer {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    has_error: bool,
}

impl ProviderAnswer {
    /// Reads a query; of a parameter that is repeated, nothing.
    fn parse(query: &str) -> Self {
        let single = |name: &str| {
            let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
            let value = values.next().map(|(_, value)| value.into_owned());
            value.filter(|_| values.next().is_none())
        };
        Self {
            code: single("code"),
            state: single("state"),
            iss: single("iss"),
            has_error: form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "error"),
        }
    }
}

fn redirect_uri(app: &PublisherState) -> String {
    format!("{}{CALLBACK}", app.public_url)
}

/// `Set-Cookie` that removes the cookie of a sign-in.
fn forgotten() -> HeaderValue {
    session::set_cookie(COOKIE, "", "Lax", Some(0))
}

/// The page of a failure. What exactly failed is for the log.
fn failed(error: &SignInError) -> Response {
    tracing::warn!(%error, "a sign-in at the identity provider failed");
    let (status, why) = match error {
        SignInError::Unavailable(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The identity provider can't be reached now. Try again in a minute.",
        ),
        _ => (
            StatusCode::FORBIDDEN,
            "The answer of the identity provider wasn't accepted: it was too late, used before, or not for this browser.",
        ),
    };
    let page = SignInPage {
        status,
        title: "You aren't signed in",
        paragraphs: vec![why.to_owned(), "Open the dashboard and sign in again.".to_owned()],
        action: PageAction::Dashboard,
    };
    (AppendHeaders([(header::SET_COOKIE, forgotten())]), page).into_response()
}

fn no_provider() -> Response {
    let page = SignInPage {
        status: StatusCode::NOT_FOUND,
        title: "This deployment has no identity provider",
        paragraphs: vec![
            "Whoever runs it prints a link that signs you in: receipts login-link --account ID".to_owned(),
            "An API key opens the dashboard, too.".to_owned(),
        ],
        action: PageAction::Dashboard,
    };
    page.into_response()
}

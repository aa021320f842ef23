//! `/api/v1/auth/link/{token}`: signing in by a link that whoever runs the deployment printed.
//!
//! Opening the link changes nothing: mail scanners open links. Its page says whose account it is,
//! so that nobody is signed in to somebody else's unknowingly, and has a button. Only this page
//! can send the button's request (`Sec-Fetch-Site`), so no other page signs a visitor in.

use std::sync::Arc;

use accounts::{LoginLink, SecretToken, SignInMethod};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::access::Gatekeeper;
use web::openapi::PublicRefusals;
use web::{Failure, session};

use super::link_secret::find_by_secret;
use super::sign_in_page::{PageAction, SignInPage};
use crate::state::PublisherState;

/// Address of the page that a person gets to after a sign-in: no request chooses another. Its query
/// lets the page look for the session, which it doesn't do otherwise.
pub(super) const HOME: &str = "/dashboard?session";

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(show, sign_in))
}

/// Page of a login link
///
/// For browsers: says to which account the link signs in, and has the button that does it.
#[utoipa::path(
    get, path = "/api/v1/auth/link/{token}", tag = "sessions",
    params(("token" = String, Path, description = "The link's secret")),
    responses(
        (status = 200, description = "The page", content_type = "text/html"),
        (status = 404, description = "The link was used, has expired, or never was one", content_type = "text/html"),
        PublicRefusals,
    ),
)]
async fn show(
    State(app): State<Arc<PublisherState>>,
    Extension(gatekeeper): Extension<Gatekeeper>,
    Path(text): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, _) = request.into_parts();
    let find = async |token: &SecretToken| app.deps.accounts.login_link(token).await;
    let Some(link) = find_by_secret(&gatekeeper, &head, &text, find).await? else {
        return Ok(used());
    };
    Ok(page(&link).into_response())
}

/// Sign in by a login link
///
/// The request of the button on the link's page. A link signs in once, within 15 minutes.
#[utoipa::path(
    post, path = "/api/v1/auth/link/{token}", tag = "sessions",
    params(("token" = String, Path, description = "The link's secret")),
    responses(
        (status = 303, description = "Signed in; the dashboard", headers(("Location" = String, description = "/dashboard"), ("Set-Cookie" = String, description = "The session"))),
        (status = 403, description = "The request doesn't come from the link's page", body = web::openapi::ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "The link was used, has expired, or never was one", content_type = "text/html"),
        PublicRefusals,
    ),
)]
async fn sign_in(
    State(app): State<Arc<PublisherState>>,
    Extension(gatekeeper): Extension<Gatekeeper>,
    Path(text): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, _) = request.into_parts();
    session::check_site(&head.headers)?;
    let accounts = &app.deps.accounts;
    let find = async |token: &SecretToken| accounts.use_login_link(token).await;
    let Some(user) = find_by_secret(&gatekeeper, &head, &text, find).await? else {
        return Ok(used());
    };
    let before = session::token(&head.headers).ok().flatten();
    let started = accounts.start_session(&user, SignInMethod::Link, accounts.now_ms(), before.as_ref());
    let token = started.await?;
    Ok(signed_in(&token))
}

/// The answer to a sign-in: the session's cookie, and the way to the dashboard.
pub(super) fn signed_in(token: &SecretToken) -> Response {
    let headers = [
        (header::SET_COOKIE, session::begun(token)),
        (header::LOCATION, http::HeaderValue::from_static(HOME)),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn page(link: &LoginLink) -> SignInPage {
    let role = link.role;
    let paragraphs = match &link.account {
        Some((id, name)) => vec![
            format!("This link signs you in to the account {name} ({id}), as {role}."),
            "Continue only if you asked for it: what you enter afterwards belongs to that account.".to_owned(),
        ],
        None => vec!["This link makes the first account of this deployment, and signs you in as its owner.".to_owned()],
    };
    SignInPage {
        status: StatusCode::OK,
        title: "Sign in to Receipts",
        paragraphs,
        action: PageAction::Button("Sign in"),
    }
}

fn used() -> Response {
    let page = SignInPage {
        status: StatusCode::NOT_FOUND,
        title: "This link can’t be used",
        paragraphs: vec![
            "It was used before, or is older than 15 minutes.".to_owned(),
            "Whoever runs this deployment prints another one with: receipts login-link --account ID".to_owned(),
        ],
        action: PageAction::Dashboard,
    };
    page.into_response()
}

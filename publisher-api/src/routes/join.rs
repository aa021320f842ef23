//! `/api/v1/auth/join/{token}`: accepting an invitation by its link.
//!
//! Opening the link changes nothing, as with a login link: mail scanners open links. Its page says
//! into which account it leads. Its link to the sign-in at the identity provider works from this
//! page alone, so nobody joins an account unknowingly, and that sign-in is the acceptance: the
//! person gets no account of their own beside it. Without a provider, the invitation is a login
//! link that an owner made, with a button.

use std::sync::Arc;

use accounts::{MemberError, OfferedMembership, SecretToken, SignInMethod};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::access::Gatekeeper;
use web::openapi::{ProblemBody, PublicRefusals};
use web::{Failure, session};

use super::link_secret::find_by_secret;
use super::login_link::signed_in;
use super::sign_in_page::{LOGIN, PageAction, SignInPage};
use crate::state::PublisherState;

const PATH: &str = "/api/v1/auth/join/";

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(show, accept))
}

/// The link of an invitation.
pub(crate) fn link(public_url: &str, token: &SecretToken) -> String {
    format!("{public_url}{PATH}{}", token.reveal())
}

/// Page of an invitation
///
/// For browsers: says into which account the invitation leads, and leads to the identity provider,
/// whose answer makes the person a member. Without a provider it has a button instead.
#[utoipa::path(
    get, path = "/api/v1/auth/join/{token}", tag = "members",
    params(("token" = String, Path, description = "The link's secret")),
    responses(
        (status = 200, description = "The page", content_type = "text/html"),
        (status = 404, description = "The invitation was used or withdrawn, has expired, or never was one", content_type = "text/html"),
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
    let find = async |token: &SecretToken| app.deps.accounts.invitation(token).await;
    let Some(offer) = find_by_secret(&gatekeeper, &head, &text, find).await? else {
        return Ok(ended());
    };
    Ok(page(&app, &offer, &text))
}

/// Accept an invitation
///
/// The request of the button on the invitation's page, for deployments without an identity
/// provider: signs in as who comes by login links of this role. Others answer with the page.
#[utoipa::path(
    post, path = "/api/v1/auth/join/{token}", tag = "members",
    params(("token" = String, Path, description = "The link's secret")),
    responses(
        (status = 200, description = "The page: the sign-in is at the identity provider", content_type = "text/html"),
        (status = 303, description = "Signed in; the dashboard", headers(("Location" = String, description = "/dashboard"), ("Set-Cookie" = String, description = "The session"))),
        (status = 403, description = "The request doesn't come from the invitation's page", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "The invitation was used or withdrawn, has expired, or never was one", content_type = "text/html"),
        PublicRefusals,
    ),
)]
async fn accept(
    State(app): State<Arc<PublisherState>>,
    Extension(gatekeeper): Extension<Gatekeeper>,
    Path(text): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, _) = request.into_parts();
    session::check_site(&head.headers)?;
    let accounts = &app.deps.accounts;
    let find = async |token: &SecretToken| {
        let offer = accounts.invitation(token).await?;
        Ok(offer.map(|offer| (token.clone(), offer)))
    };
    let Some((token, offer)) = find_by_secret(&gatekeeper, &head, &text, find).await? else {
        return Ok(ended());
    };
    if app.deps.provider.is_some() {
        return Ok(page(&app, &offer, &text));
    }
    let user = match accepted(accounts.accept_invitation(&token, None).await)? {
        Ok(user) => user,
        Err(page) => return Ok(page),
    };
    let before = session::token(&head.headers).ok().flatten();
    let started = accounts.start_session(&user, SignInMethod::Link, accounts.now_ms(), before.as_ref());
    Ok(signed_in(&started.await?))
}

/// The new member, or the page that says why there is none.
pub(super) fn accepted(
    outcome: Result<Option<accounts::User>, MemberError>,
) -> Result<Result<accounts::User, Response>, Failure> {
    match outcome {
        Ok(Some(user)) => Ok(Ok(user)),
        Ok(None) => Ok(Err(ended())),
        Err(MemberError::Store(error)) => Err(error.into()),
        Err(error) => {
            let page = SignInPage {
                status: StatusCode::CONFLICT,
                title: "You can’t join now",
                paragraphs: vec![format!("Nothing was changed: {error}.")],
                action: PageAction::Dashboard,
            };
            Ok(Err(page.into_response()))
        }
    }
}

fn page(app: &PublisherState, offer: &OfferedMembership, token: &str) -> Response {
    let OfferedMembership {
        account_id,
        account_name,
        role,
        invited_by,
    } = offer;
    let by = invited_by.as_ref().map_or("Somebody", |email| email.as_str());
    let page = SignInPage {
        status: StatusCode::OK,
        title: "Join an account of Receipts",
        paragraphs: vec![
            format!("{by} invites you to the account {account_name} ({account_id}), as {role}."),
            "Continue only if you expected this: what you enter there afterwards belongs to that account.".to_owned(),
        ],
        action: match app.deps.provider.is_some() {
            true => PageAction::Link("Sign in and join", format!("{LOGIN}?invitation={token}")),
            false => PageAction::Button("Join"),
        },
    };
    page.into_response()
}

fn ended() -> Response {
    let page = SignInPage {
        status: StatusCode::NOT_FOUND,
        title: "This invitation can’t be used",
        paragraphs: vec![
            "It was used before, was withdrawn, or is older than seven days. Ask for another one.".to_owned(),
        ],
        action: PageAction::Dashboard,
    };
    page.into_response()
}

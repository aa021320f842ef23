//! `/api/v1/auth/invitations`: inviting people into the account.

use std::sync::Arc;

use accounts::{Email, Invitation};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use service::problem::{Kind, Problem};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::openapi::{BodyRefusals, ProblemBody, Refusals};
use web::{Failure, JsonBody, rfc3339_ms};

use super::join;
use super::members::{RoleWord, refusal};
use crate::identity::Identity;
use crate::state::PublisherState;

const PATH: &str = "/api/v1/auth/invitations";

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(invitations, invite))
        .routes(routes!(withdraw))
}

/// An invitation to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Invite {
    role: RoleWord,
    /// Address that it is sent to. Without one, the answer has a link that you hand over.
    #[schema(format = Email, max_length = 254)]
    email: Option<String>,
}

/// An open invitation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct InvitationBody {
    /// `inv_...`.
    invitation_id: String,
    role: RoleWord,
    /// Address that it is sent to; null if somebody hands over its link.
    email: Option<String>,
    /// `usr_...` of the owner who made it.
    invited_by: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// An invitation just made.
#[derive(Debug, Serialize, ToSchema)]
struct NewInvitationBody {
    #[serde(flatten)]
    invitation: InvitationBody,
    /// The link, which is shown only now; null if a mail brings it.
    link: Option<String>,
}

/// The open invitations.
#[derive(Debug, Serialize, ToSchema)]
struct InvitationsBody {
    invitations: Vec<InvitationBody>,
}

/// Invite somebody into the account
///
/// Whoever signs in through the link becomes a member, once, within seven days. An account has 20
/// open invitations at most, and sends 20 of them by mail in a day.
#[utoipa::path(
    post, path = PATH, tag = "members", security(("jwt" = [])), request_body = Invite,
    responses(
        (status = 201, description = "Made", body = NewInvitationBody),
        (status = 409, description = "The account has as many open invitations as it may have, or has sent as many", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn invite(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    JsonBody(wanted): JsonBody<Invite>,
) -> Result<(StatusCode, Json<NewInvitationBody>), Failure> {
    let email = wanted.email.map(|text| address(&app, &text)).transpose()?;
    let accounts = &app.deps.accounts;
    let made = accounts.invite(
        identity.account_id(),
        &identity.user.id,
        wanted.role.into(),
        email.as_ref(),
    );
    let (invitation, token) = made.await.map_err(refusal)?;
    let body = NewInvitationBody {
        invitation: InvitationBody::from(invitation),
        link: token.map(|token| join::link(&app.public_url, &token)),
    };
    Ok((StatusCode::CREATED, Json(body)))
}

/// The open invitations
#[utoipa::path(
    get, path = PATH, tag = "members", security(("jwt" = [])),
    responses((status = 200, description = "Newest first, 20 at most, without their links", body = InvitationsBody), Refusals),
)]
async fn invitations(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<InvitationsBody>, Failure> {
    let invitations = app.deps.accounts.invitations(identity.account_id()).await?;
    let invitations = invitations.into_iter().map(InvitationBody::from).collect();
    Ok(Json(InvitationsBody { invitations }))
}

/// Withdraw an invitation
///
/// The link ends at once.
#[utoipa::path(
    delete, path = "/api/v1/auth/invitations/{id}", tag = "members", security(("jwt" = [])),
    params(("id" = String, Path, description = "The invitationId")),
    responses(
        (status = 204, description = "Withdrawn"),
        (status = 404, description = "The account has no such open invitation", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn withdraw(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    let accounts = &app.deps.accounts;
    let withdrawn = accounts.withdraw_invitation(identity.account_id(), &identity.user.id, &id);
    withdrawn.await.map_err(refusal)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The address of an invitation, where this deployment can send one.
fn address(app: &PublisherState, text: &str) -> Result<Email, Failure> {
    let fault = |detail: String| {
        let problem = Problem::new(
            Kind::InvalidBody,
            "the invitation can't be sent there; the errors say why",
        );
        Failure::from(problem.fault("/email", "invalid_member", detail))
    };
    if app.deps.smtp.host().is_none() || app.config.public_url.is_none() {
        let detail = "this deployment sends no mails with links (smtp.host, publisher.public_url): leave it out, and hand \
            over the link of the answer";
        return Err(fault(detail.to_owned()));
    }
    text.parse::<Email>().map_err(|error| fault(error.to_string()))
}

impl From<Invitation> for InvitationBody {
    fn from(invitation: Invitation) -> Self {
        Self {
            invitation_id: invitation.id,
            role: invitation.role.into(),
            email: invitation.email.map(|email| email.as_str().to_owned()),
            invited_by: invitation.invited_by,
            created_at: rfc3339_ms(invitation.created_at_ms),
            expires_at: rfc3339_ms(invitation.expires_at_ms),
        }
    }
}

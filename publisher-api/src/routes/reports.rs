//! `/api/v1/user/reports`: mails about the account's numbers, as each member chooses them.

use std::sync::Arc;

use accounts::{ReportChoice, SILENT_HOURS, UNPROVEN_PERCENT};
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use service::problem::{Kind, Problem};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::openapi::{BodyRefusals, Refusals};
use web::{Failure, JsonBody};

use crate::identity::Identity;
use crate::state::PublisherState;

const PATH: &str = "/api/v1/user/reports";

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(chosen, choose))
}

/// Mails about the account's numbers. What is left out is off.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ReportsBody {
    /// The numbers of each week, Monday to Sunday (UTC).
    weekly: bool,
    /// The numbers of each month (UTC).
    monthly: bool,
    /// An alert for each operator that uses content and wasn't seen for 90 days.
    new_operator: bool,
    /// An alert for a day (UTC) of which more receipts are unproven, in percent, where fewer were
    /// on the day before. A day needs 100 receipts.
    #[schema(minimum = 1, maximum = 99)]
    unproven_percent: Option<u8>,
    /// An alert after so many hours without a receipt, if there was one in the last 30 days.
    #[schema(minimum = 1, maximum = 720)]
    silent_hours: Option<u16>,
}

/// The mails that you get, and where they go.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ChosenReportsBody {
    weekly: bool,
    monthly: bool,
    new_operator: bool,
    unproven_percent: Option<u8>,
    silent_hours: Option<u16>,
    /// Your address; null: mails wait until you give one (`PATCH /api/v1/user/information`).
    email: Option<String>,
    /// Whether this service sends mails; if not, they wait.
    mail_configured: bool,
}

/// Get the mails that you have chosen
///
/// In the account that you act for: each member chooses their own, in each account.
#[utoipa::path(
    get, path = PATH, tag = "user", security(("jwt" = [])),
    responses((status = 200, description = "The mails", body = ChosenReportsBody), Refusals),
)]
async fn chosen(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<ChosenReportsBody>, Failure> {
    let accounts = &app.deps.accounts;
    let choice = accounts.report_choice(identity.account_id(), &identity.user.id).await?;
    Ok(Json(ChosenReportsBody::of(choice, &app, &identity)))
}

/// Choose the mails that you get
///
/// All of them at once. A mail about a period comes once everything of the period is counted. None
/// comes for a period that ended before it was chosen.
#[utoipa::path(
    put, path = PATH, tag = "user", security(("jwt" = [])), request_body = ReportsBody,
    responses((status = 200, description = "As it is now", body = ChosenReportsBody), Refusals, BodyRefusals),
)]
async fn choose(
    State(app): State<Arc<PublisherState>>,
    Extension(identity): Extension<Arc<Identity>>,
    JsonBody(wanted): JsonBody<ReportsBody>,
) -> Result<Json<ChosenReportsBody>, Failure> {
    let choice = wanted.checked()?;
    let accounts = &app.deps.accounts;
    let chosen = accounts.choose_reports(identity.account_id(), &identity.user.id, &choice);
    if !chosen.await? {
        return Err(Failure::new(Kind::InvalidToken, "you have just left the account"));
    }
    Ok(Json(ChosenReportsBody::of(choice, &app, &identity)))
}

impl ReportsBody {
    fn checked(self) -> Result<ReportChoice, Failure> {
        let mut faults = Vec::new();
        if self
            .unproven_percent
            .is_some_and(|percent| !UNPROVEN_PERCENT.contains(&percent))
        {
            let (least, most) = UNPROVEN_PERCENT.into_inner();
            faults.push((
                "/unprovenPercent",
                format!("must be {least} to {most}, or null for no alert"),
            ));
        }
        if self.silent_hours.is_some_and(|hours| !SILENT_HOURS.contains(&hours)) {
            let (least, most) = SILENT_HOURS.into_inner();
            faults.push((
                "/silentHours",
                format!("must be {least} to {most}, or null for no alert"),
            ));
        }
        if !faults.is_empty() {
            let problem = Problem::new(Kind::InvalidBody, "these mails can't be chosen; the errors say why");
            let add = |problem: Problem, (pointer, detail)| problem.fault(pointer, "invalid_member", detail);
            return Err(faults.into_iter().fold(problem, add).into());
        }
        Ok(ReportChoice {
            weekly: self.weekly,
            monthly: self.monthly,
            new_operator: self.new_operator,
            unproven_percent: self.unproven_percent,
            silent_hours: self.silent_hours,
        })
    }
}

impl ChosenReportsBody {
    fn of(choice: ReportChoice, app: &PublisherState, identity: &Identity) -> Self {
        Self {
            weekly: choice.weekly,
            monthly: choice.monthly,
            new_operator: choice.new_operator,
            unproven_percent: choice.unproven_percent,
            silent_hours: choice.silent_hours,
            email: identity.user.email.as_ref().map(|email| email.as_str().to_owned()),
            mail_configured: app.sends_mails,
        }
    }
}

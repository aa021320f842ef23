//! `/api/v1/operators/trusted`: operators whose receipts the account counts as proven.

use std::sync::Arc;

use accounts::{Domain, DomainError, Principal, TRUSTED_OPERATORS_MAX};
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::openapi::{BodyRefusals, Refusals};
use web::{Failure, JsonBody};

use super::key_domains;
use super::operators::faulty;
use crate::state::PublisherState;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(read, replace))
}

/// Operators whose receipts count as proven.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TrustedOperatorsBody {
    /// Domains of operators, in order. None: the receipts of every operator count as proven.
    #[schema(max_items = 100, example = json!(["lab.example"]))]
    operators: Vec<String>,
}

/// Operators that you trust
///
/// Empty until you choose some: then the receipts of every operator count as proven.
#[utoipa::path(
    get, path = "/api/v1/operators/trusted", tag = "operators", security(("apiKey" = [])),
    responses((status = 200, description = "Their domains", body = TrustedOperatorsBody), Refusals),
)]
async fn read(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
) -> Result<Json<TrustedOperatorsBody>, Failure> {
    let operators = app.deps.accounts.trusted_operators(&principal.account_id).await?;
    Ok(Json(TrustedOperatorsBody { operators }))
}

/// Choose the operators that you trust
///
/// Replaces the list, 100 domains at most. In the analytics of your account only the receipts of
/// these operators count as proven, past ones too. Those of others are among the unproven ones, and
/// still show their operator. An empty list trusts every operator.
#[utoipa::path(
    put, path = "/api/v1/operators/trusted", tag = "operators", security(("apiKey" = [])),
    request_body = TrustedOperatorsBody,
    responses((status = 200, description = "Their domains", body = TrustedOperatorsBody), Refusals, BodyRefusals),
)]
async fn replace(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    JsonBody(body): JsonBody<TrustedOperatorsBody>,
) -> Result<Json<TrustedOperatorsBody>, Failure> {
    key_domains::allow_account(&principal, "the list of trusted operators is of")?;
    if body.operators.len() > TRUSTED_OPERATORS_MAX {
        let what = format!("it has {TRUSTED_OPERATORS_MAX} domains at most");
        return Err(faulty("/operators", what));
    }
    let parsed = body.operators.iter().enumerate().map(|(at, text)| {
        let parsed: Result<Domain, DomainError> = text.parse();
        parsed.map_err(|error| faulty(&format!("/operators/{at}"), error.to_string()))
    });
    let domains = parsed.collect::<Result<Vec<Domain>, Failure>>()?;
    let accounts = &app.deps.accounts;
    let operators = accounts
        .set_trusted_operators(&principal.account_id, &domains, &principal.actor.to_string())
        .await?;
    Ok(Json(TrustedOperatorsBody { operators }))
}

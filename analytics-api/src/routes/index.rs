//! `GET /`, `/healthz`, `/readyz`: no key needed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Extension, Json};
use http::HeaderMap;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::page;
use crate::state::AnalyticsState;

/// The addresses in the OpenAPI document.
#[derive(Clone)]
pub(crate) struct Addresses(Arc<[String]>);

impl Addresses {
    pub(crate) fn new(document: &OpenApi) -> Self {
        Self(document.paths.paths.keys().map(|path| format!("GET {path}")).collect())
    }
}

pub(crate) fn routes() -> OpenApiRouter<Arc<AnalyticsState>> {
    OpenApiRouter::new()
        .routes(routes!(index))
        .routes(routes!(healthz))
        .routes(routes!(readyz))
}

/// Addresses, and links to further reading.
#[derive(Debug, Serialize, ToSchema)]
struct Index {
    /// `receipts-analytics-api`.
    service: &'static str,
    /// Credential to send.
    authentication: &'static str,
    /// The OpenAPI document.
    openapi: &'static str,
    /// A page to read and try it.
    docs: &'static str,
    /// Every address.
    endpoints: Vec<String>,
}

/// About this API
#[utoipa::path(get, path = "/", tag = "service", responses((status = 200, description = "The addresses", body = Index), (status = 303, description = "To the dashboard page, for browsers")))]
async fn index(Extension(Addresses(addresses)): Extension<Addresses>, headers: HeaderMap) -> Response {
    if web::envelope::is_browser(&headers) {
        return Redirect::to(page::PATH).into_response();
    }
    Json(Index {
        service: "receipts-analytics-api",
        authentication: "Authorization: Bearer <API_KEY>",
        openapi: "/openapi/analytics.json",
        docs: "/docs/analytics/",
        endpoints: addresses.to_vec(),
    })
    .into_response()
}

/// Whether the process lives
#[utoipa::path(get, path = "/healthz", tag = "service", responses((status = 200, description = "It lives")))]
async fn healthz(State(app): State<Arc<AnalyticsState>>) -> Response {
    app.deps.health.liveness_response().map(Body::new)
}

/// Whether it can work
#[utoipa::path(
    get, path = "/readyz", tag = "service",
    responses((status = 200, description = "Every engine answers"), (status = 503, description = "One doesn't, or the service is going away")),
)]
async fn readyz(State(app): State<Arc<AnalyticsState>>) -> Response {
    app.deps.health.readiness_response().map(Body::new)
}

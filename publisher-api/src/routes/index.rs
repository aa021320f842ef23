//! `GET /`, `/healthz`, `/readyz`: no key needed.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::PublisherState;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(index))
        .routes(routes!(healthz))
        .routes(routes!(readyz))
}

/// Links to further reading.
#[derive(Debug, Serialize, ToSchema)]
struct Index {
    /// `receipts-publisher-api`.
    service: &'static str,
    /// The OpenAPI document.
    openapi: &'static str,
    /// A page to read and try it.
    docs: &'static str,
}

/// About this API
#[utoipa::path(get, path = "/", tag = "service", responses((status = 200, description = "The document and its page", body = Index)))]
async fn index() -> Json<Index> {
    Json(Index {
        service: "receipts-publisher-api",
        openapi: "/openapi/publisher.json",
        docs: "/docs/publisher/",
    })
}

/// Whether the process lives
#[utoipa::path(get, path = "/healthz", tag = "service", responses((status = 200, description = "It lives")))]
async fn healthz(State(app): State<Arc<PublisherState>>) -> Response {
    app.deps.health.liveness_response().map(Body::new)
}

/// Whether it can work
#[utoipa::path(
    get, path = "/readyz", tag = "service",
    responses((status = 200, description = "Every engine answers"), (status = 503, description = "One doesn't, or the service is going away")),
)]
async fn readyz(State(app): State<Arc<PublisherState>>) -> Response {
    app.deps.health.readiness_response().map(Body::new)
}

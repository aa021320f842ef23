//! `GET /`, `/healthz`, `/readyz`: no key needed.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use crate::app::App;

pub(crate) async fn index() -> Json<Value> {
    Json(json!({
        "service": "receipts-analytics-api",
        "authentication": "Authorization: Bearer <API_KEY>",
        "endpoints": [
            "GET /api/v1/analytics/dashboard",
            "GET /api/v1/analytics/timeseries?metric=receipts|clients|content&interval=minute|hour|day|week|month",
            "GET /api/v1/analytics/content/{entryId}",
            "GET /api/v1/analytics/clients/{clientId}",
            "GET /api/v1/analytics/refusals",
            "GET /api/v1/receipts/{receiptId}",
            "GET /healthz",
            "GET /readyz",
        ],
    }))
}

pub(crate) async fn healthz(State(app): State<Arc<App>>) -> Response {
    app.deps.health.liveness_response().map(Body::new)
}

pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Response {
    app.deps.health.readiness_response().map(Body::new)
}

//! What the handlers share, and which address leads to which.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use axum::{Router, middleware};
use warehouse::{Warehouse, WarehouseError};

use crate::completeness::Completeness;
use crate::config::AnalyticsConfig;
use crate::conservation::Books;
use crate::gate::Gate;
use crate::watermark::Watermark;
use crate::{Deps, routes};
use web::Failure;
use web::access::Gatekeeper;
use web::envelope::Envelope;

/// Shared by all requests.
pub(crate) struct App {
    pub(crate) config: AnalyticsConfig,
    pub(crate) deps: Deps,
    pub(crate) books: Books,
    watermark: Watermark,
    gate: Gate,
}

impl App {
    pub(crate) fn new(config: AnalyticsConfig, deps: Deps) -> Self {
        let age_max = Duration::from_millis(config.watermark_age_ms_max);
        let wait_max = Duration::from_millis(config.query_wait_ms_max);
        Self {
            watermark: Watermark::new(Arc::clone(&deps.log), config.group.clone(), age_max),
            gate: Gate::new(config.concurrent_queries_max, config.waiting_queries_max, wait_max),
            config,
            deps,
            books: Books::default(),
        }
    }

    pub(crate) fn warehouse(&self) -> &Warehouse {
        &self.deps.warehouse
    }

    /// Reads the watermark and then runs `query`, in its turn and within its time. In this order the answer holds at least
    /// what the watermark promises.
    pub(crate) async fn ask<T>(
        &self,
        query: impl Future<Output = Result<T, WarehouseError>>,
    ) -> Result<(Completeness, T), Failure> {
        self.gate
            .run(async {
                let complete_ms = self.watermark.complete_through_ms().await?;
                let answer = query.await?;
                Ok((Completeness::new(complete_ms, self.books.are_off()), answer))
            })
            .await
    }
}

/// All addresses.
pub(crate) fn router(app: Arc<App>) -> Router {
    let gatekeeper = Gatekeeper {
        accounts: app.deps.accounts.clone(),
        limiter: Arc::clone(&app.deps.limiter),
        quotas: app.deps.quotas.clone(),
    };
    let around = Envelope {
        api: "analytics",
        head_bytes_max: app.config.head_bytes_max,
    };
    let api = Router::new()
        .route("/api/v1/analytics/dashboard", get(routes::dashboard::dashboard))
        .route("/api/v1/analytics/timeseries", get(routes::timeseries::timeseries))
        .route("/api/v1/analytics/content/{entryId}", get(routes::content::content))
        .route("/api/v1/analytics/clients/{clientId}", get(routes::clients::client))
        .route("/api/v1/analytics/refusals", get(routes::refusals::refusals))
        .route("/api/v1/receipts/{receiptId}", get(routes::receipts::receipt))
        .route_layer(middleware::from_fn_with_state(gatekeeper, web::access::api_key));
    Router::new()
        .merge(api)
        .route("/", get(routes::index::index))
        .route("/healthz", get(routes::index::healthz))
        .route("/readyz", get(routes::index::readyz))
        .fallback(web::envelope::not_found)
        .method_not_allowed_fallback(web::envelope::method_not_allowed)
        .layer(middleware::from_fn_with_state(around, web::envelope))
        .with_state(app)
}

//! Dependencies of the handlers, and the routes.

use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use tokio_util::sync::CancellationToken;
use usage::Usage;
use utoipa_axum::router::OpenApiRouter;
use warehouse::{Warehouse, WarehouseError};

use crate::audit::Audit;
use crate::completeness::Completeness;
use crate::config::AnalyticsConfig;
use crate::gate::Gate;
use crate::live::Live;
use crate::sender::{self, SenderGate};
use crate::snapshot::Snapshot;
use crate::streams::Streams;
use crate::waiting::Waiting;
use crate::watermark::Watermark;
use crate::{Deps, cost, live, openapi, routes};
use web::Failure;
use web::access::Gatekeeper;
use web::envelope::Envelope;

/// Shared by all requests.
pub(crate) struct App {
    pub(crate) config: AnalyticsConfig,
    pub(crate) deps: Deps,
    pub(crate) audit: Audit,
    pub(crate) watermark: Watermark,
    pub(crate) streams: Streams,
    pub(crate) live: Live,
    pub(crate) waiting: Waiting,
    usage: Usage,
    gate: Gate,
}

impl App {
    /// Live streams and waiting requests end with `closing`.
    pub(crate) fn new(config: AnalyticsConfig, deps: Deps, closing: CancellationToken) -> Self {
        let age_max = Duration::from_millis(config.watermark_age_ms_max);
        let wait_max = Duration::from_millis(config.query_wait_ms_max);
        Self {
            watermark: Watermark::new(Arc::clone(&deps.progress), age_max),
            usage: Usage::new(deps.warehouse.clone()),
            streams: Streams::new(config.streams_max),
            live: Live::new(&config, closing.clone()),
            waiting: Waiting::new(config.waiting_receipts_max, closing),
            gate: Gate::new(config.concurrent_queries_max, config.waiting_queries_max, wait_max),
            config,
            deps,
            audit: Audit::default(),
        }
    }

    pub(crate) fn warehouse(&self) -> &Warehouse {
        &self.deps.warehouse
    }

    /// The present snapshot, of progress that was read now or a moment ago.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, Failure> {
        Ok(Snapshot::new(self.watermark.read().await?, self.usage.clone()))
    }

    /// Takes a snapshot, and then runs an account's `query`, in its turn and within its time. In
    /// this order the answer contains at least what the watermark promises.
    pub(crate) async fn ask<T>(
        &self,
        account_id: &str,
        query: impl AsyncFnOnce(Snapshot) -> Result<T, WarehouseError>,
    ) -> Result<(Completeness, T), Failure> {
        self.gate
            .run(account_id, async {
                let snapshot = self.snapshot().await?;
                let complete_ms = snapshot.reading.complete_ms;
                let answer = query(snapshot).await?;
                Ok((Completeness::new(complete_ms, self.audit.has_findings()), answer))
            })
            .await
    }
}

/// All addresses that need an API key.
pub(crate) fn with_api_key() -> OpenApiRouter<Arc<App>> {
    routes::routes().merge(live::route::routes())
}

/// All addresses that need an API key or a sender's signature.
pub(crate) fn signed_or_keyed() -> OpenApiRouter<Arc<App>> {
    routes::of_receipts()
}

/// All addresses that need a sender's signature.
pub(crate) fn signed() -> OpenApiRouter<Arc<App>> {
    routes::of_senders()
}

/// All addresses that need none.
pub(crate) fn open() -> OpenApiRouter<Arc<App>> {
    routes::index::routes()
}

/// All addresses.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let gatekeeper = Gatekeeper {
        accounts: app.deps.accounts.clone(),
        limiter: Arc::clone(&app.deps.limiter),
        quotas: app.deps.quotas.clone(),
        scope: web::access::read_or_write,
        cost: cost::of_request,
    };
    let around = Envelope {
        api: "analytics",
        head_bytes_max: app.config.head_bytes_max,
    };
    let (per_minute, public_url) = (app.config.sender_requests_per_minute, app.config.public_url.as_deref());
    let gate = SenderGate::new(per_minute, public_url, cost::of_request);
    let either = (gate.clone(), gatekeeper.clone());
    let keyed = with_api_key().route_layer(middleware::from_fn_with_state(gatekeeper, web::access::api_key));
    let either = signed_or_keyed().route_layer(middleware::from_fn_with_state(either, sender::signed_or_keyed));
    let signed = signed().route_layer(middleware::from_fn_with_state(gate, sender::signed));
    let all = openapi::router().merge(keyed).merge(either).merge(signed).merge(open());
    let (routes, document) = all.split_for_parts();
    let docs = web::docs::router("analytics", openapi::finished(document, &app.config));
    routes
        .merge(docs)
        .merge(web::problems::router())
        .merge(crate::page::router())
        .fallback(web::envelope::not_found)
        .method_not_allowed_fallback(web::envelope::method_not_allowed)
        .layer(middleware::from_fn_with_state(around, web::envelope))
        .with_state(Arc::clone(app))
}

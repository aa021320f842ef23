//! What the handlers share, and which address leads to which.

use std::sync::Arc;

use axum::{Router, middleware};
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::SwaggerUi;
use web::access::Gatekeeper;
use web::envelope::Envelope;

use crate::config::PublisherConfig;
use crate::{Deps, openapi, routes};

/// Shared by all requests.
pub(crate) struct App {
    pub(crate) config: PublisherConfig,
    pub(crate) deps: Deps,
}

/// All addresses that need an API key.
pub(crate) fn with_api_key() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().merge(routes::entries::routes())
}

/// All addresses that need a JWT.
pub(crate) fn with_jwt() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
}

/// All addresses.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let gatekeeper = Gatekeeper {
        accounts: app.deps.accounts.clone(),
        limiter: Arc::clone(&app.deps.limiter),
        quotas: app.deps.quotas.clone(),
    };
    let around = Envelope {
        api: "publisher",
        head_bytes_max: app.config.head_bytes_max,
    };
    let keyed = with_api_key().route_layer(middleware::from_fn_with_state(gatekeeper, web::access::api_key));
    let (routes, document) = openapi::router()
        .merge(keyed)
        .merge(with_jwt())
        .merge(routes::index::routes())
        .split_for_parts();
    let page = SwaggerUi::new("/docs").url("/openapi.json", openapi::finished(document));
    routes
        .merge(page)
        .fallback(web::envelope::not_found)
        .method_not_allowed_fallback(web::envelope::method_not_allowed)
        .layer(middleware::from_fn_with_state(around, web::envelope::envelope))
        .with_state(Arc::clone(app))
}

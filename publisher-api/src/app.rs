//! Dependencies of the handlers, and the routes.

use std::sync::Arc;

use accounts::Scope;
use axum::{Router, middleware};
use tokio::sync::Notify;
use utoipa_axum::router::OpenApiRouter;
use web::access::Gatekeeper;
use web::envelope::Envelope;
use web::shares::FairSemaphore;

use crate::config::PublisherConfig;
use crate::export::stream::Places;
use crate::operators::Directories;
use crate::verification::Looker;
use crate::{Deps, identity, openapi, routes};

/// Shared by all requests.
pub(crate) struct App {
    pub(crate) config: PublisherConfig,
    pub(crate) deps: Deps,
    /// Places of exports.
    pub(crate) exports: Places,
    /// Bodies of bulk lookups that are being read.
    pub(crate) lookup_bodies: FairSemaphore,
    /// Told when there is something to erase.
    pub(crate) erasures_wanted: Arc<Notify>,
    /// Looks at domains.
    pub(crate) looker: Looker,
    /// Fetches operators' key directories.
    pub(crate) directories: Directories,
    /// The address at which clients reach the API.
    pub(crate) public_url: String,
    /// Whether mails about verifications that end can be sent.
    pub(crate) expiry_mails: bool,
}

/// All addresses that need no credential.
pub(crate) fn open() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(routes::index::routes())
        .merge(routes::lookup::routes())
}

/// All addresses that need an API key with the scope `read` or `write`.
pub(crate) fn with_api_key() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(routes::data::routes())
        .merge(routes::entries::routes())
        .merge(routes::erasures::routes())
        .merge(routes::operators::routes())
        .merge(routes::verification::routes())
}

/// All addresses that need an API key with the scope `erase`.
pub(crate) fn with_erase_scope() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(routes::entries::erasing())
        .merge(routes::erasures::erasing())
}

/// All addresses that need a JWT.
pub(crate) fn with_jwt() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(routes::keys::routes())
        .merge(routes::user::routes())
}

/// All addresses.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let gatekeeper = Gatekeeper {
        accounts: app.deps.accounts.clone(),
        limiter: Arc::clone(&app.deps.limiter),
        quotas: app.deps.quotas.clone(),
        cost: |_| 1,
        scope: web::access::read_or_write,
    };
    let eraser = Gatekeeper {
        scope: |_| Scope::Erase,
        ..gatekeeper.clone()
    };
    let around = Envelope {
        api: "publisher",
        head_bytes_max: app.config.head_bytes_max,
    };
    let keyed = with_api_key().route_layer(middleware::from_fn_with_state(gatekeeper, web::access::api_key));
    let erasing = with_erase_scope().route_layer(middleware::from_fn_with_state(eraser, web::access::api_key));
    let personal = with_jwt().route_layer(middleware::from_fn_with_state(Arc::clone(app), identity::identity));
    let (routes, document) = openapi::router()
        .merge(keyed)
        .merge(erasing)
        .merge(personal)
        .merge(open())
        .split_for_parts();
    routes
        .merge(web::docs::router("publisher", openapi::finished(document)))
        .merge(web::problems::router())
        .fallback(web::envelope::not_found)
        .method_not_allowed_fallback(web::envelope::method_not_allowed)
        .layer(middleware::from_fn_with_state(around, web::envelope::envelope))
        .with_state(Arc::clone(app))
}

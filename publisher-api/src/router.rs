//! The router: all addresses, and who may request them.

use std::sync::Arc;

use accounts::{AccountRole, Scope};
use axum::{Extension, Router, middleware};
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;
use web::access::Gatekeeper;
use web::envelope::Envelope;

use crate::identity::{self, IdentityGate};
use crate::state::PublisherState;
use crate::{openapi, routes};

/// All addresses that need no credential.
fn open() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .merge(routes::index::routes())
        .merge(routes::lookup::routes())
}

/// All addresses at which people sign in.
fn signing_in() -> OpenApiRouter<Arc<PublisherState>> {
    routes::login_link::routes()
        .merge(routes::join::routes())
        .merge(routes::sign_in::routes())
}

/// All addresses that need an API key with the scope `read` or `write`.
fn with_api_key() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .merge(routes::data::routes())
        .merge(routes::entries::routes())
        .merge(routes::erasures::routes())
        .merge(routes::operators::routes())
        .merge(routes::trusted::routes())
        .merge(routes::verification::routes())
}

/// All addresses that need an API key with the scope `erase`.
fn with_erase_scope() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .merge(routes::entries::erasing())
        .merge(routes::erasures::erasing())
}

/// All addresses that need a JWT, and an owner to change something.
fn with_owner() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .merge(routes::keys::routes())
        .merge(routes::invitations::routes())
        .merge(routes::members::routes())
        .merge(routes::user::of_account())
}

/// All addresses that need a JWT, about the person alone.
fn with_jwt() -> OpenApiRouter<Arc<PublisherState>> {
    routes::user::routes()
}

/// All addresses that need a JWT, about the person in an account, whatever their role.
fn with_membership() -> OpenApiRouter<Arc<PublisherState>> {
    routes::reports::routes()
}

/// All addresses that need a session.
fn with_session() -> OpenApiRouter<Arc<PublisherState>> {
    routes::sessions::routes()
}

/// All addresses.
pub(crate) fn router(app: &Arc<PublisherState>) -> Router {
    let gatekeeper = Gatekeeper {
        accounts: app.deps.accounts.clone(),
        limiter: Arc::clone(&app.deps.limiter),
        quotas: app.deps.quotas.clone(),
        proxies: app.config.trusted_proxies.as_slice().into(),
        cost: |_| 1,
        scope: web::access::read_or_write,
    };
    let eraser = Gatekeeper {
        scope: |_| Scope::Erase,
        ..gatekeeper.clone()
    };
    let person = IdentityGate {
        app: Arc::clone(app),
        gatekeeper: gatekeeper.clone(),
        role: |_| AccountRole::Reader,
        takes_jwt: true,
        is_of_account: false,
    };
    let owner = IdentityGate {
        role: identity::owners_change,
        is_of_account: true,
        ..person.clone()
    };
    let member = IdentityGate {
        is_of_account: true,
        ..person.clone()
    };
    let session = IdentityGate {
        takes_jwt: false,
        ..person.clone()
    };
    let around = Envelope {
        api: "publisher",
        head_bytes_max: app.config.head_bytes_max,
    };
    let signing_in = signing_in().route_layer(Extension(gatekeeper.clone()));
    let keyed = with_api_key().route_layer(middleware::from_fn_with_state(gatekeeper, web::access::api_key));
    let erasing = with_erase_scope().route_layer(middleware::from_fn_with_state(eraser, web::access::api_key));
    let owned = with_owner().route_layer(middleware::from_fn_with_state(owner, identity::identity));
    let personal = with_jwt().route_layer(middleware::from_fn_with_state(person, identity::identity));
    let member = with_membership().route_layer(middleware::from_fn_with_state(member, identity::identity));
    let sessions = with_session().route_layer(middleware::from_fn_with_state(session, identity::identity));
    let (routes, document) = openapi::router()
        .merge(keyed)
        .merge(erasing)
        .merge(owned)
        .merge(personal)
        .merge(member)
        .merge(sessions)
        .merge(signing_in)
        .merge(open())
        .split_for_parts();
    around.start_at_zero(document.paths.paths.keys());
    routes
        .merge(web::docs::router("publisher", openapi::finished(document)))
        .merge(web::problems::router())
        .fallback(web::envelope::not_found)
        .method_not_allowed_fallback(web::envelope::method_not_allowed)
        .layer(middleware::from_fn_with_state(around, web::envelope::envelope))
        .with_state(Arc::clone(app))
}

/// The whole document, as `GET /openapi.json` answers it.
#[must_use]
pub fn document() -> Document {
    let all = openapi::router()
        .merge(with_api_key())
        .merge(with_erase_scope())
        .merge(with_owner())
        .merge(with_jwt())
        .merge(with_membership())
        .merge(with_session())
        .merge(signing_in())
        .merge(open());
    openapi::finished(all.into_openapi())
}

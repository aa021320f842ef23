//! The router: all addresses, and who may request them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::{Extension, Router, middleware};
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;
use web::access::Gatekeeper;
use web::envelope::Envelope;

use crate::config::AnalyticsConfig;
use crate::live::Live;
use crate::routes::index::Addresses;
use crate::sender::{self, SenderGate};
use crate::state::AnalyticsState;
use crate::{cost, openapi, page, query_parsing, routes};

/// All addresses that need an API key.
fn with_api_key() -> OpenApiRouter<Arc<AnalyticsState>> {
    routes::routes().merge(routes::of_streams())
}

/// All addresses that need an API key or a sender's signature.
fn signed_or_keyed() -> OpenApiRouter<Arc<AnalyticsState>> {
    routes::of_receipts()
}

/// All addresses that need a sender's signature.
fn signed() -> OpenApiRouter<Arc<AnalyticsState>> {
    routes::of_senders()
}

/// All addresses that need none.
fn open() -> OpenApiRouter<Arc<AnalyticsState>> {
    routes::index::routes()
}

/// All addresses, for a port at `local`.
pub(crate) fn router(app: &Arc<AnalyticsState>, live: Arc<Live>, local: SocketAddr) -> Router {
    let gatekeeper = Gatekeeper {
        accounts: app.deps.accounts.clone(),
        limiter: Arc::clone(&app.deps.limiter),
        quotas: app.deps.quotas.clone(),
        proxies: app.config.trusted_proxies.as_slice().into(),
        scope: web::access::read_or_write,
        cost: cost::of_request,
    };
    let around = Envelope {
        api: "analytics",
        head_bytes_max: app.config.head_bytes_max,
    };
    let gate = SenderGate::new(&app.config, Arc::clone(&app.cached_senders), local, cost::of_request);
    let either = (gate.clone(), gatekeeper.clone());
    let keyed = with_api_key().route_layer(Extension(live));
    let keyed = keyed.route_layer(middleware::from_fn_with_state(gatekeeper, web::access::api_key));
    let either = signed_or_keyed().route_layer(middleware::from_fn_with_state(either, sender::signed_or_keyed));
    let signed = signed().route_layer(middleware::from_fn_with_state(gate, sender::signed));
    let [keyed, either, signed] =
        [keyed, either, signed].map(|routes| routes.route_layer(middleware::from_fn(query_parsing::parse)));
    let open = open().route_layer(Extension(Addresses::new(&assembled())));
    let all = openapi::router().merge(keyed).merge(either).merge(signed).merge(open);
    let (routes, document) = all.split_for_parts();
    around.start_at_zero(document.paths.paths.keys());
    let docs = web::docs::router("analytics", openapi::finished(document, &app.config));
    let routes = routes
        .merge(docs)
        .merge(web::problems::router())
        .merge(page::router())
        .fallback(web::envelope::not_found)
        .method_not_allowed_fallback(web::envelope::method_not_allowed)
        .layer(middleware::from_fn_with_state(around, web::envelope))
        .with_state(Arc::clone(app));
    match web::cors::layer(&app.config.cors_origins) {
        Some(cors) => routes.layer(cors),
        None => routes,
    }
}

/// The whole document, as `GET /openapi.json` answers it with the default configuration.
#[must_use]
pub fn document() -> Document {
    openapi::finished(assembled(), &AnalyticsConfig::default())
}

/// The document as far as the handlers say it.
fn assembled() -> Document {
    let all = openapi::router()
        .merge(with_api_key())
        .merge(signed_or_keyed())
        .merge(signed())
        .merge(open());
    all.into_openapi()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The typed client of the dashboard page is generated from the file; `UPDATE_EXPECT=1`
    /// writes it.
    #[test]
    fn the_document_is_the_one_written_down() {
        let path = format!("{}/openapi.json", env!("CARGO_MANIFEST_DIR"));
        let found = format!("{}\n", document().to_pretty_json().unwrap());
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert!(
            found == expected,
            "{path} isn't what the code says: run with UPDATE_EXPECT=1"
        );
    }

    #[test]
    fn every_address_for_senders_documents_its_parameters() {
        let paths = routes::of_senders().into_openapi().paths.paths;
        let documented: Vec<&str> = routes::SENDER_QUERIES.iter().map(|(path, _)| *path).collect();
        assert!(paths.keys().map(String::as_str).eq(documented));
    }

    /// Else a handler would read parameters that the document doesn't tell.
    #[test]
    fn every_address_of_numbers_tells_its_parameters() {
        let numbers = routes::routes().merge(routes::of_receipts()).into_openapi();
        let documented: Vec<&str> = routes::QUERIES.iter().map(|(path, _)| *path).collect();
        let mut paths: Vec<&str> = numbers.paths.paths.keys().map(String::as_str).collect();
        paths.sort_unstable();
        let mut sorted = documented.clone();
        sorted.sort_unstable();
        assert_eq!(paths, sorted);
    }
}

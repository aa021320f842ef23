//! Services that share the gateway's address. Requests that aren't the gateway's are dispatched by
//! the beginning of their path.

use std::error::Error;
use std::net::IpAddr;

use axum::Router;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gateway::Neighbour;
use gateway::neighbour::NeighbourBody;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use web::serve::PeerAddress;

use super::front;

/// Services on the gateway's address.
pub(super) struct OneAddress {
    services: Vec<(&'static [&'static str], Router)>,
    front: Router,
}

impl OneAddress {
    /// Services by the prefixes of their addresses, and the pages of links.
    pub(super) fn new(services: Vec<(&'static [&'static str], Router)>, front: Router) -> Self {
        Self { services, front }
    }

    fn router(&self, path: &str) -> Option<&Router> {
        if front::PATHS.contains(&path) {
            return Some(&self.front);
        }
        let mut services = self.services.iter();
        let (_, router) = services.find(|(prefixes, _)| prefixes.iter().any(|prefix| is_below(path, prefix)))?;
        Some(router)
    }
}

impl Neighbour for OneAddress {
    fn has(&self, path: &str) -> bool {
        self.router(path).is_some()
    }

    fn answer(&self, peer: IpAddr, request: Request<Incoming>) -> BoxFuture<'static, Response<NeighbourBody>> {
        let router = self.router(request.uri().path()).unwrap_or(&self.front);
        let answer = web::serve::answer(router, PeerAddress(Some(peer)), request);
        let erased = |error: axum::Error| -> Box<dyn Error + Send + Sync> { Box::new(error) };
        answer
            .map(move |answer| answer.map(|body| body.map_err(erased).boxed_unsync()))
            .boxed()
    }
}

/// Whether `path` is `prefix`, or continues it behind a slash.
fn is_below(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_a_segment_does() {
        for (path, is) in [
            ("/dashboard", true),
            ("/dashboard/assets/a.js", true),
            ("/dashboards", false),
            ("/", false),
        ] {
            assert_eq!(is_below(path, "/dashboard"), is, "{path}");
        }
    }

    /// Paths of an API's document that its prefixes don't cover.
    fn uncovered(document: &utoipa::openapi::OpenApi, prefixes: &[&str]) -> Vec<String> {
        let is_covered = |path: &str| prefixes.iter().any(|prefix| is_below(path, prefix));
        let paths = document.paths.paths.keys();
        paths.filter(|path| !is_covered(path)).cloned().collect()
    }

    #[test]
    fn every_address_is_one_services_alone() {
        // Each service has these; on one address the first is the page of links, the others the
        // gateway's, whose health is the process's.
        let own = ["/", "/healthz", "/readyz"];
        assert_eq!(uncovered(&analytics_api::document(), &analytics_api::PREFIXES), own);
        assert_eq!(uncovered(&publisher_api::document(), &publisher_api::PREFIXES), own);
        for prefix in analytics_api::PREFIXES {
            assert!(
                publisher_api::PREFIXES
                    .iter()
                    .all(|other| !is_below(prefix, other) && !is_below(other, prefix)),
                "{prefix}"
            );
        }
    }
}

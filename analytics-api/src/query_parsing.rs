//! The query of each request is parsed once, for its cost and for its handler.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::Uri;
use web::params::Params;
use web::parsed_query::ParsedQuery;

use crate::parameters::is_filter;
use crate::routes::parameters_of;

/// The layer that parses.
pub(crate) async fn parse(path: MatchedPath, mut request: Request, next: Next) -> Response {
    let parsed = read(request.uri(), path.as_str());
    request.extensions_mut().insert(parsed);
    next.run(request).await
}

/// The query of `uri`, which may have the parameters of the address `path`.
///
/// # Errors
/// As [`Params::parse_repeated`].
pub(crate) fn read(uri: &Uri, path: &str) -> ParsedQuery {
    let allowed = parameters_of(path);
    let names: Vec<&str> = allowed.iter().copied().flatten().map(|query| query.name).collect();
    Params::parse_repeated(uri, &names, |name| is_filter(name, allowed))
}

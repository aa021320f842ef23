//! `/problems` and `/problems/{code}`: the pages that a problem's `type` names.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::Uri;
use service::problem_page::{ProblemPages, common};

use crate::Failure;

static PAGES: LazyLock<ProblemPages> = LazyLock::new(|| ProblemPages::new(common()));

/// The addresses.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/problems", get(page))
        .route("/problems/{code}", get(page))
}

async fn page(uri: Uri) -> Response {
    let page = PAGES.response(uri.path()).map(|page| page.map(Body::new));
    page.unwrap_or_else(|| Failure::not_found("there is no such code; /problems lists all").into_response())
}

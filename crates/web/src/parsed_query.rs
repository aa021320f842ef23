//! Parameters that a layer has parsed: for a handler, which takes them as [`Params`], and for
//! whoever tells a request's cost before.

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::Failure;
use crate::params::{InvalidQuery, Params};

/// The query of a request, or its first fault.
pub type ParsedQuery = Result<Params, InvalidQuery>;

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        match parts.extensions.remove::<ParsedQuery>() {
            Some(query) => Ok(query?),
            // Every address whose handler takes parameters has the layer.
            None => Err(Failure::internal()),
        }
    }
}

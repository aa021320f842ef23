//! A query of receipts: what it selects, and the form of its answer.

use axum::extract::FromRequestParts;
use http::request::Parts;
use warehouse::{Filter, QueryScope};
use web::Failure;
use web::params::Params;

use crate::access::Access;
use crate::format::reply::Reply;
use crate::selection::{OpenRange, filter};

/// Query of receipts, read and checked: 400 for a faulty parameter, 403 for a domain of others,
/// 406 for a form that isn't offered.
#[derive(Debug)]
pub(crate) struct ReceiptQuery {
    pub(crate) access: Access,
    pub(crate) params: Params,
    pub(crate) reply: Reply,
    pub(crate) scope: QueryScope,
    pub(crate) range: OpenRange,
    pub(crate) filter: Filter,
}

impl<S: Send + Sync> FromRequestParts<S> for ReceiptQuery {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let access = Access::from_request_parts(parts, state).await?;
        let params = Params::from_request_parts(parts, state).await?;
        let reply = Reply::of(parts.headers.clone(), &parts.uri, &params)?;
        let scope = access.scope(&params)?;
        let range = OpenRange::of(&params)?;
        let filter = filter(&access, &params, range.start_ms(), range.end_ms())?;
        Ok(Self {
            access,
            params,
            reply,
            scope,
            range,
            filter,
        })
    }
}

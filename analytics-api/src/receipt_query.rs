//! A query of receipts: what it selects, and the form of its answer.

use http::{HeaderMap, Uri};
use warehouse::{Filter, QueryScope};
use web::Failure;
use web::params::Params;

use crate::access::Access;
use crate::format::reply::Reply;
use crate::parameters::{self, Query};
use crate::selection::{OpenRange, filter};

/// Query of receipts, read and checked.
#[derive(Debug)]
pub(crate) struct ReceiptQuery {
    pub(crate) params: Params,
    pub(crate) reply: Reply,
    pub(crate) scope: QueryScope,
    pub(crate) range: OpenRange,
    pub(crate) filter: Filter,
}

impl ReceiptQuery {
    /// Reads the query of `uri`, which may have the parameters `allowed`.
    ///
    /// # Errors
    /// 400 for a faulty parameter; 403 for a domain of others; 406 for a form that isn't offered.
    pub(crate) fn read(access: &Access, headers: HeaderMap, uri: &Uri, allowed: &[&[Query]]) -> Result<Self, Failure> {
        let params = parameters::read(uri, allowed)?;
        let reply = Reply::of(headers, uri, &params)?;
        let scope = access.scope(&params)?;
        let range = OpenRange::of(&params)?;
        let filter = filter(access, &params, range.start_ms(), range.end_ms())?;
        Ok(Self {
            params,
            reply,
            scope,
            range,
            filter,
        })
    }
}

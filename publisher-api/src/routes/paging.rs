//! Begin of a list's page.

use accounts::{Cursor, CursorError};
use web::params::{InvalidQuery, Params};

/// The parameter `cursor`: the `nextCursor` of the page before.
pub(super) fn cursor(params: &Params) -> Result<Option<Cursor>, InvalidQuery> {
    let invalid = |error: CursorError| InvalidQuery::new("cursor", error.to_string());
    params
        .get("cursor")
        .map(|text| text.parse().map_err(invalid))
        .transpose()
}

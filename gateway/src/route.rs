//! Routes: which path is what, and with which method.

use http::Method;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Route {
    /// `POST /api/v1/receipts`
    Receipt,
    /// `POST /api/v1/receipts/batch`
    Batch,
    /// `POST /api/v1/receipts/explain`
    Explain,
    /// `GET /healthz`
    Live,
    /// `GET /readyz`
    Ready,
    /// Anything else.
    Unknown,
}

impl Route {
    pub(crate) const ALL: [Self; 6] = [
        Self::Receipt,
        Self::Batch,
        Self::Explain,
        Self::Live,
        Self::Ready,
        Self::Unknown,
    ];

    pub(crate) fn of(path: &str) -> Self {
        match path {
            "/api/v1/receipts" => Self::Receipt,
            "/api/v1/receipts/batch" => Self::Batch,
            "/api/v1/receipts/explain" => Self::Explain,
            "/healthz" => Self::Live,
            "/readyz" => Self::Ready,
            _ => Self::Unknown,
        }
    }

    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Receipt => "receipts",
            Self::Batch => "batch",
            Self::Explain => "explain",
            Self::Live => "healthz",
            Self::Ready => "readyz",
            Self::Unknown => "unknown",
        }
    }

    /// Whether it takes receipts, and so is rate limited.
    pub(crate) fn takes_receipts(self) -> bool {
        matches!(self, Self::Receipt | Self::Batch | Self::Explain)
    }

    /// The methods it has, as in `Allow`.
    pub(crate) fn allow(self) -> &'static str {
        if self.takes_receipts() { "POST" } else { "GET, HEAD" }
    }

    /// Whether `method` is one of them.
    pub(crate) fn allows(self, method: &Method) -> bool {
        if self.takes_receipts() {
            *method == Method::POST
        } else {
            matches!(*method, Method::GET | Method::HEAD)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_tables_are_the_order_of_all() {
        for (place, route) in Route::ALL.into_iter().enumerate() {
            assert_eq!(route as usize, place);
        }
    }

    #[test]
    fn only_whole_paths_are_known() {
        assert_eq!(Route::of("/api/v1/receipts"), Route::Receipt);
        for path in [
            "/",
            "/api/v1/receipts/",
            "/api/v1/receiptsx",
            "/api/v1/receipts/batch/1",
            "/API/v1/receipts",
        ] {
            assert_eq!(Route::of(path), Route::Unknown, "{path}");
        }
    }
}

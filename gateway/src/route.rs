//! Routes: which path is what, and with which method.

use http::Method;
use service::problem_page::PATH as PROBLEMS;

/// Page that shows the OpenAPI document. Files that it loads are below it.
pub(crate) const DOCS: &str = "/docs/gateway";

/// Address of the OpenAPI document, also where other services share the port.
pub(crate) const OPENAPI: &str = "/openapi/gateway.json";

/// Addresses that are served; health always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routes {
    /// All of the gateway's.
    All,
    /// The webhook's alone: a publisher's receiver.
    Webhook,
}

impl Routes {
    /// Address for receipts, for senders who used another one.
    pub(crate) fn signpost(self) -> &'static str {
        match self {
            Self::All => {
                "receipts go to /api/v1/receipts and /api/v1/receipts/batch, a publisher's deliveries to \
                 /api/service/receipt; /docs lists the addresses of every service here"
            }
            Self::Webhook => "receipts and batches go to /api/service/receipt",
        }
    }
}

/// Resource that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Route {
    /// `POST /api/v1/receipts`
    Receipt,
    /// `POST /api/v1/receipts/batch`
    Batch,
    /// `POST /api/v1/receipts/explain`
    Explain,
    /// `POST /api/service/receipt`
    Webhook,
    /// `GET /.well-known/receipts-keys.json`
    Keys,
    /// `GET /healthz`
    Live,
    /// `GET /readyz`
    Ready,
    /// `GET` of a document: `/openapi.json`, `/docs`, `/schemas/receipt.json`, `/problems`, ...
    Document,
    /// Anything else.
    Unknown,
}

impl Route {
    pub(crate) const ALL: [Self; 9] = [
        Self::Receipt,
        Self::Batch,
        Self::Explain,
        Self::Webhook,
        Self::Keys,
        Self::Live,
        Self::Ready,
        Self::Document,
        Self::Unknown,
    ];

    /// Route of `path` among `routes`.
    pub(crate) fn of(path: &str, routes: Routes) -> Self {
        let route = match path {
            "/api/v1/receipts" => Self::Receipt,
            "/api/v1/receipts/batch" => Self::Batch,
            "/api/v1/receipts/explain" => Self::Explain,
            "/api/service/receipt" => Self::Webhook,
            "/.well-known/receipts-keys.json" => Self::Keys,
            "/healthz" => Self::Live,
            "/readyz" => Self::Ready,
            _ if is_document(path, routes) => Self::Document,
            _ => Self::Unknown,
        };
        match (routes, route) {
            (Routes::Webhook, Self::Receipt | Self::Batch | Self::Explain | Self::Keys) => Self::Unknown,
            _ => route,
        }
    }

    /// Name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Receipt => "receipts",
            Self::Batch => "batch",
            Self::Explain => "explain",
            Self::Webhook => "webhook",
            Self::Keys => "keys",
            Self::Live => "healthz",
            Self::Ready => "readyz",
            Self::Document => "documents",
            Self::Unknown => "unknown",
        }
    }

    /// Whether it takes receipts, and so is rate limited.
    pub(crate) fn takes_receipts(self) -> bool {
        matches!(self, Self::Receipt | Self::Batch | Self::Explain | Self::Webhook)
    }

    /// Signature verifications that a request costs the gateway and the verifier, beside those of
    /// the receipts in a batch. They are charged as Ed25519's before the body is read.
    pub(crate) fn verifications(self) -> u32 {
        match self {
            // The request's: both. The receipt's: the verifier.
            Self::Receipt => 3,
            // The batch's: both.
            Self::Batch => 2,
            // A receipt's, or else the batch's: both.
            Self::Webhook => 2,
            // Here only: the receipt's and the request's or batch's, and of a bad one the usual
            // mistakes.
            Self::Explain => 42,
            Self::Keys | Self::Live | Self::Ready | Self::Document | Self::Unknown => 0,
        }
    }

    /// Signature verifications that each receipt of a batch costs the gateway and the verifier.
    pub(crate) fn verifications_per_batched(self) -> u32 {
        match self {
            // The verifier, and here only.
            Self::Batch | Self::Explain => 1,
            // Both.
            Self::Webhook => 2,
            Self::Receipt | Self::Keys | Self::Live | Self::Ready | Self::Document | Self::Unknown => 0,
        }
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

/// Whether `path` is a document among `routes`. A receiver has the pages of problem codes alone.
fn is_document(path: &str, routes: Routes) -> bool {
    let within = |parent: &str| {
        path.strip_prefix(parent)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let described = matches!(path, "/openapi.json" | "/docs" | "/docs/") || path == OPENAPI;
    within(PROBLEMS) || (routes == Routes::All && (described || within(DOCS) || within("/schemas")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_tables_are_the_order_of_all() {
        for (index, route) in Route::ALL.into_iter().enumerate() {
            assert_eq!(route as usize, index);
        }
    }

    #[test]
    fn only_whole_paths_are_known() {
        assert_eq!(Route::of("/api/v1/receipts", Routes::All), Route::Receipt);
        assert_eq!(Route::of("/api/service/receipt", Routes::All), Route::Webhook);
        for path in [
            "/",
            "/api/v1/receipts/",
            "/api/v1/receiptsx",
            "/api/v1/receipts/batch/1",
            "/API/v1/receipts",
        ] {
            assert_eq!(Route::of(path, Routes::All), Route::Unknown, "{path}");
        }
    }

    #[test]
    fn a_receiver_has_the_webhook_and_health() {
        for (path, route) in [
            ("/api/service/receipt", Route::Webhook),
            ("/healthz", Route::Live),
            ("/readyz", Route::Ready),
            ("/problems/invalid_receipt", Route::Document),
            ("/openapi.json", Route::Unknown),
            ("/docs", Route::Unknown),
            ("/schemas/receipt.json", Route::Unknown),
            ("/api/v1/receipts", Route::Unknown),
            ("/api/v1/receipts/batch", Route::Unknown),
            ("/api/v1/receipts/explain", Route::Unknown),
            ("/.well-known/receipts-keys.json", Route::Unknown),
        ] {
            assert_eq!(Route::of(path, Routes::Webhook), route, "{path}");
        }
    }
}

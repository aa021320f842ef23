//! The values that each label can have. A label whose values users choose would be a series for
//! each of them, so every label is here with its whole set, or with what bounds it.

/// Values of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// A value of this list.
    OneOf(&'static [&'static str]),
    /// Names that are in the code or in the configuration, never in a request: what they are.
    Named(&'static str),
}

use Values::{Named, OneOf};

/// The values of each label: of the metric that is named, or of every metric with that label
/// (`""`).
pub const LABELS: &[(&str, &str, Values)] = &[
    ("", "version", Named("the version that runs")),
    ("", "commit", Named("the commit that it was built from, or `unknown`")),
    (
        "",
        "setting",
        OneOf(&[
            "kafka.ssl_ca",
            "kafka.ssl_certificate",
            "warehouse.tls_ca_file",
            "warehouse.tls_certificate_file",
            "redis.tls_ca_file",
            "accounts.url",
        ]),
    ),
    (
        "",
        "component",
        Named(
            "a part of `/readyz`: `engines`, `log`, `clock`, `client keys`, `verifier`, `writer`, `redis`, `analytics.warehouse`, `analytics.progress`, `analytics.accounts`, `publisher.warehouse`, `publisher.accounts`, `publisher.jwks`",
        ),
    ),
    (
        "",
        "pool",
        OneOf(&["gateway", "verifier", "writer", "publisher", "pages", "repair"]),
    ),
    (
        "receipts_live_refused_total",
        "reason",
        OneOf(&["account", "key", "full"]),
    ),
    (
        "receipts_limiter_fallback_total",
        "reason",
        OneOf(&["away", "busy", "timed_out", "refused"]),
    ),
    (
        "receipts_outbound_requests_total",
        "kind",
        OneOf(&["get", "post", "txt"]),
    ),
    (
        "receipts_outbound_requests_total",
        "outcome",
        OneOf(&[
            "answered",
            "refused",
            "unresolvable",
            "timed_out",
            "unreachable",
            "tls",
            "too_large",
            "redirects",
            "bad_answer",
        ]),
    ),
    ("receipts_mails_total", "outcome", OneOf(&["sent", "failed", "refused"])),
    ("", "window", OneOf(&["minute", "day"])),
    (
        "receipts_telemetry_lines_suppressed_total",
        "what",
        Named("the line: a name in the code, or the module that writes it"),
    ),
    (
        "receipts_accounts_authentications_total",
        "outcome",
        OneOf(&["ok", "malformed", "unknown", "expired", "revoked", "unavailable"]),
    ),
    ("", "query", Named("the question's name in the code")),
    ("", "subject", OneOf(&["clients", "entries", "operators", "publishers"])),
    (
        "receipts_registry_lookups_total",
        "outcome",
        OneOf(&["cached", "read", "failed"]),
    ),
    (
        "receipts_publisher_tokens_total",
        "outcome",
        OneOf(&[
            "ok",
            "expired",
            "bad_signature",
            "unknown_key",
            "refused",
            "unavailable",
        ]),
    ),
    (
        "receipts_publisher_jwks_fetches_total",
        "outcome",
        OneOf(&["ok", "failed"]),
    ),
    (
        "receipts_publisher_directory_fetches_total",
        "outcome",
        OneOf(&["fetched", "unchanged", "failed"]),
    ),
    ("", "task", OneOf(&["expiry", "erasure", "directories", "proofs"])),
    ("", "api", OneOf(&["analytics", "publisher", "front"])),
    (
        "receipts_api_requests_total",
        "route",
        Named("the address's pattern, such as `/api/v1/analytics/content/{entry_id}`; `none` for an unknown one"),
    ),
    (
        "receipts_api_request_seconds",
        "route",
        Named("as in `receipts_api_requests_total`"),
    ),
    (
        "",
        "route",
        OneOf(&[
            "receipts",
            "batch",
            "explain",
            "webhook",
            "keys",
            "healthz",
            "readyz",
            "documents",
            "unknown",
        ]),
    ),
    ("", "status", Named("an HTTP status that the service answers")),
    ("receipts_gateway_receipts_total", "kind", OneOf(&["single", "batch"])),
    (
        "",
        "code",
        Named("the `code` of a problem or of a fault in a receipt, as OpenAPI and README list them"),
    ),
    ("", "log", OneOf(&["receipts", "verdicts"])),
    ("", "client", OneOf(&["writer", "member", "inspector", "processor"])),
    ("", "broker", Named("a broker's number")),
    (
        "receipts_kafka_rebalanced_total",
        "what",
        OneOf(&["assigned", "revoked", "lost"]),
    ),
    (
        "receipts_kafka_transactions_total",
        "outcome",
        OneOf(&["committed", "aborted", "unknown"]),
    ),
    (
        "receipts_writer_receipts_total",
        "outcome",
        OneOf(&["accepted", "rejected"]),
    ),
    (
        "receipts_writer_horizon_timestamp_seconds",
        "group",
        OneOf(&["writer", "evidence"]),
    ),
    (
        "",
        "shard",
        Named("a shard's number: a partition of the log `verdicts`"),
    ),
    (
        "receipts_verifier_receipts_total",
        "outcome",
        OneOf(&["accepted", "rejected"]),
    ),
    (
        "receipts_verifier_rejected_total",
        "reason",
        OneOf(&[
            "malformed",
            "bad_signature",
            "bad_batch_signature",
            "batch_abandoned",
            "bad_request_signature",
            "bad_public_key",
            "key_algorithm_mismatch",
            "bad_content_hash",
            "timestamp_out_of_range",
            "unsupported_version",
            "unsupported_algorithm",
            "refused_by_warehouse",
            "client_key_unknown",
            "client_key_revoked",
            "entry_unknown",
        ]),
    ),
    ("receipts_writer_stage_seconds", "stage", OneOf(&["insert"])),
    ("", "stage", OneOf(&["judge", "encode", "append"])),
    (
        "receipts_warehouse_errors_total",
        "kind",
        OneOf(&[
            "unavailable",
            "refused",
            "damaged",
            "bad_answer",
            "too_large",
            "bad_rows",
            "denied",
            "config",
        ]),
    ),
    ("", "table", Named("a table of the warehouse")),
];

/// Values of `label` of `metric`; `None` if nobody has listed them.
#[must_use]
pub fn values_of(metric: &str, label: &str) -> Option<Values> {
    let of = |wanted: &str| LABELS.iter().find(|(name, key, _)| *name == wanted && *key == label);
    of(metric).or_else(|| of("")).map(|(_, _, values)| *values)
}

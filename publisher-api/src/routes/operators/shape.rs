//! Bodies under `/api/v1/operators`.

use accounts::{Operator, OperatorKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use web::rfc3339_ms;

/// The domain of a new operator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewOperatorBody {
    /// A domain that the account has verified.
    #[schema(min_length = 1, max_length = 253, example = "lab.example")]
    pub(super) domain: String,
}

/// A signing key, in one of two forms.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewOperatorKeyBody {
    /// SPKI in PEM, as `client.publicKey` of receipts.
    #[schema(max_length = 4096)]
    pub(super) public_key: Option<String>,
    /// A public JWK (RFC 7517): OKP with Ed25519, EC with P-256, RSA with 2048 bits.
    #[schema(value_type = Option<Object>)]
    pub(super) jwk: Option<serde_json::Value>,
}

/// An operator.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OperatorBody {
    operator_id: String,
    domain: String,
    /// Whether the verification of the domain holds. Without it no receipt is proven.
    domain_proven: bool,
    #[schema(format = DateTime)]
    created_at: String,
    directory: DirectoryBody,
}

/// State of a key directory.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DirectoryBody {
    /// The last fetch that succeeded.
    #[schema(format = DateTime)]
    fetched_at: Option<String>,
    #[schema(format = DateTime)]
    next_fetch_at: String,
    /// Fetches that have failed since one succeeded.
    failures: u32,
    /// Why the last fetch failed, or which keys it skipped and why.
    failure: Option<String>,
}

/// All operators.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OperatorsBody {
    pub(super) operators: Vec<OperatorBody>,
}

/// An operator with its keys and client IDs.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OperatorDetailBody {
    #[serde(flatten)]
    operator: OperatorBody,
    /// Periods of keys: those that are open first, then the others, each newest first.
    keys: Vec<OperatorKeyBody>,
    /// Client IDs that the operator claims.
    client_ids: Vec<String>,
}

/// A key in one of its periods.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OperatorKeyBody {
    /// RFC 7638, SHA-256.
    thumbprint: String,
    /// SHA-256 of the SPKI DER, in hexadecimal digits.
    fingerprint: String,
    /// `Ed25519`, `RSA-2048` or `ECDSA-P256`.
    algorithm: String,
    /// `directory`, `registered`, or `deployment`: by whoever runs this service.
    source: &'static str,
    /// Receipts that arrive from this instant on are the operator's.
    #[schema(format = DateTime)]
    from: String,
    /// The end of the period; null while it is open.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// SPKI in PEM.
    public_key: String,
}

impl From<&Operator> for OperatorBody {
    fn from(operator: &Operator) -> Self {
        let directory = &operator.directory;
        Self {
            operator_id: operator.id.to_string(),
            domain: operator.domain.clone(),
            domain_proven: operator.is_domain_proven,
            created_at: rfc3339_ms(operator.created_at_ms),
            directory: DirectoryBody {
                fetched_at: (directory.fetched_at_ms > 0).then(|| rfc3339_ms(directory.fetched_at_ms)),
                next_fetch_at: rfc3339_ms(directory.next_at_ms),
                failures: directory.failures,
                failure: (!directory.failure.is_empty()).then(|| directory.failure.clone()),
            },
        }
    }
}

impl OperatorDetailBody {
    pub(super) fn new(operator: &Operator, keys: &[OperatorKey], client_ids: &[Uuid]) -> Self {
        Self {
            operator: operator.into(),
            keys: keys.iter().map(OperatorKeyBody::from).collect(),
            client_ids: client_ids.iter().map(Uuid::to_string).collect(),
        }
    }
}

impl From<&OperatorKey> for OperatorKeyBody {
    fn from(period: &OperatorKey) -> Self {
        Self {
            thumbprint: period.key.thumbprint.clone(),
            fingerprint: period.key.fingerprint.to_string(),
            algorithm: period.key.algorithm.clone(),
            source: period.key.source.as_str(),
            from: rfc3339_ms(period.from_ms),
            until: period.until_ms.map(rfc3339_ms),
            public_key: period.key.pem.clone(),
        }
    }
}

//! Types that several answers share, and the refusals of all of them.

use std::collections::BTreeMap;

use accounts::Principal;
use receipt::Purpose;
use serde::{Serialize, Serializer};
use usage::{OperatorUsage, PartTotals, TopClient, TopContent, UsageByPurpose};
use utoipa::openapi::{ObjectBuilder, RefOr, Response, Schema};
use utoipa::{IntoResponses, PartialSchema, ToSchema};
use uuid::Uuid;
use warehouse::UnlistedDay;
use web::openapi::problem;

use crate::labels::{Labelled, Labels};
use crate::signers::{Signer, Signers};
use crate::state::AnalyticsState;

/// Refusals of any address of numbers, for `responses(...)`.
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = web::openapi::Refusals::responses();
        responses.insert(
            "406".to_owned(),
            RefOr::T(problem("Accept takes none of the media types there are")),
        );
        responses
    }
}

/// Receipts per purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PurposeCounts(UsageByPurpose);

impl PurposeCounts {
    /// By name, in the order in which they are answered.
    pub(crate) fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(purpose, count)| (purpose.as_str(), count))
    }
}

impl Serialize for PurposeCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.named())
    }
}

impl PartialSchema for PurposeCounts {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().description(Some("Receipts per purpose."));
        let counts = Purpose::ALL.iter().fold(object, |object, purpose| {
            object
                .property(purpose.as_str(), u64::schema())
                .required(purpose.as_str())
        });
        counts.into()
    }
}

impl ToSchema for PurposeCounts {}

impl From<UsageByPurpose> for PurposeCounts {
    fn from(usage: UsageByPurpose) -> Self {
        Self(usage)
    }
}

/// An entry and the number of its uses.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContentCount {
    #[schema(format = "uuid")]
    pub(crate) entry_id: String,
    /// The entry's title; where the account lists no such entry, its URL.
    pub(crate) title: String,
    /// The entry's URL; where the account lists no such entry, the receipts'.
    pub(crate) url: String,
    pub(crate) receipt_count: u64,
    pub(crate) by_trust: ByTrust,
    /// Whether the account lists no such entry. Left out if that couldn't be checked.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unknown_entry: Option<bool>,
}

/// An operator and its proven receipts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperatorCount {
    /// The operator's domain.
    pub(crate) operator: String,
    pub(crate) receipt_count: u64,
}

impl From<OperatorUsage> for OperatorCount {
    fn from(usage: OperatorUsage) -> Self {
        Self {
            operator: usage.operator_domain,
            receipt_count: usage.receipt_count,
        }
    }
}

/// A client, which is a pair of ID and key, and its use.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientCount {
    #[schema(format = "uuid")]
    pub(crate) client_id: String,
    /// As the key's newest receipt says.
    #[serde(flatten)]
    pub(crate) signer: Signer,
    /// As the key's newest receipt says.
    pub(crate) name: String,
    /// As the key's newest receipt says.
    pub(crate) organization: String,
    pub(crate) receipt_count: u64,
    pub(crate) by_trust: ByTrust,
}

impl ClientCount {
    pub(crate) fn new(client: TopClient, signers: &Signers<'_>) -> Self {
        Self {
            client_id: client.client_id.to_string(),
            signer: signers.signer(client.client_id, &client.key_fingerprint, client.operator),
            name: client.name,
            organization: client.organization,
            receipt_count: client.receipt_count,
            by_trust: client.by_trust.into(),
        }
    }
}

/// Rejected receipts of a day that are only counted: none can be requested by its ID.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnlistedRejections {
    /// The UTC day of arrival.
    #[schema(format = Date)]
    day: String,
    receipts: u64,
}

impl From<UnlistedDay> for UnlistedRejections {
    fn from(unlisted: UnlistedDay) -> Self {
        Self {
            day: unlisted.day_text,
            receipts: unlisted.counted,
        }
    }
}

/// `topContent`, with what the account of `principal` calls its entries.
pub(crate) async fn labelled(app: &AnalyticsState, principal: &Principal, top: Vec<TopContent>) -> Vec<ContentCount> {
    let ids: Vec<Uuid> = top.iter().map(|content| content.entry_id).collect();
    let labels = Labels::of(app, principal, &ids).await;
    let count = |content: TopContent| {
        let Labelled { url, title, unknown } = labels.of_entry(content.entry_id, content.url);
        ContentCount {
            entry_id: content.entry_id.to_string(),
            title,
            url,
            receipt_count: content.receipt_count,
            by_trust: content.by_trust.into(),
            unknown_entry: unknown,
        }
    };
    top.into_iter().map(count).collect()
}

/// A number by trust. Receipts are in one part. Clients and entries can be in both.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(crate) struct ByTrust {
    /// With receipts whose key was an operator's on arrival, one that the account trusts.
    pub(crate) proven: u64,
    /// With other receipts.
    pub(crate) unproven: u64,
}

impl From<usage::ByTrust> for ByTrust {
    fn from(usage::ByTrust { proven, unproven }: usage::ByTrust) -> Self {
        Self { proven, unproven }
    }
}

/// Totals by trust.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct TotalsByTrust {
    /// Of receipts whose key was an operator's on arrival, one that the account trusts.
    pub(crate) proven: TrustTotals,
    /// Of other receipts.
    pub(crate) unproven: TrustTotals,
}

/// Totals of one part.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrustTotals {
    pub(crate) total_receipts: u64,
    /// Clients with receipts of this part.
    pub(crate) unique_clients: u64,
    pub(crate) usage_by_purpose: PurposeCounts,
}

impl From<PartTotals> for TrustTotals {
    fn from(part: PartTotals) -> Self {
        Self {
            total_receipts: part.total_receipts,
            unique_clients: part.unique_clients,
            usage_by_purpose: part.usage_by_purpose.into(),
        }
    }
}

impl TotalsByTrust {
    pub(crate) fn new(proven: PartTotals, unproven: PartTotals) -> Self {
        Self {
            proven: proven.into(),
            unproven: unproven.into(),
        }
    }
}

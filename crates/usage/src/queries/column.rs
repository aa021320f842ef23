//! Columns of a query: which grains have them, and how rows of `usage` and `receipts` give them.

use warehouse::Filter;

use crate::Grain;
use crate::key_column::{KEY, names};

/// A column of a query's rows. Every row also has `receipts`, a number of receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryColumn {
    /// `bucket`: the greatest boundary that isn't above the row's time, in milliseconds.
    Bucket,
    /// `first_ms`: the smallest timestamp.
    First,
    /// `last_ms`: the greatest timestamp.
    Last,
    /// `client_id`.
    Client,
    /// `purpose`.
    Purpose,
    /// `model_id`.
    Model,
    /// `entry_id`.
    Entry,
    /// `url`.
    Url,
    /// `client_name`.
    ClientName,
    /// `organization`.
    Organization,
    /// `client_version`.
    ClientVersion,
    /// `operator`: the domain of the operator whose key it was, empty for nobody's; and with it
    /// `is_proven`.
    Operator,
    /// `key_fingerprint`.
    Key,
}

impl QueryColumn {
    /// Columns that a filter's conditions read.
    pub(super) fn of_filter(filter: &Filter) -> impl Iterator<Item = Self> {
        let filtered = [
            (filter.purpose.is_any(), Self::Purpose),
            (filter.client_id.is_any(), Self::Client),
            (filter.entry_id.is_any(), Self::Entry),
            (filter.model_id.is_any(), Self::Model),
            (filter.trust.is_none() && filter.operator.is_any(), Self::Operator),
            (filter.key_fingerprint.is_any(), Self::Key),
        ];
        filtered
            .into_iter()
            .filter(|(is_any, _)| !is_any)
            .map(|(_, column)| column)
    }

    /// Whether rows of a grain have the column.
    pub(super) fn is_in(self, grain: Grain) -> bool {
        match self.name() {
            Some(name) => KEY.iter().any(|column| column.name == name && column.is_in(grain)),
            None => grain != Grain::Counted,
        }
    }

    /// Name of the column, if it is one of the key.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Bucket | Self::First | Self::Last => return None,
            Self::Client => "client_id",
            Self::Purpose => "purpose",
            Self::Model => "model_id",
            Self::Entry => "entry_id",
            Self::Url => "url",
            Self::ClientName => "client_name",
            Self::Organization => "organization",
            Self::ClientVersion => "client_version",
            Self::Operator => "operator",
            Self::Key => "key_fingerprint",
        })
    }

    /// Expression over rows of `usage`, called `stored`; `is_summed` if they are grouped by key.
    pub(super) fn of_usage(self, grain: Grain, is_summed: bool) -> String {
        let name = self.name().unwrap_or_default();
        match self {
            Self::Bucket => format!("roundDown({}, {{boundaries:Array(Int64)}}) AS bucket", start_ms(grain)),
            Self::First if is_summed => "min(stored.first_ms) AS first_ms".to_owned(),
            Self::Last if is_summed => "max(stored.last_ms) AS last_ms".to_owned(),
            Self::First => "CAST(stored.first_ms AS Int64) AS first_ms".to_owned(),
            Self::Last => "CAST(stored.last_ms AS Int64) AS last_ms".to_owned(),
            Self::ClientName | Self::Organization | Self::ClientVersion => {
                format!("toString(stored.{name}) AS {name}")
            }
            _ => format!("stored.{name} AS {name}"),
        }
    }

    /// Expression over rows of `receipts`, called `stored`.
    pub(super) fn of_receipts(self) -> &'static str {
        match self {
            Self::Bucket => "roundDown(toUnixTimestamp64Milli(stored.timestamp), {boundaries:Array(Int64)}) AS bucket",
            Self::First => "toUnixTimestamp64Milli(stored.timestamp) AS first_ms",
            Self::Last => "toUnixTimestamp64Milli(stored.timestamp) AS last_ms",
            Self::Client => "CAST(stored.client_id AS UUID) AS client_id",
            Self::Purpose => "CAST(stored.purpose AS LowCardinality(String)) AS purpose",
            Self::Model => "CAST(stored.model_id AS String) AS model_id",
            Self::Entry => "stored.entry_id AS entry_id",
            Self::Url => "CAST(stored.url AS String) AS url",
            Self::ClientName => "toString(stored.client_name) AS client_name",
            Self::Organization => "toString(stored.organization) AS organization",
            Self::ClientVersion => "toString(stored.client_version) AS client_version",
            Self::Operator => "CAST(tupleElement(stored.stamp, 2) AS LowCardinality(String)) AS operator",
            Self::Key => "CAST(stored.key_fingerprint AS LowCardinality(FixedString(32))) AS key_fingerprint",
        }
    }
}

/// Columns of a grain's key, but the grain itself.
pub(super) fn key(grain: Grain) -> String {
    format!("{}, stored.revision", names("stored.", |column| column.is_in(grain)))
}

/// Start of a row's time in seconds: its day, or its half hour.
pub(super) fn start_s(grain: Grain) -> &'static str {
    match grain {
        Grain::All => "(stored.time + stored.half_hour * 1800)",
        Grain::Counted | Grain::Purpose | Grain::Client | Grain::Entry => "stored.time",
    }
}

fn start_ms(grain: Grain) -> String {
    format!("toInt64({}) * 1000", start_s(grain))
}

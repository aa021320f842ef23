//! Columns of a query: which grains have them, and how rows of `usage` and `receipts` give them.

use warehouse::Filter;

use crate::Grain;

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
            (filter.purpose.is_some(), Self::Purpose),
            (filter.client_id.is_some(), Self::Client),
            (filter.entry_id.is_some(), Self::Entry),
            (filter.model_id.is_some(), Self::Model),
            (filter.trust.is_some() || filter.operator.is_some(), Self::Operator),
            (filter.key_fingerprint.is_some(), Self::Key),
        ];
        filtered
            .into_iter()
            .filter(|(is_filtered, _)| *is_filtered)
            .map(|(_, column)| column)
    }

    /// Whether rows of a grain have the column.
    pub(super) fn is_in(self, grain: Grain) -> bool {
        let is_in_all = matches!(self, Self::Bucket | Self::First | Self::Last | Self::Operator);
        match grain {
            Grain::Counted => false,
            Grain::All => {
                is_in_all
                    || matches!(
                        self,
                        Self::Client | Self::Key | Self::Model | Self::Purpose | Self::Entry
                    )
            }
            Grain::Purpose => is_in_all || self == Self::Purpose,
            Grain::Client => {
                let of_client = matches!(
                    self,
                    Self::Client | Self::Key | Self::ClientName | Self::Organization | Self::ClientVersion
                );
                is_in_all || of_client || matches!(self, Self::Model | Self::Purpose)
            }
            Grain::Entry => is_in_all || matches!(self, Self::Entry | Self::Url),
        }
    }

    /// Expression over rows of `usage`, called `stored`; `is_summed` if they are grouped by key.
    pub(super) fn of_usage(self, grain: Grain, is_summed: bool) -> String {
        let text = match self {
            Self::Bucket => {
                let at = start_ms(grain);
                return format!("roundDown({at}, {{boundaries:Array(Int64)}}) AS bucket");
            }
            Self::First if is_summed => "min(stored.first_ms) AS first_ms",
            Self::Last if is_summed => "max(stored.last_ms) AS last_ms",
            Self::First => "CAST(stored.first_ms AS Int64) AS first_ms",
            Self::Last => "CAST(stored.last_ms AS Int64) AS last_ms",
            Self::Client => "stored.client_id AS client_id",
            Self::Purpose => "stored.purpose AS purpose",
            Self::Model => "stored.model_id AS model_id",
            Self::Entry => "stored.entry_id AS entry_id",
            Self::Url => "stored.url AS url",
            Self::ClientName => "toString(stored.client_name) AS client_name",
            Self::Organization => "toString(stored.organization) AS organization",
            Self::ClientVersion => "toString(stored.client_version) AS client_version",
            Self::Operator => "stored.operator AS operator",
            Self::Key => "stored.key_fingerprint AS key_fingerprint",
        };
        text.to_owned()
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
pub(super) fn key(grain: Grain) -> &'static str {
    match grain {
        Grain::Counted => "stored.time, stored.key, stored.revision",
        Grain::All => {
            "stored.publisher, stored.time, stored.entry_id, stored.half_hour, stored.client_id, stored.purpose,
            stored.model_id, stored.operator, stored.key_fingerprint, stored.verified, stored.revision"
        }
        Grain::Purpose => {
            "stored.publisher, stored.time, stored.purpose, stored.operator, stored.verified, stored.revision"
        }
        Grain::Client => {
            "stored.publisher, stored.time, stored.client_id, stored.purpose, stored.model_id, stored.client_name,
            stored.organization, stored.client_version, stored.operator, stored.key_fingerprint, stored.verified,
            stored.revision"
        }
        Grain::Entry => {
            "stored.publisher, stored.time, stored.entry_id, stored.url, stored.operator, stored.verified,
            stored.revision"
        }
    }
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

//! The parameters of the addresses: one definition of each, read by the handlers and shown in the
//! OpenAPI document.

use cursors::{LIST_CURSOR_BYTES_MAX, LOG_CURSOR_BYTES_MAX};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, Type};
use web::params::VALUES_MAX;

use crate::buckets::INTERVALS;
use crate::config::AnalyticsConfig;
use crate::ranking::{CLIENT_ORDERS, CONTENT_ORDERS, MODEL_ORDERS, OPERATOR_ORDERS, SEARCH_CHARS_MAX};
use crate::routes::timeseries::GROUPS;
use crate::selection::{MODEL_BYTES_MAX, purposes};
use web::format::{ALL, Format};

/// The most outcomes of a page.
pub(crate) const OUTCOMES_MAX: u32 = 1_000;

/// A parameter of the query string.
pub(crate) struct Query {
    pub(crate) name: &'static str,
    description: &'static str,
    schema: fn(&AnalyticsConfig) -> ObjectBuilder,
}

const NOT: &str = "Only receipts with another value than this one, or than all of several";
const SORT: &str = "The member that the rows are sorted by, the least first, and with `-` the greatest; `-receiptCount` if it isn't given";
const TIME: &str = "^([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))$";

pub(crate) const FROM: Query = Query {
    name: "from",
    description: "The first instant of the range: RFC 3339 with an offset (a `+` written as `%2B`), or a date, which is that day's first \
                  instant in `tz`; 1970 to 2199. Without it the range begins with the first receipt, or, of a time series, so many \
                  intervals before its end",
    schema: |_| text().pattern(Some(TIME)),
};
pub(crate) const TO: Query = Query {
    name: "to",
    description: "The instant at which the range ends, exclusive; written as `from`, and after it",
    schema: |_| text().pattern(Some(TIME)),
};
pub(crate) const TZ: Query = Query {
    name: "tz",
    description: "The time zone of dates, days, weeks and months: a name of the IANA database such as Europe/Berlin. UTC if it isn't given",
    schema: |_| text().max_length(Some(64)).default(Some("UTC".into())),
};
pub(crate) const PURPOSE: Query = Query {
    name: "purpose",
    description: "Only receipts of this purpose, or of one of several",
    schema: |_| choice(purposes()),
};
pub(crate) const NOT_PURPOSE: Query = Query {
    name: "purpose!",
    description: NOT,
    schema: PURPOSE.schema,
};
pub(crate) const CLIENT: Query = Query {
    name: "clientId",
    description: "Only receipts of this client, or of one of several",
    schema: |_| uuid(),
};
pub(crate) const NOT_CLIENT: Query = Query {
    name: "clientId!",
    description: NOT,
    schema: CLIENT.schema,
};
pub(crate) const ENTRY: Query = Query {
    name: "entryId",
    description: "Only receipts of this entry, or of one of several",
    schema: |_| uuid(),
};
pub(crate) const NOT_ENTRY: Query = Query {
    name: "entryId!",
    description: NOT,
    schema: ENTRY.schema,
};
pub(crate) const MODEL: Query = Query {
    name: "modelId",
    description: "Only receipts that name this model, or one of several",
    schema: |_| text().min_length(Some(1)).max_length(Some(MODEL_BYTES_MAX)),
};
pub(crate) const NOT_MODEL: Query = Query {
    name: "modelId!",
    description: NOT,
    schema: MODEL.schema,
};
pub(crate) const TRUST: Query = Query {
    name: "trust",
    description: "Only proven receipts, whose key was an operator's on arrival, or only the others; all if it isn't given",
    schema: |_| choice(["proven", "unproven", "all"]),
};
pub(crate) const OPERATOR: Query = Query {
    name: "operator",
    description: "Only receipts that were signed by this operator, a domain, or by one of several",
    schema: |_| text().min_length(Some(1)).max_length(Some(253)),
};
pub(crate) const NOT_OPERATOR: Query = Query {
    name: "operator!",
    description: NOT,
    schema: OPERATOR.schema,
};
pub(crate) const KEY: Query = Query {
    name: "keyFingerprint",
    description: "Only receipts signed with this key: SHA-256 of its SPKI in hexadecimal",
    schema: |_| text().pattern(Some("^[0-9a-f]{64}$")),
};
pub(crate) const NOT_KEY: Query = Query {
    name: "keyFingerprint!",
    description: NOT,
    schema: KEY.schema,
};
pub(crate) const BEFORE_VERIFICATION: Query = Query {
    name: "beforeVerification",
    description: "Receipts that arrived before anybody had verified the publisher's domain: not counted (`exclude`, the default), \
                  counted too (`include`), or the only ones counted (`only`)",
    schema: |_| choice(["exclude", "include", "only"]),
};
pub(crate) const DOMAIN: Query = Query {
    name: "domain",
    description: "Only this domain of the account's, with those of its subdomains that belong to no other domain. All that the account speaks for if it isn't given",
    schema: |_| text().min_length(Some(1)).max_length(Some(253)),
};
pub(crate) const COMPARE: Query = Query {
    name: "compare",
    description: "Adds `previous`, the same of another period. `previous` is the one before: as many months where `from` and `to` are the \
                  starts of months in `tz`, as many days where they are the starts of days, and the same duration otherwise; it ends at \
                  `from`. `year` is the same a year before, by the local calendar of `tz`",
    schema: |_| choice(["previous", "year"]),
};
pub(crate) const METRIC: Query = Query {
    name: "metric",
    description: "What is counted: receipts, distinct clients or distinct entries; receipts if it isn't given",
    schema: |_| choice(["receipts", "clients", "content"]),
};
pub(crate) const INTERVAL: Query = Query {
    name: "interval",
    description: "How long a point is, by the local calendar and clock of `tz`; day if it isn't given. Weeks begin on Monday",
    schema: |_| choice(INTERVALS.map(|interval| interval.name())),
};
pub(crate) const GROUP_BY: Query = Query {
    name: "groupBy",
    description: "One series for each purpose, or for each of the clients, entries, models or operators with the most receipts; with two of \
                  them joined by a comma, one for each pair",
    schema: |_| text().enum_values(Some(groupings())),
};
pub(crate) const BY_REASON: Query = Query {
    name: "groupBy",
    description: "Only how many there are for each reason: `newest` is empty, and rows are those of the counts",
    schema: |_| choice(["reason"]),
};
pub(crate) const REASON: Query = Query {
    name: "reason",
    description: "Only refusals for this reason",
    schema: |_| text().pattern(Some("^[a-z_]{1,64}$")),
};
pub(crate) const CURSOR: Query = Query {
    name: "cursor",
    description: "Where to go on: what came with the page or row before",
    schema: |_| text().min_length(Some(1)).max_length(Some(LIST_CURSOR_BYTES_MAX)),
};
pub(crate) const PAYLOAD_CURSOR: Query = Query {
    name: "cursor",
    description: "Where the list of payloads continues: `nextCursor` of the answer before",
    schema: |_| text().min_length(Some(1)).max_length(Some(LIST_CURSOR_BYTES_MAX)),
};
pub(crate) const AFTER: Query = Query {
    name: "after",
    description: "The cursor to continue with: of a line or of the last line. Without it the list begins with the last million records \
                  of each partition of the log",
    schema: |_| text().min_length(Some(1)).max_length(Some(LOG_CURSOR_BYTES_MAX)),
};
pub(crate) const OUTCOMES_LIMIT: Query = Query {
    name: "limit",
    description: "How many outcomes a page has; 100 if it isn't given",
    schema: |_| integer(OUTCOMES_MAX),
};
pub(crate) const TOP_LIMIT: Query = Query {
    name: "limit",
    description: "How long a list is; 10 if it isn't given",
    schema: |config| integer(config.top_max),
};
pub(crate) const CONTENT_SORT: Query = Query {
    name: "sort",
    description: SORT,
    schema: |_| choice(CONTENT_ORDERS.map(|order| order.0)),
};
pub(crate) const CLIENT_SORT: Query = Query {
    name: "sort",
    description: SORT,
    schema: |_| choice(CLIENT_ORDERS.map(|order| order.0)),
};
pub(crate) const MODEL_SORT: Query = Query {
    name: "sort",
    description: SORT,
    schema: |_| choice(MODEL_ORDERS.map(|order| order.0)),
};
pub(crate) const OPERATOR_SORT: Query = Query {
    name: "sort",
    description: SORT,
    schema: |_| choice(OPERATOR_ORDERS.map(|order| order.0)),
};
pub(crate) const SEARCH: Query = Query {
    name: "q",
    description: "Only rows with this text in their names, whatever its case: entries in the title or a URL, clients in the name, the \
                  organization or the operator, others in their key",
    schema: |_| text().min_length(Some(1)).max_length(Some(SEARCH_CHARS_MAX)),
};
pub(crate) const DASHBOARD_LIMIT: Query = Query {
    name: "limit",
    description: "How long `topContent` is; 10 if it isn't given, and 0 leaves it empty",
    schema: |config| integer(config.top_max).minimum(Some(0.0)),
};
pub(crate) const SERIES_LIMIT: Query = Query {
    name: "limit",
    description: "How many series with `groupBy`, those with the most receipts; needs `groupBy`",
    schema: |config| integer(config.series_max),
};
pub(crate) const REFUSALS_LIMIT: Query = Query {
    name: "limit",
    description: "How many refusals a page has; 10 if it isn't given",
    schema: |_| integer(1_000),
};
pub(crate) const ROWS_LIMIT: Query = Query {
    name: "limit",
    description: "How many receipts: as JSON at most 1,000, and 100 if it isn't given; as rows all there are up to the maximum if it \
                  isn't given",
    schema: |config| integer(config.stream_rows_max),
};
pub(crate) const FORMAT: Query = Query {
    name: "format",
    description: "The form of the answer, whatever `Accept` says: for links and tools that send no header",
    schema: |_| choice(ALL.map(Format::name)),
};
pub(crate) const BOM: Query = Query {
    name: "bom",
    description: "Whether CSV begins with a byte order mark, by which Excel recognises UTF-8; false if it isn't given",
    schema: |_| ObjectBuilder::new().schema_type(Type::Boolean),
};

/// Parameters of every answer that can be rows.
pub(crate) const ROWS: &[Query] = &[FORMAT, BOM];
/// The range of every selection of receipts.
pub(crate) const RANGE: &[Query] = &[FROM, TO, TZ];
/// Members that every selection of receipts may give, beside client and entry.
pub(crate) const MEMBERS: &[Query] = &[
    PURPOSE,
    NOT_PURPOSE,
    MODEL,
    NOT_MODEL,
    TRUST,
    OPERATOR,
    NOT_OPERATOR,
    KEY,
    NOT_KEY,
    BEFORE_VERIFICATION,
];
/// Selection of clients.
pub(crate) const CLIENTS: &[Query] = &[CLIENT, NOT_CLIENT];
/// Selection of entries.
pub(crate) const ENTRIES: &[Query] = &[ENTRY, NOT_ENTRY];

impl Query {
    /// As it is in the document of an address with these parameters.
    pub(crate) fn documented(&self, config: &AnalyticsConfig, allowed: &[&[Query]]) -> Parameter {
        let parameter = ParameterBuilder::new()
            .name(self.name)
            .parameter_in(ParameterIn::Query)
            .description(Some(self.description));
        let value = (self.schema)(config);
        let parameter = if is_filter(self.name, allowed) {
            let values = ArrayBuilder::new()
                .items((self.schema)(config))
                .max_items(Some(VALUES_MAX));
            let either = OneOfBuilder::new().item(value).item(values);
            parameter
                .style(Some(ParameterStyle::Form))
                .explode(Some(true))
                .schema(Some(either))
        } else {
            parameter.schema(Some(value))
        };
        parameter.build()
    }
}

/// Whether an address with these parameters takes several values of one: it has the parameter's
/// negation, too, whose name ends with `!`.
pub(crate) fn is_filter(name: &str, allowed: &[&[Query]]) -> bool {
    let is_negation = |query: &Query| query.name.strip_suffix('!') == Some(name);
    name.ends_with('!') || allowed.iter().copied().flatten().any(is_negation)
}

/// The values of `groupBy`: each group, and each pair of two.
fn groupings() -> Vec<String> {
    let names = GROUPS.map(|(name, _)| name);
    let pairs = names
        .iter()
        .flat_map(|first| names.iter().map(move |second| (first, second)));
    let pairs = pairs.filter(|(first, second)| first != second);
    let pairs = pairs.map(|(first, second)| format!("{first},{second}"));
    names.iter().map(ToString::to_string).chain(pairs).collect()
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn uuid() -> ObjectBuilder {
    text().format(Some(SchemaFormat::Custom("uuid".to_owned())))
}

fn choice<const N: usize>(names: [&str; N]) -> ObjectBuilder {
    text().enum_values(Some(names))
}

fn integer(max: u32) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .minimum(Some(1.0))
        .maximum(Some(f64::from(max)))
}

//! Pages of rankings: the parameters `sort`, `q`, `limit` and `cursor`.

use accounts::Principal;
use cursors::RankingListPosition;
use usage::{RankingPage, RankingPosition, RankingSort, Usage};
use uuid::Uuid;
use warehouse::{QueryScope, WarehouseError};
use web::Failure;
use web::params::{InvalidQuery, Params};

use crate::cursor::ListCursor;
use crate::labels::entries_listed_as;
use crate::state::AnalyticsState;

/// The longest `q`, in characters.
pub(crate) const SEARCH_CHARS_MAX: usize = 200;
/// Entries that `q` may find.
const FOUND_MAX: usize = 10_000;

/// An order, as `sort` names it: the column, and whether the greatest comes first.
pub(crate) type RankingOrder = (&'static str, RankingSort, bool);

const MOST_RECEIPTS: RankingOrder = ("-receiptCount", RankingSort::Receipts, true);
const FEWEST_RECEIPTS: RankingOrder = ("receiptCount", RankingSort::Receipts, false);
const NEWEST: RankingOrder = ("-lastSeen", RankingSort::LastSeen, true);
const OLDEST: RankingOrder = ("lastSeen", RankingSort::LastSeen, false);
const MOST_CLIENTS: RankingOrder = ("-uniqueClients", RankingSort::Clients, true);
const FEWEST_CLIENTS: RankingOrder = ("uniqueClients", RankingSort::Clients, false);

/// Orders of entries.
pub(crate) const CONTENT_ORDERS: [RankingOrder; 6] = [
    MOST_RECEIPTS,
    FEWEST_RECEIPTS,
    NEWEST,
    OLDEST,
    ("-entryId", RankingSort::Id, true),
    ("entryId", RankingSort::Id, false),
];
/// Orders of clients.
pub(crate) const CLIENT_ORDERS: [RankingOrder; 8] = [
    MOST_RECEIPTS,
    FEWEST_RECEIPTS,
    NEWEST,
    OLDEST,
    ("-name", RankingSort::Name, true),
    ("name", RankingSort::Name, false),
    ("-clientId", RankingSort::Id, true),
    ("clientId", RankingSort::Id, false),
];
/// Orders of models.
pub(crate) const MODEL_ORDERS: [RankingOrder; 6] = [
    MOST_RECEIPTS,
    FEWEST_RECEIPTS,
    MOST_CLIENTS,
    FEWEST_CLIENTS,
    ("-modelId", RankingSort::Id, true),
    ("modelId", RankingSort::Id, false),
];

/// Orders of operators.
pub(crate) const OPERATOR_ORDERS: [RankingOrder; 6] = [
    MOST_RECEIPTS,
    FEWEST_RECEIPTS,
    MOST_CLIENTS,
    FEWEST_CLIENTS,
    ("-operator", RankingSort::Id, true),
    ("operator", RankingSort::Id, false),
];

/// The page that a query wants.
#[derive(Debug)]
pub(crate) struct RankingQuery {
    pub(crate) page: RankingPage,
    order: &'static str,
}

impl RankingQuery {
    /// Reads the parameters of a ranking that has these orders.
    pub(crate) fn of<const N: usize>(
        params: &Params,
        orders: [RankingOrder; N],
        rows_max: u32,
    ) -> Result<Self, InvalidQuery> {
        let order = params.choice("sort", &orders.map(|order| (order.0, order)))?;
        let (order, sort, is_descending) = order.unwrap_or(MOST_RECEIPTS);
        let position = RankingListPosition::read(params)?;
        if position.as_ref().is_some_and(|position| position.sort != order) {
            let detail = "of another order: give the `sort` that it came with, or leave `cursor` out";
            return Err(InvalidQuery::new("cursor", detail));
        }
        Ok(Self {
            page: RankingPage {
                sort,
                is_descending,
                after: position.map(|RankingListPosition { value, tie, .. }| RankingPosition { value, tie }),
                search: search(params)?,
                rows_max,
            },
            order,
        })
    }

    /// The cursor of a position.
    pub(crate) fn cursor(&self, position: Option<RankingPosition>) -> Option<String> {
        let position = position.map(|RankingPosition { value, tie }| RankingListPosition {
            sort: self.order.to_owned(),
            value,
            tie,
        });
        position.map(|position| position.to_text())
    }
}

fn search(params: &Params) -> Result<Option<String>, InvalidQuery> {
    let search = params.get("q");
    if search.is_some_and(|text| text.chars().count() > SEARCH_CHARS_MAX || text.contains('\0')) {
        let detail = format!("has 1 to {SEARCH_CHARS_MAX} characters, none of them NUL");
        return Err(InvalidQuery::new("q", detail));
    }
    Ok(search.map(str::to_owned))
}

/// Entries whose title or URL contains what `q` says.
#[derive(Debug)]
pub(crate) struct EntrySearch {
    text: String,
    listed: Vec<Uuid>,
}

impl EntrySearch {
    /// Searches the entries that the account lists; `None` if the page isn't of a search.
    pub(crate) async fn of(
        app: &AnalyticsState,
        principal: &Principal,
        page: &RankingPage,
    ) -> Result<Option<Self>, Failure> {
        let Some(text) = page.search.clone() else {
            return Ok(None);
        };
        let listed = entries_listed_as(app, principal, &text, FOUND_MAX).await?;
        Ok(Some(Self { text, listed }))
    }

    /// With the entries that receipts of the scope name by such a URL; `None` if they are more than
    /// a statement takes.
    pub(crate) async fn found(&self, usage: &Usage, scope: &QueryScope) -> Result<Option<Vec<Uuid>>, WarehouseError> {
        let found_max = u32::try_from(FOUND_MAX + 1).unwrap_or(u32::MAX);
        let mut found = usage.entries_with_url(scope, &self.text, found_max).await?;
        found.extend(&self.listed);
        found.sort_unstable();
        found.dedup();
        Ok(Some(found).filter(|found| found.len() <= FOUND_MAX))
    }
}

/// Fault of a search that finds too much.
pub(crate) fn too_many_found() -> InvalidQuery {
    let detail = format!("more than {FOUND_MAX} entries contain it: give more of the title or URL");
    InvalidQuery::new("q", detail)
}

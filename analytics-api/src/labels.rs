//! Titles and URLs of entries, as publishers list them in the account store. Receipts have a URL of
//! their client's.

use std::collections::HashMap;
use std::time::Duration;

use accounts::{AccountsError, ENTRY_LABELS_MAX, ENTRY_PAGE_MAX, EntryFilter, EntryLabel, Principal};
use metrics::counter;
use service::problem::{Kind, Problem};
use uuid::Uuid;
use web::Failure;

use crate::state::AnalyticsState;

/// Time for the question. An answer without titles is worth more than one that comes late.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The labels of some entries, or nothing where the account store didn't tell them.
pub(crate) struct Labels(Option<HashMap<Uuid, EntryLabel>>);

/// An entry by its label.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Labelled {
    /// The entry's own; the receipts' if there is no such entry.
    pub(crate) url: String,
    /// The entry's own; the URL if there is no such entry.
    pub(crate) title: String,
    /// Whether the account lists no such entry; `None` if that couldn't be checked.
    pub(crate) unknown: Option<bool>,
}

impl Labels {
    /// Reads the labels of the entries `ids` of an account. A key that is limited to some domains
    /// gets only labels of their entries, because receipts can name any entry. A store that fails
    /// costs the titles, never the answer.
    pub(crate) async fn of(app: &AnalyticsState, principal: &Principal, ids: &[Uuid]) -> Self {
        let accounts = &app.deps.accounts;
        let work = async {
            let mut labels = HashMap::new();
            for ids in ids.chunks(ENTRY_LABELS_MAX) {
                let found = accounts.entry_labels(&principal.account_id, ids).await?;
                labels.extend(
                    found
                        .into_iter()
                        .filter(|(_, label)| principal.may_act_on(&label.domain)),
                );
            }
            Ok::<_, AccountsError>(labels)
        };
        let why = match tokio::time::timeout(WAIT_MAX, work).await {
            Ok(Ok(labels)) => return Self(Some(labels)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the account store didn't answer within {} ms", WAIT_MAX.as_millis()),
        };
        counter!("receipts_analytics_unlabelled_total").increment(1);
        tracing::warn!(why, "answered with the receipts' URLs for titles");
        Self(None)
    }

    /// Failure where the labels decide the answer, and the account store is unavailable.
    pub(crate) fn away() -> Failure {
        let detail = "the account store can't say now whether you list this entry; try again";
        Problem::new(Kind::AccountsUnavailable, detail).retry_after_s(1).into()
    }

    /// The entry `id`, which its receipts have at `url`.
    pub(crate) fn of_entry(&self, id: Uuid, url: String) -> Labelled {
        let Some(labels) = &self.0 else {
            return Labelled {
                title: url.clone(),
                url,
                unknown: None,
            };
        };
        match labels.get(&id).cloned() {
            Some(EntryLabel { url, title, .. }) => Labelled {
                url,
                title,
                unknown: Some(false),
            },
            None => Labelled {
                title: url.clone(),
                url,
                unknown: Some(true),
            },
        }
    }
}

/// Entries that the account lists with this text in their title or URL, at most `found_max` and a
/// page. A key that is limited to some domains finds only their entries.
///
/// # Errors
/// 503 if the account store doesn't answer in time: an answer without some of them would be wrong.
pub(crate) async fn entries_listed_as(
    app: &AnalyticsState,
    principal: &Principal,
    text: &str,
    found_max: usize,
) -> Result<Vec<Uuid>, Failure> {
    let filter = EntryFilter {
        text: Some(text.to_owned()),
        key: principal.limit.clone(),
        ..EntryFilter::default()
    };
    let work = async {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let accounts = &app.deps.accounts;
            let page = accounts
                .entry_page(&principal.account_id, &filter, after.as_ref(), ENTRY_PAGE_MAX)
                .await?;
            found.extend(page.items.into_iter().map(|entry| entry.id));
            after = page.next;
            if after.is_none() || found.len() > found_max {
                return Ok::<_, AccountsError>(found);
            }
        }
    };
    let why = match tokio::time::timeout(WAIT_MAX, work).await {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the account store didn't answer within {} ms", WAIT_MAX.as_millis()),
    };
    tracing::warn!(why, "entries can't be searched");
    let detail = "the account store can't search your entries now; try again, or leave `q` out";
    Err(Problem::new(Kind::AccountsUnavailable, detail).retry_after_s(1).into())
}

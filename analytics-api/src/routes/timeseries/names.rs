//! Names of groups: clients as their newest receipts say, and entries by their titles.

use std::collections::HashMap;

use accounts::Principal;
use usage::{ClientUsage, EntryUsage, GroupBy, RankingPage, SeriesGroup, TimeseriesPoint, Usage};
use uuid::Uuid;
use warehouse::{Filter, QueryScope, WarehouseError};

use super::GroupKey;
use crate::labels::Labels;
use crate::state::AnalyticsState;

/// Clients with the IDs of a series, the most receipts first, whose names are read: strangers may
/// use an ID with any number of keys.
const CLIENTS_MAX: u32 = 1_000;

/// Names of the clients and entries of one period's series.
#[derive(Debug, Default)]
pub(super) struct GroupNames {
    /// By ID and key, as [`SeriesGroup`] has them.
    clients: HashMap<(String, String), String>,
    /// URLs of the newest receipts, and titles once they are [`titled`](Self::titled).
    entries: HashMap<Uuid, String>,
}

impl GroupNames {
    /// Reads the names of the groups of these points.
    pub(super) async fn read(
        usage: &Usage,
        scope: &QueryScope,
        filter: &Filter,
        group_by: &[GroupBy],
        points: &[TimeseriesPoint],
    ) -> Result<Self, WarehouseError> {
        let ids = |wanted: GroupBy| {
            let groups = points.iter().flat_map(|point| group_by.iter().zip(&point.groups));
            let groups = groups.filter(|(by, _)| **by == wanted);
            let mut ids: Vec<Uuid> = groups
                .filter_map(|(_, group)| Uuid::try_parse(&group.id).ok())
                .collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let (clients, entries) = (ids(GroupBy::Client), ids(GroupBy::Entry));
        let page = RankingPage::top(CLIENTS_MAX);
        let clients = usage.top_clients(scope, filter, &page, Some(&clients)).await?;
        let entries = usage.top_content(scope, filter, &page, Some(&entries)).await?;
        let client_name = |client: ClientUsage| {
            let key = hex::encode(client.key_fingerprint);
            ((client.client_id.to_string(), key), client.name)
        };
        let entry_url = |entry: EntryUsage| (entry.content.entry_id, entry.content.url);
        Ok(Self {
            clients: clients.items.into_iter().map(client_name).collect(),
            entries: entries.items.into_iter().map(entry_url).collect(),
        })
    }

    /// Replaces the URLs of entries that the account lists by their titles.
    pub(super) async fn titled(mut self, app: &AnalyticsState, principal: &Principal) -> Self {
        let ids: Vec<Uuid> = self.entries.keys().copied().collect();
        if !ids.is_empty() {
            let labels = Labels::of(app, principal, &ids).await;
            for (id, label) in &mut self.entries {
                *label = labels.of_entry(*id, std::mem::take(label)).title;
            }
        }
        self
    }

    /// The key and label of a group.
    pub(super) fn key(&self, by: GroupBy, group: SeriesGroup) -> GroupKey {
        let SeriesGroup { id, key_fingerprint } = group;
        let (label, key_fingerprint) = match by {
            GroupBy::Client => {
                let client = (id.clone(), key_fingerprint);
                (self.clients.get(&client).cloned(), Some(client.1))
            }
            GroupBy::Entry => {
                let id = Uuid::try_parse(&id).unwrap_or_default();
                (self.entries.get(&id).cloned(), None)
            }
            GroupBy::Purpose | GroupBy::Model | GroupBy::Operator => (Some(id.clone()), None),
        };
        GroupKey {
            key: Some(id).filter(|id| !id.is_empty()),
            label: label.filter(|label| !label.is_empty()),
            key_fingerprint: key_fingerprint.filter(|key| key.bytes().any(|digit| digit != b'0')),
        }
    }
}

//! What the newest receipts of some entries or clients say, once it is known when those were.

use std::collections::HashMap;
use std::sync::Arc;

use clickhouse::Row;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Deserialize;
use uuid::Uuid;

use super::source::Cube;
use super::{FINAL_SETTINGS, Filter, Scope, Usage, receipts_condition, scoped};
use crate::rollup::hour_of;
use crate::{Hours, WarehouseError};

#[derive(Row, Deserialize)]
struct NewestRow {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    texts: Vec<String>,
}

/// Whose newest receipts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    /// Entries; one text, the URL.
    Entries,
    /// Clients; two texts, name and organization.
    Clients,
}

/// What the newest receipts of entries say, of instants in hours that are rolled: by publisher, entry, instant and the roll that made
/// the hour. Clones of a [`Warehouse`](crate::Warehouse) share it.
#[derive(Debug, Clone)]
pub(crate) struct KnownUrls(Arc<Cache<Place, Arc<str>, ByBytes>>);

type Place = (Arc<str>, Uuid, i64, u32);

const URLS_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Place, Arc<str>> for ByBytes {
    fn weight(&self, place: &Place, url: &Arc<str>) -> u64 {
        (192 + place.0.len() + url.len()) as u64
    }
}

impl Default for KnownUrls {
    fn default() -> Self {
        Self(Arc::new(Cache::with_weighter(20_000, URLS_BYTES_MAX, ByBytes)))
    }
}

impl Usage<'_> {
    /// The URL of each entry's receipt of an instant; an empty one only if it was erased since.
    pub(super) async fn newest_urls(
        &self,
        scope: &Scope,
        filter: &Filter,
        found: &[(Uuid, i64)],
    ) -> Result<Vec<String>, WarehouseError> {
        let known = &self.warehouse.urls_known().0;
        // A narrower choice has other instants, and its own answers.
        let publisher: Option<Arc<str>> = match scope.publishers.as_slice() {
            [one] if self.is_summed(scope, filter) && scope.below.is_empty() => Some(one.as_str().into()),
            _ => None,
        };
        let mut keys: Vec<Option<Place>> = vec![None; found.len()];
        let mut held: Vec<Option<Arc<str>>> = vec![None; found.len()];
        let mut recent = Vec::new();
        if let Some(publisher) = &publisher {
            let source = self.source(scope, filter, &[], Cube::Entries).await?;
            for ((key, url), (entry, at_ms)) in keys.iter_mut().zip(&mut held).zip(found) {
                let made_by = source.made_by(publisher, *at_ms);
                *key = made_by.map(|version| (Arc::clone(publisher), *entry, *at_ms, version));
                *url = key.as_ref().and_then(|key| known.get(key));
            }
            let without_key = || found.iter().zip(&keys).filter(|(_, key)| key.is_none());
            let hours = without_key().map(|((_, at_ms), _)| hour_of(*at_ms));
            let hours = Hours::of_all(hours.map(|hour| (hour, hour.saturating_add(1))));
            if !hours.is_empty() {
                recent = self.warehouse.recent_held(self.view, scope, &hours).unwrap_or_default();
            }
            for ((url, _), (entry, at_ms)) in held
                .iter_mut()
                .zip(&keys)
                .zip(found)
                .filter(|((_, key), _)| key.is_none())
            {
                *url = recent.iter().find_map(|recent| recent.url_of(*entry, *at_ms));
            }
        }
        let missing = found.iter().zip(&held).filter(|(_, url)| url.is_none());
        let mut read = self
            .newest(scope, filter, Of::Entries, missing.map(|(one, _)| *one))
            .await?;
        let mut urls = Vec::with_capacity(found.len());
        for (((entry, at_ms), key), held) in found.iter().zip(keys).zip(held) {
            if let Some(url) = held {
                urls.push(url.to_string());
                continue;
            }
            let url = read
                .remove(entry)
                .unwrap_or_default()
                .into_iter()
                .next()
                .unwrap_or_default();
            match key {
                _ if url.is_empty() => {}
                Some(key) => known.insert(key, url.as_str().into()),
                None => recent
                    .iter()
                    .for_each(|recent| recent.put_url(*entry, *at_ms, url.as_str().into())),
            }
            urls.push(url);
        }
        Ok(urls)
    }

    /// The texts of the receipts with these ids and timestamps (milliseconds); of several of one id and timestamp the greatest of
    /// each. It costs the hours that the timestamps lie in, of these entries.
    pub(super) async fn newest(
        &self,
        scope: &Scope,
        filter: &Filter,
        of: Of,
        found: impl Iterator<Item = (Uuid, i64)>,
    ) -> Result<HashMap<Uuid, Vec<String>>, WarehouseError> {
        let (ids, times_ms): (Vec<String>, Vec<i64>) = found.map(|(id, last_ms)| (id.to_string(), last_ms)).unzip();
        let (Some(first), Some(last)) = (times_ms.iter().min(), times_ms.iter().max()) else {
            return Ok(HashMap::new());
        };
        let filter = Filter {
            from_ms: *first,
            to_ms: last.saturating_add(1),
            ..filter.clone()
        };
        let (column, texts, key) = match of {
            Of::Entries => ("entry_id", "[max(toString(url))]", " AND entry_id IN {ids:Array(UUID)}"),
            Of::Clients => (
                "client_id",
                "[max(toString(client_name)), max(toString(organization))]",
                "",
            ),
        };
        let condition = receipts_condition(scope, &filter);
        let sql = format!(
            "SELECT CAST({column} AS UUID) AS id, {texts} AS texts
             FROM receipts FINAL WHERE {condition}{key}
                AND timestamp IN arrayMap(ms -> fromUnixTimestamp64Milli(ms, 'UTC'), {{times_ms:Array(Int64)}})
                AND (id, toUnixTimestamp64Milli(timestamp)) IN arrayZip({{ids:Array(UUID)}}, {{times_ms:Array(Int64)}})
             GROUP BY id {FINAL_SETTINGS}"
        );
        let call = scoped(sql, scope, &filter).with("ids", ids).with("times_ms", times_ms);
        let rows: Vec<NewestRow> = self.warehouse.rows("newest", call).await?;
        Ok(rows.into_iter().map(|row| (row.id, row.texts)).collect())
    }
}

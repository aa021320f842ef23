//! Answers, counted in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use usage::{
    ByTrust, ClientKeyUsage, ClientStats, ClientUsage, ContentStats, DashboardStats, EntryUsage, GroupBy, Metric,
    PartTotals, Ranking, Share, TimeseriesPoint, TopClient, TopContent, UsageByPurpose,
};
use uuid::Uuid;

use super::harness::Receipt;

type Receipts<'a> = &'a [&'a Receipt];

fn purposes(receipts: Receipts<'_>) -> UsageByPurpose {
    let count = |purpose| receipts.iter().filter(|receipt| receipt.purpose == purpose).count() as u64;
    UsageByPurpose {
        training: count("training"),
        inference: count("inference"),
        research: count("research"),
    }
}

/// A text of the newest receipt; of equally new ones the greatest.
fn newest(receipts: Receipts<'_>, text: fn(&Receipt) -> &String) -> String {
    let texts = receipts.iter().map(|receipt| (receipt.timestamp_ms, text(receipt)));
    texts.max().map(|(_, text)| text.clone()).unwrap_or_default()
}

/// The text of the newest proven receipt, or of the newest one if none is proven.
fn most_trusted(receipts: Receipts<'_>, text: fn(&Receipt) -> &String) -> String {
    let (proven, _) = parts(receipts);
    newest(if proven.is_empty() { receipts } else { &proven }, text)
}

/// Proven and unproven receipts.
fn parts<'a>(receipts: &[&'a Receipt]) -> (Vec<&'a Receipt>, Vec<&'a Receipt>) {
    receipts.iter().partition(|receipt| !receipt.operator.is_empty())
}

fn by_trust(receipts: Receipts<'_>, count: impl Fn(Receipts<'_>) -> u64) -> ByTrust {
    let (proven, unproven) = parts(receipts);
    ByTrust {
        proven: count(&proven),
        unproven: count(&unproven),
    }
}

fn receipts_by_trust(receipts: Receipts<'_>) -> ByTrust {
    by_trust(receipts, |part| part.len() as u64)
}

fn totals(part: Receipts<'_>) -> PartTotals {
    PartTotals {
        total_receipts: part.len() as u64,
        unique_clients: distinct(part, |receipt| receipt.client_id),
        usage_by_purpose: purposes(part),
    }
}

/// Key that distinguishes rows of clients.
fn client_key(receipt: &Receipt) -> String {
    format!("{}{:02x}", receipt.client_id, receipt.key[0])
}

fn grouped<'a, K: Ord>(receipts: &[&'a Receipt], key: impl Fn(&'a Receipt) -> K) -> BTreeMap<K, Vec<&'a Receipt>> {
    let mut groups = BTreeMap::<K, Vec<&Receipt>>::new();
    for receipt in receipts {
        groups.entry(key(receipt)).or_default().push(receipt);
    }
    groups
}

/// The largest groups first, equal ones in order of their key's text.
fn largest<K: Ord + ToString>(groups: BTreeMap<K, Vec<&Receipt>>, top_max: u32) -> Vec<(K, Vec<&Receipt>)> {
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, members)| (Reverse(members.len()), key.to_string()));
    groups.truncate(top_max as usize);
    groups
}

fn distinct<K: Ord>(receipts: Receipts<'_>, key: impl Fn(&Receipt) -> K) -> u64 {
    let keys: BTreeSet<K> = receipts.iter().map(|receipt| key(receipt)).collect();
    keys.len() as u64
}

/// The first and the last timestamp.
fn seen(receipts: Receipts<'_>) -> (Option<i64>, Option<i64>) {
    let times = || receipts.iter().map(|receipt| receipt.timestamp_ms);
    (times().min(), times().max())
}

fn top(receipts: Receipts<'_>, top_max: u32) -> Vec<TopContent> {
    let groups = largest(grouped(receipts, |receipt| receipt.entry_id), top_max);
    let top = groups.into_iter().map(|(entry_id, members)| TopContent {
        entry_id,
        url: newest(&members, |receipt| &receipt.url),
        receipt_count: members.len() as u64,
        by_trust: receipts_by_trust(&members),
    });
    top.collect()
}

pub(crate) fn dashboard(receipts: Receipts<'_>, top_max: u32) -> DashboardStats {
    DashboardStats {
        total_receipts: receipts.len() as u64,
        // Of receipts that another filter matches.
        receipts_before_verification: 0,
        unique_clients: distinct(receipts, |receipt| receipt.client_id),
        top_content: top(receipts, top_max),
        usage_by_purpose: purposes(receipts),
        proven: totals(&parts(receipts).0),
        unproven: totals(&parts(receipts).1),
    }
}

pub(crate) fn top_content(receipts: Receipts<'_>, top_max: u32) -> Ranking<EntryUsage> {
    let entries = grouped(receipts, |receipt| receipt.entry_id);
    let entry = |(entry_id, members): (Uuid, Vec<&Receipt>)| EntryUsage {
        entry_id,
        url: newest(&members, |receipt| &receipt.url),
        receipt_count: members.len() as u64,
        by_trust: receipts_by_trust(&members),
        unique_clients: distinct(&members, |receipt| receipt.client_id),
        last_seen_ms: seen(&members).1.unwrap(),
    };
    Ranking {
        total: entries.len() as u64,
        items: largest(entries, top_max).into_iter().map(entry).collect(),
    }
}

pub(crate) fn top_clients(receipts: Receipts<'_>, top_max: u32) -> Ranking<ClientUsage> {
    let clients = grouped(receipts, client_key);
    let client = |(_, members): (String, Vec<&Receipt>)| ClientUsage {
        client_id: members[0].client_id,
        key_fingerprint: members[0].key,
        operator: newest(&members, |receipt| &receipt.operator),
        name: newest(&members, |receipt| &receipt.client_name),
        organization: newest(&members, |receipt| &receipt.organization),
        receipt_count: members.len() as u64,
        by_trust: receipts_by_trust(&members),
        last_seen_ms: seen(&members).1.unwrap(),
    };
    Ranking {
        total: clients.len() as u64,
        items: largest(clients, top_max).into_iter().map(client).collect(),
    }
}

pub(crate) fn shares(receipts: Receipts<'_>, key: fn(&Receipt) -> &String, top_max: u32) -> Ranking<Share> {
    let groups = grouped(receipts, key);
    let share = |(key, members): (&String, Vec<&Receipt>)| Share {
        key: key.clone(),
        receipt_count: members.len() as u64,
        by_trust: receipts_by_trust(&members),
        unique_clients: distinct(&members, |receipt| receipt.client_id),
    };
    Ranking {
        total: groups.len() as u64,
        items: largest(groups, top_max).into_iter().map(share).collect(),
    }
}

pub(crate) fn content(receipts: Receipts<'_>, top_max: u32) -> ContentStats {
    let (first_seen_ms, last_seen_ms) = seen(receipts);
    let client = |(_, members): (String, Vec<&Receipt>)| TopClient {
        client_id: members[0].client_id,
        key_fingerprint: members[0].key,
        operator: newest(&members, |receipt| &receipt.operator),
        by_trust: receipts_by_trust(&members),
        name: newest(&members, |receipt| &receipt.client_name),
        organization: newest(&members, |receipt| &receipt.organization),
        receipt_count: members.len() as u64,
    };
    let clients = largest(grouped(receipts, client_key), top_max);
    let urls: BTreeSet<String> = receipts.iter().map(|receipt| receipt.url.clone()).collect();
    ContentStats {
        total_receipts: receipts.len() as u64,
        unique_clients: distinct(receipts, |receipt| receipt.client_id),
        usage_by_purpose: purposes(receipts),
        proven: totals(&parts(receipts).0),
        unproven: totals(&parts(receipts).1),
        top_clients: clients.into_iter().map(client).collect(),
        first_seen_ms,
        last_seen_ms,
        urls: urls.into_iter().take(100).collect(),
    }
}

pub(crate) fn client(receipts: Receipts<'_>, top_max: u32) -> ClientStats {
    let (first_seen_ms, last_seen_ms) = seen(receipts);
    let versions: BTreeSet<String> = receipts.iter().map(|receipt| receipt.client_version.clone()).collect();
    let key = |(_, members): (String, Vec<&Receipt>)| ClientKeyUsage {
        key_fingerprint: members[0].key,
        operator: newest(&members, |receipt| &receipt.operator),
        by_trust: receipts_by_trust(&members),
        last_seen_ms: seen(&members).1.unwrap(),
    };
    ClientStats {
        name: most_trusted(receipts, |receipt| &receipt.client_name),
        organization: most_trusted(receipts, |receipt| &receipt.organization),
        keys: largest(grouped(receipts, client_key), 100)
            .into_iter()
            .map(key)
            .collect(),
        versions: versions.into_iter().take(100).collect(),
        total_receipts: receipts.len() as u64,
        unique_content: distinct(receipts, |receipt| receipt.entry_id),
        usage_by_purpose: purposes(receipts),
        proven: totals(&parts(receipts).0),
        unproven: totals(&parts(receipts).1),
        top_content: top(receipts, top_max),
        first_seen_ms,
        last_seen_ms,
    }
}

pub(crate) fn timeseries(
    receipts: Receipts<'_>,
    metric: Metric,
    boundaries: &[i64],
    group_by: GroupBy,
    top_max: u32,
) -> Vec<TimeseriesPoint> {
    let group = |receipt: &Receipt| match group_by {
        GroupBy::None => String::new(),
        GroupBy::Purpose => receipt.purpose.clone(),
        GroupBy::Client => receipt.client_id.to_string(),
        GroupBy::Entry => receipt.entry_id.to_string(),
        GroupBy::Model => receipt.model_id.clone(),
    };
    let value = |members: Receipts<'_>| match metric {
        Metric::Receipts => members.len() as u64,
        Metric::Clients => distinct(members, |receipt| receipt.client_id),
        Metric::Content => distinct(members, |receipt| receipt.entry_id),
    };
    let within = receipts.iter().filter(|receipt| receipt.timestamp_ms >= boundaries[0]);
    let within: Vec<&Receipt> = within.copied().collect();
    let shown = largest(grouped(&within, group), top_max).into_iter();
    let shown: BTreeSet<String> = shown.map(|(group, _)| group).collect();
    let bucket = |receipt: &Receipt| {
        let after = boundaries.partition_point(|start| *start <= receipt.timestamp_ms);
        boundaries[after - 1]
    };
    let points = grouped(&within, |receipt| (bucket(receipt), group(receipt))).into_iter();
    let points = points.filter(|((_, group), _)| group_by == GroupBy::None || shown.contains(group));
    let point = |((bucket_start_ms, group), members): ((i64, String), Vec<&Receipt>)| TimeseriesPoint {
        bucket_start_ms,
        group: (group_by != GroupBy::None).then_some(group),
        value: value(&members),
        by_trust: by_trust(&members, value),
    };
    points.map(point).collect()
}

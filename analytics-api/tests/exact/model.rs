//! Model in the plainest form: every receipt and every rejection, one by one.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

/// A receipt as its client states it, and who signed it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fact {
    pub(crate) publisher: &'static str,
    pub(crate) timestamp_ms: i64,
    pub(crate) entry_id: Uuid,
    pub(crate) receipt_id: Uuid,
    pub(crate) payload_hash: [u8; 32],
    pub(crate) url: String,
    pub(crate) client_id: Uuid,
    pub(crate) key: [u8; 32],
    /// Operator of the key on its first arrival; empty if nobody's.
    pub(crate) operator: &'static str,
    /// Whether its publisher was verified on its first arrival.
    pub(crate) publisher_verified: bool,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) organization: String,
    pub(crate) purpose: &'static str,
    pub(crate) model_id: String,
}

/// A receipt and its positions in the log.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) fact: Fact,
    pub(crate) positions: BTreeSet<u128>,
    /// The first time it was received.
    pub(crate) received_ms: i64,
}

/// A refused receipt.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) position: u128,
    pub(crate) reason: &'static str,
    pub(crate) detail: String,
    pub(crate) publisher: &'static str,
    pub(crate) receipt_id: Option<Uuid>,
    pub(crate) client_id: Option<Uuid>,
    pub(crate) received_ms: i64,
    pub(crate) request_id: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// By receipt id and payload.
    receipts: BTreeMap<(Uuid, [u8; 32]), Stored>,
    refused: BTreeMap<u128, Refused>,
}

impl Model {
    pub(crate) fn receipts(&self) -> impl Iterator<Item = &Stored> {
        self.receipts.values()
    }

    pub(crate) fn refused(&self) -> impl Iterator<Item = &Refused> {
        self.refused.values()
    }

    /// Adds an occurrence of a receipt. Erased members stay erased, and the
    /// first one's stamp stays.
    pub(crate) fn take(&mut self, fact: &Fact, position: u128, received_ms: i64) {
        let stored = self
            .receipts
            .entry((fact.receipt_id, fact.payload_hash))
            .or_insert_with(|| Stored {
                fact: fact.clone(),
                positions: BTreeSet::new(),
                received_ms,
            });
        stored.positions.insert(position);
        stored.received_ms = stored.received_ms.min(received_ms);
    }

    pub(crate) fn refuse(&mut self, refused: Refused) {
        self.refused.insert(refused.position, refused);
    }

    /// Takes out what identifies clients: of accesses before, of what was received before.
    pub(crate) fn erase(&mut self, mine: impl Fn(&str) -> bool, before_ms: i64) {
        for stored in self.receipts.values_mut() {
            let fact = &mut stored.fact;
            if mine(fact.publisher) && (fact.timestamp_ms < before_ms || stored.received_ms < before_ms) {
                fact.client_id = Uuid::nil();
                fact.key = [0; 32];
                fact.operator = "";
                for text in [&mut fact.name, &mut fact.version, &mut fact.organization] {
                    text.clear();
                }
            }
        }
        for refused in self.refused.values_mut() {
            if mine(refused.publisher) && refused.received_ms < before_ms {
                refused.client_id = None;
                refused.detail.clear();
                refused.request_id.clear();
            }
        }
    }
}

/// The proven ones and the others.
pub(crate) fn parts<'a>(facts: &[&'a Fact]) -> [Vec<&'a Fact>; 2] {
    let (proven, unproven) = facts.iter().partition(|fact| !fact.operator.is_empty());
    [proven, unproven]
}

/// The text of the newest; of equally new ones the greatest.
pub(crate) fn newest<'a>(facts: &[&'a Fact], text: impl Fn(&'a Fact) -> &'a str) -> &'a str {
    let reported = facts.iter().map(|fact| (fact.timestamp_ms, text(fact)));
    reported.max().map_or("", |(_, text)| text)
}

pub(crate) fn grouped<'a, K: Ord>(facts: &[&'a Fact], key: impl Fn(&'a Fact) -> K) -> BTreeMap<K, Vec<&'a Fact>> {
    let mut groups = BTreeMap::<K, Vec<&Fact>>::new();
    for fact in facts {
        groups.entry(key(fact)).or_default().push(fact);
    }
    groups
}

/// The largest first, equal ones in the order of their key.
pub(crate) fn largest<K: Ord + Clone>(groups: BTreeMap<K, Vec<&Fact>>, most: usize) -> Vec<(K, Vec<&Fact>)> {
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, facts)| (std::cmp::Reverse(facts.len()), key.clone()));
    groups.truncate(most);
    groups
}

/// A client: its ID and key.
pub(crate) fn client(fact: &Fact) -> (Uuid, [u8; 32]) {
    (fact.client_id, fact.key)
}

pub(crate) fn distinct<K: Ord>(facts: &[&Fact], key: impl Fn(&Fact) -> K) -> u64 {
    facts.iter().map(|fact| key(fact)).collect::<BTreeSet<_>>().len() as u64
}

//! Selection of a query: random parameters, and the receipts one by one.

use jiff::civil::Date;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use uuid::Uuid;

use crate::calendar::{at, first_instant, local_text, utc_text};
use crate::making::{Maker, PURPOSES, ZONES, any_client, any_entry, any_key, any_model, any_operator, zone};
use crate::model::{Fact, Model, Refused};
use crate::world::Reader;

const BEFORE_VERIFICATION: [&str; 3] = ["exclude", "include", "only"];
const TRUSTS: [&str; 3] = ["proven", "unproven", "all"];

/// An instant, and how the query writes it.
#[derive(Debug, Clone)]
pub(crate) struct Instant {
    pub(crate) ms: i64,
    text: String,
}

/// The parameters that most endpoints share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) from: Option<Instant>,
    pub(crate) to: Option<Instant>,
    pub(crate) tz: Option<&'static str>,
    pub(crate) purpose: Members<&'static str>,
    pub(crate) client: Members<Uuid>,
    pub(crate) entry: Members<Uuid>,
    pub(crate) model: Members<&'static str>,
    /// `proven`, `unproven` or `all`.
    pub(crate) trust: Option<&'static str>,
    /// As the query writes it, and the domain.
    pub(crate) operator: Members<(&'static str, &'static str)>,
    pub(crate) key: Members<[u8; 32]>,
    /// `exclude`, `include` or `only`.
    pub(crate) before_verification: Option<&'static str>,
    pub(crate) domain: Option<&'static str>,
}

/// Values that receipts must have one of, or none of; any if there are none.
#[derive(Debug, Clone)]
pub(crate) struct Members<T> {
    values: Vec<T>,
    is_negated: bool,
}

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            is_negated: false,
        }
    }
}

impl<T> Members<T> {
    fn any(rng: &mut StdRng, probability: f64, value: impl Fn(&mut StdRng) -> T) -> Self {
        let count = if rng.random_bool(probability) {
            rng.random_range(1..=3)
        } else {
            0
        };
        Self {
            is_negated: rng.random_bool(0.3),
            values: (0..count).map(|_| value(rng)).collect(),
        }
    }

    fn pass(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.values.is_empty() || self.values.iter().any(is_it) != self.is_negated
    }

    fn query(&self, name: &'static str, text: impl Fn(&T) -> String) -> (&'static str, Option<String>) {
        let mark = if self.is_negated { "!" } else { "" };
        let pairs = self.values.iter().map(|value| format!("{name}{mark}={}", text(value)));
        let pairs: Vec<String> = pairs.collect();
        (name, Some(pairs.join("&")).filter(|pairs| !pairs.is_empty()))
    }
}

impl Instant {
    /// `ms` in any of its forms, or the beginning of its date in `tz`.
    pub(crate) fn any(rng: &mut StdRng, ms: i64, tz: &'static str) -> Self {
        let zone_of = zone(tz);
        match rng.random_range(0..4) {
            0 => {
                let date: Date = at(ms).to_zoned(zone_of.clone()).date();
                Self {
                    ms: first_instant(date, &zone_of),
                    text: date.to_string(),
                }
            }
            1 => Self {
                ms,
                text: local_text(ms, &zone_of).replace('+', "%2B"),
            },
            _ => Self { ms, text: utc_text(ms) },
        }
    }
}

impl Selection {
    /// With `from` and `to` as they may be: open, in order, and never equal.
    pub(crate) fn any(rng: &mut StdRng, maker: &Maker, reader: &Reader) -> Self {
        let tz = rng.random_bool(0.7).then(|| *ZONES.choose(rng).unwrap());
        let (one_ms, other_ms) = (maker.any_time(rng), maker.any_time(rng));
        let mut one = Instant::any(rng, one_ms, tz.unwrap_or("UTC"));
        let mut other = Instant::any(rng, other_ms, tz.unwrap_or("UTC"));
        if one.ms > other.ms {
            std::mem::swap(&mut one, &mut other);
        }
        if one.ms == other.ms {
            other = Instant {
                ms: one.ms + 1,
                text: utc_text(one.ms + 1),
            };
        }
        Self {
            from: rng.random_bool(0.7).then_some(one),
            to: rng.random_bool(0.7).then_some(other),
            tz,
            purpose: Members::any(rng, 0.2, |rng| *PURPOSES.choose(rng).unwrap()),
            client: Members::any(rng, 0.2, any_client),
            entry: Members::any(rng, 0.2, any_entry),
            model: Members::any(rng, 0.2, any_model),
            trust: rng.random_bool(0.2).then(|| *TRUSTS.choose(rng).unwrap()),
            operator: Members::any(rng, 0.1, any_operator),
            key: Members::any(rng, 0.1, any_key),
            before_verification: rng.random_bool(0.3).then(|| *BEFORE_VERIFICATION.choose(rng).unwrap()),
            domain: None,
        }
        .within(rng, reader)
    }

    fn within(mut self, rng: &mut StdRng, reader: &Reader) -> Self {
        if rng.random_bool(0.2) {
            let seen: Vec<&'static str> = crate::making::PUBLISHERS
                .into_iter()
                .filter(|name| reader.sees(name))
                .collect();
            self.domain = seen.choose(rng).copied();
        }
        self
    }

    /// `name=value` of each parameter among `names`.
    pub(crate) fn query(&self, names: &[&str]) -> Vec<String> {
        let text = |instant: &Option<Instant>| instant.as_ref().map(|instant| instant.text.clone());
        let one = |name: &'static str, value: Option<String>| (name, value.map(|value| format!("{name}={value}")));
        let all = [
            one("from", text(&self.from)),
            one("to", text(&self.to)),
            one("tz", self.tz.map(str::to_owned)),
            self.purpose.query("purpose", |purpose| (*purpose).to_owned()),
            self.client.query("clientId", Uuid::to_string),
            self.entry.query("entryId", Uuid::to_string),
            self.model.query("modelId", |model| escaped(model)),
            one("trust", self.trust.map(str::to_owned)),
            self.operator.query("operator", |(written, _)| escaped(written)),
            self.key.query("keyFingerprint", |key| hex(key)),
            one("beforeVerification", self.before_verification.map(str::to_owned)),
            one("domain", self.domain.map(str::to_owned)),
        ];
        let given = all.into_iter().filter(|(name, _)| names.contains(name));
        given.filter_map(|(_, text)| text).collect()
    }

    /// Selection without the parameters that an endpoint doesn't have.
    pub(crate) fn only(&self, names: &[&str]) -> Self {
        let mut only = self.clone();
        let has = |name: &str| names.contains(&name);
        if !has("purpose") {
            only.purpose = Members::default();
        }
        if !has("clientId") {
            only.client = Members::default();
        }
        if !has("entryId") {
            only.entry = Members::default();
        }
        if !has("modelId") {
            only.model = Members::default();
        }
        if !has("trust") {
            only.trust = None;
        }
        if !has("operator") {
            only.operator = Members::default();
        }
        if !has("keyFingerprint") {
            only.key = Members::default();
        }
        if !has("beforeVerification") {
            only.before_verification = None;
        }
        only
    }

    pub(crate) fn start_ms(&self) -> i64 {
        self.from.as_ref().map_or(i64::MIN, |instant| instant.ms)
    }

    pub(crate) fn end_ms(&self) -> i64 {
        self.to.as_ref().map_or(i64::MAX, |instant| instant.ms)
    }

    /// `from` and `to` as they are answered.
    pub(crate) fn range_texts(&self) -> (Option<String>, Option<String>) {
        let text = |instant: &Option<Instant>| instant.as_ref().map(|instant| utc_text(instant.ms));
        (text(&self.from), text(&self.to))
    }

    pub(crate) fn has_domain(&self, reader: &Reader, publisher: &str) -> bool {
        let is_within = |domain: &str| {
            let labels = publisher.strip_suffix(domain);
            labels.is_some_and(|labels| labels.is_empty() || labels.ends_with('.'))
        };
        reader.sees(publisher) && self.domain.is_none_or(is_within)
    }

    pub(crate) fn has(&self, reader: &Reader, fact: &Fact) -> bool {
        self.has_domain(reader, fact.publisher)
            && self.purpose.pass(|purpose| *purpose == fact.purpose)
            && self.client.pass(|id| *id == fact.client_id)
            && self.entry.pass(|id| *id == fact.entry_id)
            && self.model.pass(|model| *model == fact.model_id)
            && match self.trust {
                Some("proven") => !fact.operator.is_empty(),
                Some("unproven") => fact.operator.is_empty(),
                _ => true,
            }
            && self.operator.pass(|(_, operator)| *operator == fact.operator)
            && self.key.pass(|key| *key == fact.key)
            && match self.before_verification {
                Some("include") => true,
                Some("only") => !fact.publisher_verified,
                _ => fact.publisher_verified,
            }
    }

    /// All its receipts with times in `[from_ms, to_ms)`.
    pub(crate) fn facts<'a>(&self, model: &'a Model, reader: &Reader, from_ms: i64, to_ms: i64) -> Vec<&'a Fact> {
        let facts = model.receipts().map(|stored| &stored.fact);
        facts
            .filter(|fact| from_ms <= fact.timestamp_ms && fact.timestamp_ms < to_ms && self.has(reader, fact))
            .collect()
    }

    /// Receipts of the selection.
    pub(crate) fn matching<'a>(&self, model: &'a Model, reader: &Reader) -> Vec<&'a Fact> {
        self.facts(model, reader, self.start_ms(), self.end_ms())
    }

    /// The selection with another choice of `beforeVerification`.
    pub(crate) fn with_before_verification(&self, choice: &'static str) -> Self {
        Self {
            before_verification: Some(choice),
            ..self.clone()
        }
    }

    /// Rejections of the selection, by their arrival.
    pub(crate) fn refused<'a>(&self, model: &'a Model, reader: &Reader) -> Vec<&'a Refused> {
        let within = |refused: &&Refused| {
            self.start_ms() <= refused.received_ms
                && refused.received_ms < self.end_ms()
                && self.has_domain(reader, refused.publisher)
        };
        model.refused().filter(within).collect()
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value of a query string.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

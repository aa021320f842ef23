//! Scope of queries.

use crate::SqlStatement;

/// Domains whose subdomains one condition finds by ranges of the primary key, one for each domain.
const BELOW_MAX: usize = 16;

/// Scope of a query: the domains that an account speaks for. Empty means nothing is
/// seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct QueryScope {
    /// Domains in lower case.
    pub publishers: Vec<String>,
    /// Domains whose subdomains are meant too.
    pub below: Vec<Below>,
}

/// All subdomains of a domain, but for some.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Below {
    /// The domain, in lower case; itself not meant.
    pub parent: String,
    /// Subdomains of it that aren't meant, nor anything below them.
    pub except: Vec<String>,
}

impl QueryScope {
    /// Scope of these domains, and no subdomains.
    #[must_use]
    pub fn of(publishers: Vec<String>) -> Self {
        Self {
            publishers,
            below: Vec::new(),
        }
    }

    /// Whether nothing is meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.publishers.is_empty() && self.below.is_empty()
    }

    /// A condition over `publisher`, which [`bind`](Self::bind) fills. The primary keys have the
    /// reversed name, so that a domain's subdomains are one range of them.
    #[must_use]
    pub fn condition(&self) -> String {
        let key = if self.below.len() <= BELOW_MAX {
            let below = (0..self.below.len())
                .map(|number| format!(" OR startsWith(reverse(publisher), {{below_{number}:String}})"));
            format!(
                "(reverse(publisher) IN {{reversed:Array(String)}}{})",
                below.collect::<String>()
            )
        } else {
            "reverse(publisher) >= {reversed_min:String} AND reverse(publisher) <= {reversed_max:String}".to_owned()
        };
        if self.is_exact_by_key() {
            return key;
        }
        format!(
            "{key} AND (publisher IN {{publishers:Array(String)}} OR arrayExists(
                parent -> endsWith(publisher, concat('.', parent)) AND NOT arrayExists(
                    (of, other) -> of = parent AND (publisher = other OR endsWith(publisher, concat('.', other))),
                    {{others_of:Array(String)}}, {{others:Array(String)}}),
                {{parents:Array(String)}}))"
        )
    }

    /// Whether ranges of the primary key have what is meant and nothing else.
    fn is_exact_by_key(&self) -> bool {
        self.below.len() <= BELOW_MAX && self.below.iter().all(|below| below.except.is_empty())
    }

    /// A call with the parameters of [`condition`](Self::condition) bound.
    #[must_use]
    pub fn bind(&self, mut call: SqlStatement) -> SqlStatement {
        if !self.is_exact_by_key() {
            call = self.bind_members(call);
        }
        let reversed = self.publishers.iter().map(|name| reversed_name(name));
        let below = self
            .below
            .iter()
            .map(|below| format!("{}.", reversed_name(&below.parent)));
        if self.below.len() > BELOW_MAX {
            // `~` is behind all bytes of names.
            let last = below.clone().map(|name| name + "~").chain(reversed.clone()).max();
            let first = below.chain(reversed).min();
            return call
                .with("reversed_min", first.unwrap_or_default())
                .with("reversed_max", last.unwrap_or_default());
        }
        for (number, name) in below.enumerate() {
            call = call.with(format!("below_{number}"), name);
        }
        call.with("reversed", reversed.collect::<Vec<_>>())
    }

    /// A call with `publishers`, `parents`, `others_of` and `others` bound: the domains, those
    /// whose subdomains are meant, and pairs of such a domain and an exception below it.
    #[must_use]
    pub fn bind_members(&self, call: SqlStatement) -> SqlStatement {
        let others = || {
            let of = |below: &Below| {
                below
                    .except
                    .iter()
                    .map(|other| (below.parent.clone(), other.clone()))
                    .collect::<Vec<_>>()
            };
            self.below.iter().flat_map(of)
        };
        let parents: Vec<String> = self.below.iter().map(|below| below.parent.clone()).collect();
        call.with("publishers", self.publishers.clone())
            .with("parents", parents)
            .with("others_of", others().map(|(parent, _)| parent).collect::<Vec<_>>())
            .with("others", others().map(|(_, other)| other).collect::<Vec<_>>())
    }
}

/// A publisher's name, which is ASCII, as the primary keys have it: `reverse(publisher)`.
pub(crate) fn reversed_name(publisher: &str) -> String {
    publisher.chars().rev().collect()
}

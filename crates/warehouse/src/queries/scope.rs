//! Scope of queries.

use crate::SqlStatement;

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

    /// A condition over `publisher`, which [`bind`](Self::bind) fills. Without subdomains it is
    /// over the beginning of the primary key; with them the column is read, which ClickHouse does
    /// before any other.
    #[must_use]
    pub fn condition(&self) -> &'static str {
        if self.below.is_empty() {
            return "publisher IN {publishers:Array(String)}";
        }
        "(publisher IN {publishers:Array(String)} OR arrayExists(
            parent -> endsWith(publisher, concat('.', parent)) AND NOT arrayExists(
                (of, other) -> of = parent AND (publisher = other OR endsWith(publisher, concat('.', other))),
                {others_of:Array(String)}, {others:Array(String)}),
            {parents:Array(String)}))"
    }

    /// A call with the parameters of [`condition`](Self::condition) bound.
    #[must_use]
    pub fn bind(&self, call: SqlStatement) -> SqlStatement {
        if self.below.is_empty() {
            return call.with("publishers", self.publishers.clone());
        }
        self.bind_members(call)
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

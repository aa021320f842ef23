//! Names that an account speaks for: its verified domains, and the subdomains of those that
//! include theirs.

use serde::{Deserialize, Serialize};

/// The domains of its account that a key is limited to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyDomains {
    /// The domains, lower-case, in order, verified or not.
    pub domains: Vec<String>,
    /// Domains of the account below them that the key isn't for.
    pub except: Vec<String>,
}

impl KeyDomains {
    /// Whether the key may act on `name`, a host in lower case: one of its domains, or below one of
    /// them, and not on another of the account's that is nearer. Whether that one is verified
    /// doesn't matter here.
    #[must_use]
    pub fn allow(&self, name: &str) -> bool {
        let within = |domain: &str| name == domain || is_below(name, domain);
        let allows = |domain: &String| within(domain) && !self.except_below(domain).any(|other| within(other));
        self.domains.iter().any(allows)
    }

    /// Domains below one of `domains` that the key isn't for.
    pub(crate) fn except_below(&self, domain: &str) -> impl Iterator<Item = &String> {
        self.except.iter().filter(move |other| is_below(other, domain))
    }
}

/// A verified domain whose subdomains are covered with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// The domain, lower-case. It is in [`Principal::domains`](crate::Principal::domains) too.
    pub parent: String,
    /// Subdomains of it that another account has verified: they, and everything below them, aren't
    /// covered.
    pub except: Vec<String>,
}

impl Inherited {
    /// Whether `name`, in lower case, is a covered subdomain. The parent itself isn't one.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        is_below(name, &self.parent) && !self.except.iter().any(|other| name == other || is_below(name, other))
    }
}

/// Whether `name` is a subdomain of `parent`, at any depth.
pub(crate) fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent)
        .and_then(|rest| rest.strip_suffix('.'))
        .is_some_and(|labels| !labels.is_empty())
}

/// The names above `domain` that have a dot themselves, nearest first: `a.b.example.com` is below
/// `b.example.com` and `example.com`.
pub(crate) fn ancestors(domain: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(domain), |name| name.split_once('.').map(|(_, rest)| rest))
        .skip(1)
        .filter(|name| name.contains('.'))
}

/// `domain` and [`ancestors`] of it.
pub(crate) fn own_and_ancestors(domain: &str) -> impl Iterator<Item = &str> {
    std::iter::once(domain).chain(ancestors(domain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Principal;
    use crate::Tier;

    #[test]
    fn subdomains_are_covered_but_for_those_of_others() {
        let principal = Principal {
            account_id: String::new(),
            actor: crate::TrailActor::Key(String::new()),
            tier: Tier::Free,
            quota: None,
            scopes: Vec::new(),
            domains: vec![
                "example.com".to_owned(),
                "example.org".to_owned(),
                "own.blog.example.com".to_owned(),
            ],
            limit: None,
            trusted_operators: Vec::new(),
            inherited: vec![
                Inherited {
                    parent: "example.com".to_owned(),
                    except: vec!["blog.example.com".to_owned()],
                },
                Inherited {
                    parent: "own.blog.example.com".to_owned(),
                    except: Vec::new(),
                },
            ],
        };
        for (name, covered) in [
            ("example.com", true),
            ("News.Example.com", true),
            ("a.b.example.com", true),
            ("blog.example.com", false),
            ("a.blog.example.com", false),
            ("myblog.example.com", true),
            ("own.blog.example.com", true),
            ("a.own.blog.example.com", true),
            ("badexample.com", false),
            (".example.com", false),
            ("example.org", true),
            ("www.example.org", false),
            ("com", false),
            ("", false),
        ] {
            assert_eq!(principal.covers(name), covered, "{name}");
        }
        for (name, parent) in [
            ("a.b.Example.com", Some("example.com")),
            ("a.own.blog.example.com", Some("own.blog.example.com")),
            ("a.blog.example.com", None),
            ("example.com", None),
        ] {
            assert_eq!(principal.inherits(name), parent, "{name}");
        }
    }

    #[test]
    fn a_limited_key_acts_on_its_domains_and_below_but_not_on_other_domains_there() {
        let limit = KeyDomains {
            domains: vec!["example.com".to_owned(), "vip.shop.example.com".to_owned()],
            except: vec!["shop.example.com".to_owned()],
        };
        for (name, allowed) in [
            // The nearest domain decides.
            ("vip.shop.example.com", true),
            ("a.vip.shop.example.com", true),
            ("example.com", true),
            ("a.example.com", true),
            ("shop.example.com", false),
            ("a.shop.example.com", false),
            ("myshop.example.com", true),
            ("badexample.com", false),
            ("com", false),
        ] {
            assert_eq!(limit.allow(name), allowed, "{name}");
        }
    }

    #[test]
    fn ancestors_have_a_dot() {
        let all = |domain| ancestors(domain).collect::<Vec<_>>();
        assert_eq!(all("a.b.example.com"), ["b.example.com", "example.com"]);
        assert_eq!(all("example.com"), [""; 0]);
    }
}

//! Receipts that a caller may see.

use std::sync::Arc;

use accounts::{Inherited, Principal};
use axum::extract::FromRequestParts;
use http::request::Parts;
use service::problem::Kind;
use warehouse::{Below, QueryScope};
use web::Failure;
use web::params::{Params, shortened};

/// A caller who may see something: at least one verified domain. Taken from the principal that
/// [`web::access::api_key`] leaves.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    principal: Arc<Principal>,
}

impl Access {
    /// The caller.
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The key's account.
    pub(crate) fn account_id(&self) -> &str {
        &self.principal.account_id
    }

    /// The domains a query is about: all that the key's account speaks for, inherited subdomains
    /// included, or the one that `domain` names, with those of its subdomains that belong to no
    /// other domain.
    ///
    /// # Errors
    /// 403 if the account doesn't speak for `domain`, whether it exists or not.
    pub(crate) fn scope(&self, params: &Params) -> Result<QueryScope, Failure> {
        let Some(domain) = params.get("domain") else {
            return Ok(self.whole());
        };
        let domain = domain.to_ascii_lowercase();
        if !self.principal.covers(&domain) {
            let domain = shortened(&domain);
            return Err(if self.principal.may_act_on(&domain) {
                let detail = format!("{domain} is not a verified domain of your account");
                Failure::new(Kind::DomainNotVerified, detail)
            } else {
                let detail = format!(
                    "this API key isn't for {domain}: use a key that is for it, or one without a limit, or leave `domain` out"
                );
                Failure::new(Kind::KeyDomains, detail)
            });
        }
        Ok(self.of_domain(domain))
    }

    fn of_domain(&self, domain: String) -> QueryScope {
        let Principal { domains, inherited, .. } = &*self.principal;
        let inherited = inherited.iter().find(|one| one.parent == domain || one.covers(&domain));
        let below = inherited.map(|inherited| {
            let all = Inherited {
                parent: domain.clone(),
                except: Vec::new(),
            };
            let others = inherited.except.iter().chain(domains);
            Below {
                except: others.filter(|name| all.covers(name)).cloned().collect(),
                parent: domain.clone(),
            }
        });
        QueryScope {
            publishers: vec![domain],
            below: below.into_iter().collect(),
        }
    }

    /// Operators whose receipts the account counts as proven; all of them if there are none.
    pub(crate) fn trusted(&self) -> &[String] {
        &self.principal.trusted_operators
    }

    /// All that the key's account speaks for.
    pub(crate) fn whole(&self) -> QueryScope {
        let below = self.principal.inherited.iter().map(|inherited| Below {
            parent: inherited.parent.clone(),
            except: inherited.except.clone(),
        });
        QueryScope {
            publishers: self.principal.domains.clone(),
            below: below.collect(),
        }
    }

    /// The caller that a principal is.
    ///
    /// # Errors
    /// 403 if it has no verified domain.
    pub(crate) fn of(principal: &Arc<Principal>) -> Result<Self, Failure> {
        if principal.domains.is_empty() {
            let detail = match principal.limit {
                None => "your account has no verified domain",
                Some(_) => {
                    "none of the domains that this API key is limited to is verified: verify one, or use another key"
                }
            };
            return Err(Failure::new(Kind::NoVerifiedDomain, detail));
        }
        Ok(Self {
            principal: Arc::clone(principal),
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Access {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        match parts.extensions.get::<Arc<Principal>>() {
            Some(principal) => Self::of(principal),
            // Every address with a key has the layer.
            None => Err(Failure::internal()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_limited_key_learns_its_limit() {
        let principal = Principal {
            account_id: "acc_1".to_owned(),
            actor: accounts::TrailActor::Key("1".to_owned()),
            tier: accounts::Tier::Free,
            quota: None,
            scopes: vec![accounts::Scope::Read],
            domains: vec!["a.example".to_owned()],
            inherited: Vec::new(),
            trusted_operators: Vec::new(),
            limit: Some(accounts::KeyDomains {
                domains: vec!["a.example".to_owned(), "ended.example".to_owned()],
                except: Vec::new(),
            }),
        };
        let access = Access::of(&Arc::new(principal.clone())).unwrap();
        assert_eq!(access.whole().publishers, ["a.example"]);
        let kind = |domain: &str| {
            let uri = format!("/x?domain={domain}").parse().unwrap();
            access
                .scope(&Params::parse(&uri, &["domain"]).unwrap())
                .unwrap_err()
                .0
                .kind
        };
        assert_eq!(kind("b.example"), Kind::KeyDomains);
        assert_eq!(kind("ended.example"), Kind::DomainNotVerified);
        let none = Principal {
            domains: Vec::new(),
            ..principal
        };
        let refused = Access::of(&Arc::new(none)).unwrap_err();
        assert_eq!(refused.0.kind, Kind::NoVerifiedDomain);
    }

    #[test]
    fn a_domain_narrows_and_a_foreign_one_is_refused() {
        let principal = Principal {
            account_id: "acc_1".to_owned(),
            actor: accounts::TrailActor::Key("1".to_owned()),
            tier: accounts::Tier::Free,
            quota: None,
            scopes: vec![accounts::Scope::Read],
            domains: ["a.example", "b.example", "own.b.example"].map(str::to_owned).to_vec(),
            limit: None,
            trusted_operators: Vec::new(),
            inherited: vec![accounts::Inherited {
                parent: "b.example".to_owned(),
                except: vec!["x.b.example".to_owned()],
            }],
        };
        let access = Access::of(&Arc::new(principal)).unwrap();
        let params = |query: &str| Params::parse(&format!("/x?{query}").parse().unwrap(), &["domain"]).unwrap();
        let all = access.scope(&params("")).unwrap();
        assert_eq!(all.publishers, ["a.example", "b.example", "own.b.example"]);
        let below = Below {
            parent: "b.example".to_owned(),
            except: vec!["x.b.example".to_owned()],
        };
        assert_eq!(all.below, [below]);
        assert_eq!(
            access.scope(&params("domain=B.example")).unwrap().publishers,
            ["b.example"]
        );
        let below = |parent: &str, except: &[&str]| Below {
            parent: parent.to_owned(),
            except: except.iter().map(ToString::to_string).collect(),
        };
        for (domain, expected) in [
            ("a.example", vec![]),
            ("b.example", vec![below("b.example", &["x.b.example", "own.b.example"])]),
            ("news.b.example", vec![below("news.b.example", &[])]),
            ("own.b.example", vec![below("own.b.example", &[])]),
        ] {
            let scope = access.scope(&params(&format!("domain={domain}"))).unwrap();
            assert_eq!((scope.publishers, scope.below), (vec![domain.to_owned()], expected));
        }
        for foreign in ["c.example", "x.b.example", "y.x.b.example", "news.a.example", "example"] {
            let refused = access.scope(&params(&format!("domain={foreign}"))).unwrap_err();
            assert_eq!(refused.0.kind, Kind::DomainNotVerified, "{foreign}");
        }
    }
}

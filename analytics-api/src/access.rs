//! Whose receipts a caller may see.

use std::sync::Arc;

use accounts::Principal;
use axum::extract::FromRequestParts;
use http::request::Parts;
use service::problem::Kind;
use warehouse::Scope;
use web::Failure;
use web::params::{Params, shortened};

/// A caller who may see something: at least one verified domain. Taken from the principal that [`web::access::api_key`] leaves.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// In lower case.
    domains: Arc<[String]>,
}

impl Access {
    /// The domains a query is about: all of the key's, or the one that `domain` names.
    ///
    /// # Errors
    /// 403 if `domain` isn't one of the key's, whether it exists or not.
    pub(crate) fn scope(&self, params: &Params) -> Result<Scope, Failure> {
        let Some(domain) = params.get("domain") else {
            return Ok(Scope {
                publishers: self.domains.to_vec(),
            });
        };
        let domain = domain.to_ascii_lowercase();
        if !self.domains.contains(&domain) {
            let detail = format!(
                "{} is not a verified domain of this API key's account",
                shortened(&domain)
            );
            return Err(Failure::new(Kind::DomainNotVerified, detail));
        }
        Ok(Scope {
            publishers: vec![domain],
        })
    }

    fn of(principal: &Principal) -> Result<Self, Failure> {
        let domains: Arc<[String]> = principal
            .domains
            .iter()
            .map(|domain| domain.to_ascii_lowercase())
            .collect();
        if domains.is_empty() {
            let detail = "the account of this API key has no verified domain";
            return Err(Failure::new(Kind::DomainNotVerified, detail));
        }
        Ok(Self { domains })
    }
}

impl<S: Sync> FromRequestParts<S> for Access {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        match parts.extensions.get::<Arc<Principal>>() {
            Some(principal) => Self::of(principal),
            // Every address with a key has the layer.
            None => Err(Failure::new(
                Kind::Internal,
                "the request id finds the cause in the log",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_domain_narrows_and_a_foreign_one_is_refused() {
        let access = Access {
            domains: ["a.example".to_owned(), "b.example".to_owned()].into(),
        };
        let params = |query: &str| Params::parse(&format!("/x?{query}").parse().unwrap(), &["domain"]).unwrap();
        assert_eq!(
            access.scope(&params("")).unwrap().publishers,
            ["a.example", "b.example"]
        );
        assert_eq!(
            access.scope(&params("domain=B.example")).unwrap().publishers,
            ["b.example"]
        );
        let refused = access.scope(&params("domain=c.example")).unwrap_err();
        assert_eq!(refused.0.kind, Kind::DomainNotVerified);
    }
}

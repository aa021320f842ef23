//! Bodies under `/api/v1/verification`.

use std::collections::BTreeMap;

use accounts::{Challenge, Domain, IssuedChallenge, Verification, VerificationMethod};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use web::rfc3339_ms;

use crate::verification::{self, Look, ProofOutcome, Record};

/// A request for a token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GenerateBody {
    /// A domain, or up to 20 separated by commas.
    #[schema(min_length = 1, max_length = 5200, example = "example.com")]
    pub(super) domain: String,
    /// Place in which you will publish the token; `dns` if it isn't given.
    #[schema(value_type = Option<Method>)]
    pub(super) method: Option<VerificationMethod>,
    /// Whether its subdomains are to be yours too, but for those that another account verifies. If
    /// it isn't given: `true`, and `false` for a public suffix.
    pub(super) include_subdomains: Option<bool>,
}

/// A request for a renewal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RenewBody {
    /// A domain of yours, or up to 20 separated by commas.
    #[schema(min_length = 1, max_length = 5200, example = "example.com")]
    pub(super) domain: String,
    /// Place in which you will publish the token; that of the last one if it isn't given.
    #[schema(value_type = Option<Method>)]
    pub(super) method: Option<VerificationMethod>,
    /// Whether its subdomains are to be yours too; as it is if it isn't given.
    pub(super) include_subdomains: Option<bool>,
}

/// Place in which a token is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Method {
    Dns,
    Https,
    Meta,
}

/// Record to publish.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerateAnswer {
    /// `service-verification=` and 64 digits. A secret until it is published; it isn't shown again.
    pub(super) token: String,
    pub(super) method: Method,
    pub(super) record: Record,
    /// Every domain's, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) domains: Vec<IssuedToken>,
}

/// Token of a domain.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct IssuedToken {
    pub(super) domain: String,
    pub(super) token: String,
    pub(super) method: Method,
    pub(super) record: Record,
}

impl IssuedToken {
    pub(super) fn new(issued: IssuedChallenge, now_ms: i64) -> Self {
        let challenge = issued.challenge;
        let domain = challenge.domain.to_string();
        Self {
            record: verification::record(&domain, challenge.method, &issued.token, now_ms),
            domain,
            method: challenge.method.into(),
            token: issued.token,
        }
    }
}

/// Check of a domain, or of several.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum CheckAnswer {
    One(Box<DomainCheck>),
    Many {
        /// Whether all of them are.
        verified: bool,
        /// Names of the domains, separated by commas.
        domain: String,
        domains: Vec<DomainCheck>,
    },
}

/// State of a domain after a check.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DomainCheck {
    pub(super) verified: bool,
    pub(super) domain: String,
    /// `dns`, `https`, `meta`, or `local`: by the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(super) verified_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(super) expires_at: Option<String>,
    /// `ver_` and what makes it one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verification_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) include_subdomains: Option<bool>,
    /// The verified domain of yours that includes this subdomain. The other members are its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inherited_from: Option<String>,
    /// Why it isn't verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Unproven>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<&'static str>,
    /// Attempts that found no open token. Of a verified domain: what its renewal
    /// waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) attempts: Vec<Attempt>,
}

/// Why a domain isn't verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unproven {
    /// No token to look for.
    NoToken,
    /// No open token was found.
    NotFound,
    /// The location couldn't be reached now.
    Unreachable,
    /// An open token waits, and this request doesn't look for it.
    NotChecked,
    /// The published proof was missing several times, and still is.
    Suspended,
}

impl DomainCheck {
    pub(super) fn verified(verification: &Verification) -> Self {
        Self {
            verified: true,
            domain: verification.domain.clone(),
            method: Some(verification.method.clone()),
            verified_at: Some(rfc3339_ms(verification.verified_at_ms)),
            expires_at: Some(rfc3339_ms(verification.expires_at_ms)),
            verification_id: Some(verification.id.clone()),
            include_subdomains: Some(verification.include_subdomains),
            inherited_from: None,
            reason: None,
            detail: None,
            attempts: Vec::new(),
        }
    }

    /// A subdomain that a verification includes.
    pub(super) fn inherited(domain: &Domain, verification: &Verification) -> Self {
        Self {
            domain: domain.to_string(),
            inherited_from: Some(verification.domain.clone()),
            ..Self::verified(verification)
        }
    }

    pub(super) fn unproven(domain: &Domain, reason: Unproven) -> Self {
        Self {
            verified: false,
            domain: domain.to_string(),
            method: None,
            verified_at: None,
            expires_at: None,
            verification_id: None,
            include_subdomains: None,
            inherited_from: None,
            reason: Some(reason),
            detail: Some(match reason {
                Unproven::NoToken => {
                    "no token of your account waits to be found: ask for one with POST /api/v1/verification/generate"
                }
                Unproven::NotFound => {
                    "no open token was found: attempts says what was expected, what was there, and what to change"
                }
                Unproven::Unreachable => "it couldn't be checked now: attempts says why",
                Unproven::NotChecked => {
                    "a token waits to be found, and this key may not look for it: check with a key that has the scope write too"
                }
                Unproven::Suspended => {
                    "the domain is suspended, as its proof wasn't found several times: publish its token again, or ask for a new one \
                     with POST /api/v1/verification/renew, and check it with a key that has the scope write"
                }
            }),
            attempts: Vec::new(),
        }
    }
}

/// Place that was checked, and its content.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempt {
    pub(super) method: Method,
    /// Record that was expected; `<token>` represents what generate answered.
    pub(super) expected: Record,
    pub(super) outcome: ProofOutcome,
    /// Content of the location, cut.
    pub(super) found: Vec<String>,
    /// Advice: what to change.
    pub(super) advice: String,
}

impl Attempt {
    pub(super) fn new(method: VerificationMethod, expected: Record, look: Look) -> Self {
        Self {
            method: method.into(),
            expected,
            outcome: look.outcome,
            found: look.found,
            advice: look.advice,
        }
    }
}

/// Every domain requested.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusAnswer {
    /// In order of their names.
    pub(super) domains: Vec<DomainStatus>,
    /// Whether the service can send mails about verifications that end; without, look here from
    /// time to time.
    pub(super) expiry_mails: bool,
}

/// State of a domain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DomainStatus {
    pub(super) domain: String,
    pub(super) status: Status,
    /// Why it is unverified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Unverified>,
    /// `dns`, `https`, `meta`, or `local`: by the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(super) verified_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(super) expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(super) revoked_at: Option<String>,
    /// Since when a suspended domain is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(super) suspended_at: Option<String>,
    /// Whether another account has proven the domain since you verified it: your published proof is
    /// checked every day.
    pub(super) contested: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verification_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) include_subdomains: Option<bool>,
    /// The verified domain of yours that includes this subdomain: its content is yours, whether or
    /// not it has a verification of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inherited_from: Option<String>,
    /// Tokens that wait to be found, newest first.
    pub(super) open_tokens: Vec<OpenToken>,
}

/// The states of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Verified,
    Unverified,
}

/// Why a domain is unverified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unverified {
    /// The domain wasn't verified yet.
    Pending,
    /// The verification's year is over.
    Expired,
    /// The domain was given back.
    Revoked,
    /// The published proof was missing several times.
    Suspended,
}

/// A token that waits; the token itself isn't retained.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenToken {
    pub(super) method: Method,
    #[schema(format = DateTime)]
    pub(super) created_at: String,
    #[schema(format = DateTime)]
    pub(super) expires_at: String,
}

impl DomainStatus {
    pub(super) fn of_all(verifications: Vec<Verification>, challenges: Vec<Challenge>, now_ms: i64) -> Vec<Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for verification in verifications {
            all.insert(verification.domain.clone(), Self::stored(verification, now_ms));
        }
        for challenge in challenges {
            let domain = challenge.domain.to_string();
            let status = all.entry(domain).or_insert_with_key(|domain| Self::pending(domain));
            status.open_tokens.push(OpenToken {
                method: challenge.method.into(),
                created_at: rfc3339_ms(challenge.created_at_ms),
                expires_at: rfc3339_ms(challenge.expires_at_ms),
            });
        }
        all.into_values().collect()
    }

    fn stored(verification: Verification, now_ms: i64) -> Self {
        let (status, reason) = match verification.revoked_at_ms {
            Some(_) => (Status::Unverified, Some(Unverified::Revoked)),
            None if verification.holds(now_ms) => (Status::Verified, None),
            None if verification.is_suspended(now_ms) => (Status::Unverified, Some(Unverified::Suspended)),
            None => (Status::Unverified, Some(Unverified::Expired)),
        };
        Self {
            domain: verification.domain,
            status,
            reason,
            method: Some(verification.method),
            verified_at: Some(rfc3339_ms(verification.verified_at_ms)),
            expires_at: Some(rfc3339_ms(
                verification
                    .suspended_expires_at_ms
                    .unwrap_or(verification.expires_at_ms),
            )),
            revoked_at: verification.revoked_at_ms.map(rfc3339_ms),
            suspended_at: verification
                .suspended_expires_at_ms
                .map(|_| rfc3339_ms(verification.expires_at_ms)),
            contested: verification.is_contested,
            verification_id: Some(verification.id),
            include_subdomains: Some(verification.include_subdomains),
            inherited_from: None,
            open_tokens: Vec::new(),
        }
    }

    fn pending(domain: &str) -> Self {
        Self {
            domain: domain.to_owned(),
            status: Status::Unverified,
            reason: Some(Unverified::Pending),
            method: None,
            verified_at: None,
            expires_at: None,
            revoked_at: None,
            suspended_at: None,
            contested: false,
            verification_id: None,
            include_subdomains: None,
            inherited_from: None,
            open_tokens: Vec::new(),
        }
    }

    /// A subdomain without a state of its own that a verification includes.
    pub(super) fn inherited(domain: &Domain, verification: Verification, now_ms: i64) -> Self {
        Self {
            domain: domain.to_string(),
            ..Self::stored(verification, now_ms)
        }
    }
}

impl From<VerificationMethod> for Method {
    fn from(method: VerificationMethod) -> Self {
        match method {
            VerificationMethod::Dns => Self::Dns,
            VerificationMethod::Https => Self::Https,
            VerificationMethod::Meta => Self::Meta,
        }
    }
}

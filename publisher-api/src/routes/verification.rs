//! `/api/v1/verification`: which domains are yours, and proving it.
//!
//! Asking for a token tells nothing about a domain: everybody gets one. Only who has published it
//! learns that another account holds the domain, and not which: the check is answered 409. A domain
//! that is someone else's is otherwise answered exactly as one that nobody has.

mod shape;

use std::sync::Arc;

use accounts::{
    Accounts, Challenge, ChallengeRequest, Domain, Principal, Proof, Scope, Verification, VerificationMethod,
    VerifyError,
};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use futures_util::future::{join_all, try_join_all};
use http::{Method as HttpMethod, StatusCode, Uri};
use service::problem::{Kind, Problem};
use service::rate_limit::Quota;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::params::{InvalidQuery, Params, shortened};
use web::{Failure, JsonBody};

use self::shape::{
    Attempt, CheckAnswer, DomainCheck, DomainStatus, GenerateAnswer, GenerateBody, IssuedToken, RenewBody,
    StatusAnswer, Unproven,
};
use super::key_domains;
use crate::state::PublisherState;
use crate::verification::{self, ProofOutcome};
use web::openapi::{BodyRefusals, ProblemBody, Refusals};

/// Domains of one request.
const DOMAINS_MAX: usize = 20;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(generate))
        .routes(routes!(check))
        .routes(routes!(status))
        .routes(routes!(renew))
        .routes(routes!(revoke))
}

/// Ask for a token
///
/// The token is shown once, and waits a week to be found. Earlier tokens of the domain stay good
/// beside it, the last five of them. Several domains, separated by commas, each get a token of
/// their own: `domains` has them all then, and the other members are the first one's.
#[utoipa::path(
    post, path = "/api/v1/verification/generate", tag = "verification", security(("apiKey" = [])),
    request_body = GenerateBody,
    responses(
        (status = 200, description = "What to publish", body = GenerateAnswer),
        (status = 409, description = "Too many tokens wait to be found", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn generate(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    JsonBody(body): JsonBody<GenerateBody>,
) -> Result<Json<GenerateAnswer>, Failure> {
    let domains = body_domains(&body.domain)?;
    allowed(&principal, &domains)?;
    let request = ChallengeRequest {
        account_id: &principal.account_id,
        actor: &principal.actor.to_string(),
        domains: &domains,
        method: body.method.unwrap_or(VerificationMethod::Dns),
        include_subdomains: body.include_subdomains,
    };
    answer(issue(&app, &request).await?)
}

/// Renew a verification
///
/// Rotates the token: publish the new one and check it, and the domain is verified for a year from
/// then. The verification there is continues until it ends. Method and subdomains stay as they are
/// unless they are given.
#[utoipa::path(
    post, path = "/api/v1/verification/renew", tag = "verification", security(("apiKey" = [])),
    request_body = RenewBody,
    responses(
        (status = 200, description = "What to publish", body = GenerateAnswer),
        (status = 404, description = "You have no such domain", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "Too many tokens wait to be found", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn renew(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    JsonBody(body): JsonBody<RenewBody>,
) -> Result<Json<GenerateAnswer>, Failure> {
    let domains = body_domains(&body.domain)?;
    allowed(&principal, &domains)?;
    let mut state = Vec::with_capacity(domains.len());
    for domain in &domains {
        let verification = app.deps.accounts.verification(&principal.account_id, domain).await?;
        state.push(verification.ok_or_else(|| unknown(domain))?);
    }
    let mut issued = Vec::with_capacity(domains.len());
    for (domain, verification) in domains.iter().zip(state) {
        let request = ChallengeRequest {
            account_id: &principal.account_id,
            actor: &principal.actor.to_string(),
            domains: std::slice::from_ref(domain),
            // What the operator vouched for has no method to repeat.
            method: body
                .method
                .or(verification.method.parse().ok())
                .unwrap_or(VerificationMethod::Dns),
            include_subdomains: Some(body.include_subdomains.unwrap_or(verification.include_subdomains)),
        };
        issued.extend(issue(&app, &request).await?);
    }
    answer(issued)
}

/// Look for the tokens
///
/// With a key that has the scopes `read` and `write`, looks where each open token of the domain
/// should be. What is found makes the domain yours for a year; where nothing is, the answer says
/// what was expected, what was there, and what to change. Without an open token the answer is
/// what is known. The published proof of a domain that is suspended is searched for too, and
/// finding it makes the domain yours as before. Several domains, separated by commas, are checked
/// side by side: `verified` is whether all are then, and `domains` has each of them.
///
/// A token that is found for a domain of another account, whose verification holds, is answered 409
/// `domain_held`. The other account's proof is checked every day from then on. Leave your token
/// published, and check again once you have a mail that the domain is free. Your token waits for
/// another week after each such check.
///
/// A key with the scope `read` alone, and a HEAD request, change nothing and send no request to the
/// domain: the answer is the stored state, and `not_checked` is the reason where an open token
/// waits.
#[utoipa::path(
    get, path = "/api/v1/verification/check", tag = "verification", security(("apiKey" = [])),
    params(("domain" = String, Query, description = "A domain, or up to 20 separated by commas", max_length = 5_200)),
    responses(
        (status = 200, description = "What was found", body = CheckAnswer),
        (status = 409, description = "Another account has verified a domain, or yours has 1,000 domains", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn check(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    method: HttpMethod,
    uri: Uri,
) -> Result<Json<CheckAnswer>, Failure> {
    let params = Params::parse(&uri, &["domain"])?;
    let domains = query_domains(&params)?.ok_or_else(|| InvalidQuery::new("domain", "name the domain to check"))?;
    allowed(&principal, &domains)?;
    let accounts = &app.deps.accounts;
    let state = domains
        .iter()
        .map(|domain| DomainState::read(accounts, &principal, domain));
    let state = try_join_all(state).await?;
    // A check changes what is stored, and sends requests: HEAD is safe (RFC 9110, 9.2.1), and so is
    // a key that may only read.
    let mut checks = if method == HttpMethod::HEAD || !principal.can(Scope::Write) {
        state.iter().map(|state| state.stored(accounts.now_ms())).collect()
    } else {
        let looks: usize = state.iter().map(|state| state.methods().len()).sum();
        take_looks(&app, &principal, looks).await?;
        // Each to its end: a domain that is another account's doesn't keep the others unverified.
        let checks = join_all(state.into_iter().map(|state| check_one(&app, &principal, state))).await;
        checks.into_iter().collect::<Result<Vec<_>, _>>()?
    };
    if checks.len() == 1 {
        return Ok(Json(CheckAnswer::One(Box::new(checks.remove(0)))));
    }
    Ok(Json(CheckAnswer::Many {
        verified: checks.iter().all(|check| check.verified),
        domain: domains.iter().map(Domain::as_str).collect::<Vec<_>>().join(","),
        domains: checks,
    }))
}

/// Get the states of your domains
///
/// Also those that wait for their first check, and those whose verification has ended.
#[utoipa::path(
    get, path = "/api/v1/verification/status", tag = "verification", security(("apiKey" = [])),
    params(("domain" = Option<String>, Query, description = "Only these, separated by commas, 20 at most", max_length = 5_200)),
    responses(
        (status = 200, description = "Each domain", body = StatusAnswer),
        (status = 404, description = "You have no such domain", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn status(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    uri: Uri,
) -> Result<Json<StatusAnswer>, Failure> {
    let params = Params::parse(&uri, &["domain"])?;
    let wanted = query_domains(&params)?;
    allowed(&principal, wanted.as_deref().unwrap_or_default())?;
    let accounts = &app.deps.accounts;
    let verifications = accounts.verifications(&principal.account_id).await?;
    let challenges = accounts.open_challenges(&principal.account_id, None).await?;
    let mut domains = DomainStatus::of_all(verifications, challenges, accounts.now_ms());
    domains.retain(|state| principal.may_act_on(&state.domain));
    if let Some(wanted) = wanted {
        domains.retain(|state| wanted.iter().any(|domain| domain.as_str() == state.domain));
        for domain in &wanted {
            if domains.iter().any(|state| state.domain == domain.as_str()) {
                continue;
            }
            let parent = inherited(accounts, &principal, domain).await?;
            let parent = parent.ok_or_else(|| unknown(domain))?;
            domains.push(DomainStatus::inherited(domain, parent, accounts.now_ms()));
        }
        domains.sort_unstable_by(|one, other| one.domain.cmp(&other.domain));
    }
    for state in &mut domains {
        state.inherited_from = principal.inherits(&state.domain).map(str::to_owned);
    }
    Ok(Json(StatusAnswer {
        domains,
        expiry_mails: app.sends_mails,
    }))
}

/// Give a domain back
///
/// The verification and the open tokens of the domain end at once, for every replica within
/// seconds.
#[utoipa::path(
    delete, path = "/api/v1/verification/{domain}", tag = "verification", security(("apiKey" = [])),
    params(("domain" = String, Path, description = "The domain")),
    responses(
        (status = 204, description = "It isn't yours any more"),
        (status = 404, description = "You have no such verified domain", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn revoke(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(domain): Path<String>,
) -> Result<StatusCode, Failure> {
    let domain: Domain = domain
        .parse()
        .map_err(|error: accounts::DomainError| Failure::new(Kind::BadRequest, error.to_string()))?;
    key_domains::allow(&principal, domain.as_str())?;
    let accounts = &app.deps.accounts;
    if accounts
        .revoke_verification(&principal.account_id, &principal.actor.to_string(), &domain)
        .await?
    {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(unknown(&domain))
}

async fn issue(app: &PublisherState, request: &ChallengeRequest<'_>) -> Result<Vec<IssuedToken>, Failure> {
    use accounts::AccountsError::{PublicSuffix, TooManyChallenges};
    let now_ms = app.deps.accounts.now_ms();
    match app.deps.accounts.create_challenges(request).await {
        Ok(issued) => Ok(issued.into_iter().map(|one| IssuedToken::new(one, now_ms)).collect()),
        Err(error @ PublicSuffix(_)) => {
            let what = error.to_string();
            let problem = Problem::new(Kind::InvalidBody, what.clone());
            Err(problem.fault("/includeSubdomains", "public_suffix", what).into())
        }
        Err(error @ TooManyChallenges) => Err(Failure::new(Kind::TooManyChallenges, error.to_string())),
        Err(error) => Err(error.into()),
    }
}

fn answer(issued: Vec<IssuedToken>) -> Result<Json<GenerateAnswer>, Failure> {
    let first = issued.first().cloned();
    let first = first.ok_or_else(|| Failure::new(Kind::Internal, "the account store made no token"))?;
    Ok(Json(GenerateAnswer {
        token: first.token,
        method: first.method,
        record: first.record,
        domains: if issued.len() > 1 { issued } else { Vec::new() },
    }))
}

/// Outbound work is counted by account, whichever of its keys asks.
pub(super) async fn take_looks(app: &PublisherState, principal: &Principal, looks: usize) -> Result<(), Failure> {
    if looks == 0 {
        return Ok(());
    }
    let quota = Quota {
        per_minute: app.config.looks_per_minute,
        per_day: None,
    };
    let cost = u32::try_from(looks).unwrap_or(u32::MAX);
    let decision = app
        .deps
        .limiter
        .take(&format!("looks:{}", principal.account_id), cost, &quota)
        .await;
    if decision.allowed {
        return Ok(());
    }
    let detail = format!(
        "an account may look for tokens {} times a minute, and this takes {looks}; try again in {} s",
        quota.per_minute, decision.retry_after_s
    );
    Err(Problem::new(Kind::RateLimited, detail)
        .retry_after_s(decision.retry_after_s)
        .into())
}

/// Stored state of an account's domain before a check.
struct DomainState<'a> {
    domain: &'a Domain,
    challenges: Vec<Challenge>,
    verification: Option<Verification>,
    /// The verification of a parent that includes the domain.
    inherited: Option<Verification>,
    /// The published proof, if finding it changes something: of a domain that is suspended, or
    /// about to be.
    proof: Option<Proof>,
}

impl<'a> DomainState<'a> {
    async fn read(accounts: &Accounts, principal: &Principal, domain: &'a Domain) -> Result<Self, Failure> {
        let account_id = principal.account_id.as_str();
        let verification = accounts.verification(account_id, domain).await?;
        let now_ms = accounts.now_ms();
        let is_in_doubt = verification
            .as_ref()
            .is_some_and(|state| state.is_suspended(now_ms) || state.proof_failures > 0);
        let proof = if is_in_doubt {
            accounts.proof(domain).await?
        } else {
            None
        };
        Ok(Self {
            domain,
            challenges: accounts.open_challenges(account_id, Some(domain)).await?,
            proof: proof.filter(|proof| proof.account_id == account_id),
            inherited: inherited(accounts, principal, domain).await?,
            verification,
        })
    }

    /// The locations to look at, each once.
    fn methods(&self) -> Vec<VerificationMethod> {
        let challenges = self.challenges.iter().map(|challenge| challenge.method);
        let mut methods: Vec<_> = challenges
            .chain(self.proof.as_ref().map(|proof| proof.method))
            .collect();
        methods.sort_unstable();
        methods.dedup();
        methods
    }

    /// The answer without looking, or where looking finds nothing: `None` if that depends on what
    /// was found.
    fn state(&self, now_ms: i64) -> Option<DomainCheck> {
        let unproven = |reason| DomainCheck::unproven(self.domain, reason);
        let holding = self.verification.as_ref().filter(|state| state.holds(now_ms));
        if let Some(verification) = holding {
            return Some(DomainCheck::verified(verification));
        }
        if let Some(parent) = &self.inherited {
            return Some(DomainCheck::inherited(self.domain, parent));
        }
        if self
            .verification
            .as_ref()
            .is_some_and(|state| state.is_suspended(now_ms))
        {
            return Some(unproven(Unproven::Suspended));
        }
        self.challenges.is_empty().then(|| unproven(Unproven::NoToken))
    }

    fn stored(&self, now_ms: i64) -> DomainCheck {
        self.state(now_ms)
            .unwrap_or_else(|| DomainCheck::unproven(self.domain, Unproven::NotChecked))
    }
}

/// The verification through which the account speaks for a subdomain.
async fn inherited(
    accounts: &Accounts,
    principal: &Principal,
    domain: &Domain,
) -> Result<Option<Verification>, Failure> {
    let Some(parent) = principal
        .inherits(domain.as_str())
        .and_then(|parent| parent.parse().ok())
    else {
        return Ok(None);
    };
    Ok(accounts.verification(&principal.account_id, &parent).await?)
}

async fn check_one(
    app: &PublisherState,
    principal: &Principal,
    state: DomainState<'_>,
) -> Result<DomainCheck, Failure> {
    let accounts = &app.deps.accounts;
    let now_ms = accounts.now_ms();
    let domain = state.domain;
    let looks = state.methods().into_iter().map(|method| async move {
        let looking = app.looker.look(&principal.account_id, domain, method, now_ms);
        (method, looking.await)
    });
    let looks = join_all(looks).await;
    let mut attempts = Vec::new();
    for (method, look) in &looks {
        let has = |is_met: &dyn Fn(&str) -> bool| look.tokens.iter().any(|token| is_met(token));
        let mut challenges = state.challenges.iter().filter(|challenge| challenge.method == *method);
        if let Some(challenge) = challenges.find(|challenge| has(&|token| challenge.is_met_by(token))) {
            match accounts.verify(&principal.actor.to_string(), challenge).await {
                Ok(verification) => return Ok(DomainCheck::verified(&verification)),
                Err(error @ VerifyError::DomainHeld(_)) => {
                    return Err(Failure::new(Kind::DomainHeld, error.to_string()));
                }
                Err(error @ VerifyError::TooManyDomains) => {
                    return Err(Failure::new(Kind::TooManyDomains, error.to_string()));
                }
                // Replaced or withdrawn between the look and now.
                Err(VerifyError::ChallengeGone) => {}
                Err(VerifyError::Store(error)) => return Err(error.into()),
            }
        }
        let proof = state.proof.as_ref().filter(|proof| proof.method == *method);
        if let Some(proof) = proof.filter(|proof| has(&|token| proof.is_met_by(token)))
            && accounts.proof_found(proof, &principal.actor.to_string()).await?
        {
            let verification = accounts.verification(&principal.account_id, domain).await?;
            if let Some(verification) = verification.filter(|verification| verification.holds(now_ms)) {
                return Ok(DomainCheck::verified(&verification));
            }
        }
        let token = format!("{}<token>", accounts::TOKEN_PREFIX);
        let record = verification::record(domain.as_str(), *method, &token, now_ms);
        attempts.push(Attempt::new(*method, record, look.clone()));
    }
    let unreachable = attempts
        .iter()
        .all(|attempt| attempt.outcome == ProofOutcome::Unreachable);
    let reason = if unreachable {
        Unproven::Unreachable
    } else {
        Unproven::NotFound
    };
    let mut check = state
        .state(now_ms)
        .unwrap_or_else(|| DomainCheck::unproven(domain, reason));
    check.attempts = attempts;
    Ok(check)
}

/// Checks that the key may act on each of `domains`.
fn allowed(principal: &Principal, domains: &[Domain]) -> Result<(), Failure> {
    domains
        .iter()
        .try_for_each(|domain| key_domains::allow(principal, domain.as_str()))
}

fn unknown(domain: &Domain) -> Failure {
    Failure::not_found(format!("your account has no domain {domain}"))
}

fn body_domains(text: &str) -> Result<Vec<Domain>, Failure> {
    domains(text).map_err(|what| {
        Problem::new(Kind::InvalidBody, what.clone())
            .fault("/domain", "invalid_domain", what)
            .into()
    })
}

fn query_domains(params: &Params) -> Result<Option<Vec<Domain>>, InvalidQuery> {
    let parsed = params.get("domain").map(domains).transpose();
    parsed.map_err(|what| InvalidQuery::new("domain", what))
}

/// Names separated by commas, each once, in the order given.
fn domains(text: &str) -> Result<Vec<Domain>, String> {
    let mut domains: Vec<Domain> = Vec::new();
    for name in text.split(',') {
        let domain: Domain = name.parse().map_err(|error: accounts::DomainError| error.to_string())?;
        if !domains.contains(&domain) {
            domains.push(domain);
        }
        if domains.len() > DOMAINS_MAX {
            return Err(format!("{} names more than {DOMAINS_MAX} domains", shortened(text)));
        }
    }
    Ok(domains)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lists_of_domains() {
        let names = |text: &str| domains(text).map(|all| all.iter().map(Domain::to_string).collect::<Vec<_>>());
        assert_eq!(
            names("b.example, A.example.,b.example").unwrap(),
            ["b.example", "a.example"]
        );
        let many = |count: usize| {
            (0..count)
                .map(|n| format!("d{n}.example"))
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(names(&many(DOMAINS_MAX)).unwrap().len(), DOMAINS_MAX);
        for wrong in [
            many(DOMAINS_MAX + 1).as_str(),
            "",
            "a.example,",
            "https://a.example",
            "127.0.0.1",
        ] {
            assert!(names(wrong).is_err(), "{wrong}");
        }
    }
}

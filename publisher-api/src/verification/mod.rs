//! Whether a domain publishes a token: a TXT record, a well-known file, a meta tag.
//!
//! Looking is asking the outside on someone's request, so it is counted by account beyond the quota
//! of the key, and bounded in all. What is found there is shown to whoever asked in a few cut
//! lines: it is public anyway.

mod dns;
mod https_file;
mod meta_tag;

use std::time::Duration;

use accounts::{Domain, TOKEN_PREFIX, VerificationMethod};
use outbound::{Error, Fetched, OutboundClient};
use serde::Serialize;
use service::cpu::CpuPool;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use utoipa::ToSchema;
use web::shares::Shares;

/// Tokens and lines retained of one location.
const FOUND_MAX: usize = 10;
/// Characters shown of a line.
const SHOWN_CHARS_MAX: usize = 120;
/// Locations that are checked for one account at one time.
const ACCOUNT_LOOKS_MAX: usize = 4;
/// Time to wait for a permit.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// Looks at domains, a bounded number at a time, and of these a few for each account.
pub(crate) struct Looker {
    client: OutboundClient,
    pages: CpuPool,
    locations: Semaphore,
    shares: Shares,
    wait_max: Duration,
}

/// Content of the location where a token should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Tokens without their prefix.
    pub(crate) tokens: Vec<String>,
    /// For a person.
    pub(crate) found: Vec<String>,
    /// Outcome of the check.
    pub(crate) outcome: ProofOutcome,
    /// Advice: what to change if that isn't the token.
    pub(crate) advice: String,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Outcome)]
pub(crate) enum ProofOutcome {
    /// A token is there; whether it is the right one is another question.
    TokenFound,
    /// The location is there, and no token in it.
    NoToken,
    /// Text is there that is meant as a token, and not written as it must be.
    Malformed,
    /// No record, or no file.
    Nothing,
    /// The location can't be checked now; trying again may help.
    Unreachable,
    /// The location can't be checked as it is.
    Refused,
}

/// Record to publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Record {
    /// The record's name, the file's URL, or the page's.
    pub(crate) name: String,
    /// `TXT`, `file` or `meta`.
    pub(crate) r#type: String,
    /// The record's text, the file's lines, or the tag.
    pub(crate) value: String,
    /// Time to live of a TXT record, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<u32>,
}

impl Looker {
    /// Asks through `client`, in `looks_max` locations at a time, and reads pages on `pages`.
    pub(crate) fn new(client: OutboundClient, pages: CpuPool, looks_max: usize) -> Self {
        Self {
            client,
            pages,
            locations: Semaphore::new(looks_max),
            shares: Shares::new(ACCOUNT_LOOKS_MAX),
            wait_max: WAIT_MAX,
        }
    }

    /// Looks where `method` says for this account, after waiting for a permit; what gets none in
    /// time is unreachable.
    pub(crate) async fn look(
        &self,
        account_id: &str,
        domain: &Domain,
        method: VerificationMethod,
        now_ms: i64,
    ) -> Look {
        let locations = async {
            let own = self.shares.of(account_id).acquire_owned().await;
            (own, self.locations.acquire().await)
        };
        let Ok(_places) = timeout(self.wait_max, locations).await else {
            let found = "too many other locations are being checked".to_owned();
            return Look::without_tokens(ProofOutcome::Unreachable, vec![found], "try again in a minute");
        };
        self.look_at(domain, method, now_ms).await
    }

    /// Looks at once, on nobody's behalf: whoever calls bounds how many looks there are.
    pub(crate) async fn look_at(&self, domain: &Domain, method: VerificationMethod, now_ms: i64) -> Look {
        match method {
            VerificationMethod::Dns => dns::look(&self.client, domain.as_str()).await,
            VerificationMethod::Https => https_file::look(&self.client, domain, now_ms).await,
            VerificationMethod::Meta => meta_tag::look(&self.client, &self.pages, domain).await,
        }
    }
}

/// `GET url` for a proof of `domain`. A redirect out of its registrable domain isn't followed:
/// whoever serves the other location, or can make `domain` redirect there, doesn't show that they
/// run `domain`.
async fn fetch(client: &OutboundClient, domain: &Domain, url: &str, bytes_max: usize) -> Result<Fetched, Error> {
    let fetched = client
        .get_within(url, bytes_max, |host| domain.is_same_site(host))
        .await;
    fetched.and_then(Fetched::success)
}

/// Record to publish for `token`, which has its prefix; without one, the record to look for.
pub(crate) fn record(domain: &str, method: VerificationMethod, token: &str, now_ms: i64) -> Record {
    match method {
        VerificationMethod::Dns => dns::record(domain, token),
        VerificationMethod::Https => https_file::record(domain, token, now_ms),
        VerificationMethod::Meta => meta_tag::record(domain, token),
    }
}

impl Look {
    fn without_tokens(outcome: ProofOutcome, found: Vec<String>, advice: impl Into<String>) -> Self {
        Self {
            tokens: Vec::new(),
            found,
            outcome,
            advice: advice.into(),
        }
    }

    fn of_tokens(tokens: Vec<String>) -> Self {
        Self {
            found: tokens
                .iter()
                .map(|token| shown(&format!("{TOKEN_PREFIX}{token}")))
                .collect(),
            tokens,
            outcome: ProofOutcome::TokenFound,
            advice:
                "this is no open token of this account for this domain: publish the one that generate answered last"
                    .to_owned(),
        }
    }

    /// Why the outside gave nothing; `missing` is what to do if the location isn't there.
    fn failed(error: &Error, missing: &str) -> Self {
        use outbound::Unresolved::{NoRecords, NoSuchName};
        let outcome = match error {
            Error::Unresolvable {
                why: NoSuchName | NoRecords(_),
                ..
            } => ProofOutcome::Nothing,
            Error::BadStatus { status, .. } if status.is_client_error() => ProofOutcome::Nothing,
            error if error.may_pass() => ProofOutcome::Unreachable,
            _ => ProofOutcome::Refused,
        };
        let advice = match outcome {
            ProofOutcome::Nothing => missing.to_owned(),
            ProofOutcome::Unreachable => {
                "try again in a few minutes; if it stays so, look at your DNS and your server".to_owned()
            }
            _ => "put this right, or use another method".to_owned(),
        };
        Self::without_tokens(outcome, vec![error.to_string()], advice)
    }
}

/// A line of the outside, cut and without anything that a terminal obeys.
fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('\u{2026}');
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn who_gets_no_permit_is_refused_and_doesnt_wait_for_ever() {
        let client = OutboundClient::new(&outbound::Config::default()).unwrap();
        let pages = CpuPool::new("test", 1, 1).unwrap();
        let mut looker = Looker::new(client, pages, ACCOUNT_LOOKS_MAX + 1);
        looker.wait_max = Duration::ZERO;
        let look = async |account: &str| {
            looker
                .look(
                    account,
                    &"shop.localhost".parse().unwrap(),
                    VerificationMethod::Https,
                    0,
                )
                .await
        };
        let share = looker.shares.of("acc_a");
        let own = share
            .acquire_many(u32::try_from(ACCOUNT_LOOKS_MAX).unwrap())
            .await
            .unwrap();
        assert_eq!(
            look("acc_a").await.outcome,
            ProofOutcome::Unreachable,
            "its own are taken"
        );
        assert_eq!(
            look("acc_b").await.outcome,
            ProofOutcome::Refused,
            "this machine, which isn't asked"
        );
        drop(own);
        assert_eq!(look("acc_a").await.outcome, ProofOutcome::Refused);
        let all = looker
            .locations
            .acquire_many(u32::try_from(ACCOUNT_LOOKS_MAX + 1).unwrap());
        let all = all.await.unwrap();
        assert_eq!(look("acc_b").await.outcome, ProofOutcome::Unreachable, "all are taken");
        drop(all);
    }
}

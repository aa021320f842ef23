//! Key directories: a fetch, and the changes that follow from it.
//!
//! A key is stored only if the response has a signature by it. Only a directory that was read
//! without fault ends periods, and only of keys that came from it. A failed fetch changes no key.

use std::collections::HashSet;
use std::time::Duration;

use accounts::{
    Accounts, AccountsError, DirectoryState, DueDirectory, Fingerprint, KeySource, Operator, OperatorError,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_signatures::{DirectoryKey, MEDIA_TYPE, Message, MessageSignature, PATH, TAG, parse_directory};
use outbound::Fetched;
use service::cpu::CpuPool;

use super::freshness::{FRESH_MS_MAX, fresh_ms};
use super::operator_key;

/// The longest directory.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The most keys of a directory.
const KEYS_MAX: usize = 32;
/// The longest `ETag` that is stored.
const ETAG_BYTES_MAX: usize = 1 << 10;
/// Time for a whole fetch.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest time between `created` and `expires` of a directory's signature: as long as a
/// directory may be cached.
const SIGNATURE_SECONDS_MAX: i64 = FRESH_MS_MAX / 1_000;
/// The pause after the first failure; each one is twice as long as the one before.
const PAUSE_MS_MIN: i64 = 60_000;
/// The longest pause.
const PAUSE_MS_MAX: i64 = 6 * 3_600_000;
/// The actor in the audit trail.
const ACTOR: &str = "service";

/// Fetches key directories and stores their keys.
#[derive(Clone)]
pub(crate) struct Directories {
    pub(crate) accounts: Accounts,
    pub(crate) client: outbound::OutboundClient,
    /// Verifies signatures.
    pub(crate) cpu: CpuPool,
}

/// An answer that can be used.
enum DirectoryResponse {
    /// 304: the stored answer is the present one.
    Unchanged { fresh_ms: i64 },
    /// 200, with a directory.
    Listing {
        listing: Listing,
        etag: String,
        fresh_ms: i64,
    },
}

/// Keys of a directory.
struct Listing {
    /// Keys whose possession is proven.
    proven: Vec<DirectoryKey>,
    /// Why the others aren't used.
    skipped: Vec<String>,
    /// All that are listed without a fault.
    all: HashSet<Fingerprint>,
    /// Whether one expires by itself.
    expires: bool,
}

/// Changes by a directory.
#[derive(Default)]
struct Applied {
    added: usize,
    ended: usize,
    /// Keys that weren't used, and why.
    skipped: Vec<String>,
}

impl Directories {
    /// Fetches a directory that was taken, applies it, and stores its new state.
    ///
    /// # Errors
    /// The store fails; the directory is due again when the lease is over.
    pub(crate) async fn refresh(&self, due: DueDirectory) -> Result<(), AccountsError> {
        let DueDirectory { operator, etag } = due;
        let fetched = self.fetch(&operator.domain, &etag).await;
        let now_ms = self.accounts.now_ms();
        let (outcome, state, etag) = match fetched {
            Ok(DirectoryResponse::Unchanged { fresh_ms }) => ("unchanged", good(now_ms, fresh_ms, String::new()), None),
            Ok(DirectoryResponse::Listing {
                listing,
                etag,
                fresh_ms,
            }) => {
                let expires = listing.expires;
                let applied = self.apply(&operator, listing).await?;
                let (added, ended, skipped) = (applied.added, applied.ended, applied.skipped.len());
                tracing::info!(
                    domain = operator.domain,
                    added,
                    ended,
                    skipped,
                    "a key directory was fetched"
                );
                // What was skipped may be usable later, and what expires isn't, without any change
                // of the directory.
                let etag = if skipped == 0 && !expires { etag } else { String::new() };
                let state = good(now_ms, fresh_ms, applied.skipped.join("; "));
                ("fetched", state, Some(etag))
            }
            Err(failure) => {
                tracing::warn!(
                    domain = operator.domain,
                    error = failure,
                    "a key directory couldn't be fetched"
                );
                ("failed", failed(&operator.directory, now_ms, failure), None)
            }
        };
        metrics::counter!("receipts_publisher_directory_fetches_total", "outcome" => outcome).increment(1);
        self.accounts.store_directory(&operator, &state, etag.as_deref()).await
    }

    async fn fetch(&self, domain: &str, etag: &str) -> Result<DirectoryResponse, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(MEDIA_TYPE));
        if let Ok(etag) = HeaderValue::from_str(etag)
            && !etag.is_empty()
        {
            headers.insert(header::IF_NONE_MATCH, etag);
        }
        let mut session = self
            .client
            .session(&format!("https://{domain}{PATH}"))
            .map_err(|error| error.to_string())?;
        let fetched = tokio::time::timeout(WAIT_MAX, session.get(headers, BODY_BYTES_MAX)).await;
        let fetched = fetched.map_err(|_| format!("{domain} didn't answer within {} s", WAIT_MAX.as_secs()))?;
        let fetched = fetched.map_err(|error| error.to_string())?;
        let now_ms = self.accounts.now_ms();
        let fresh_ms = fresh_ms(&fetched.headers, now_ms);
        match fetched.status {
            StatusCode::NOT_MODIFIED if !etag.is_empty() => return Ok(DirectoryResponse::Unchanged { fresh_ms }),
            StatusCode::OK => {}
            status if status.is_redirection() => {
                return Err(format!(
                    "{domain} answered {status}: redirects aren't followed, answer 200 at {PATH}"
                ));
            }
            status => return Err(format!("{domain} answered {status}; a directory answers 200 at {PATH}")),
        }
        check_media_type(&fetched.headers)?;
        let etag = fetched.headers.get(header::ETAG).and_then(|etag| etag.to_str().ok());
        let etag = etag
            .filter(|etag| etag.len() <= ETAG_BYTES_MAX)
            .unwrap_or_default()
            .to_owned();
        let domain = domain.to_owned();
        let read = self
            .cpu
            .run_waiting(move || Listing::read(&fetched, &domain, now_ms / 1_000));
        let listing = read.await.map_err(|error| error.to_string())??;
        Ok(DirectoryResponse::Listing {
            listing,
            etag,
            fresh_ms,
        })
    }

    async fn apply(&self, operator: &Operator, listing: Listing) -> Result<Applied, AccountsError> {
        let mut applied = Applied::default();
        for period in self.accounts.operator_keys(operator).await? {
            let key = period.key;
            let is_listed = listing.all.contains(&key.fingerprint);
            if period.until_ms.is_none() && key.source == KeySource::Directory && !is_listed {
                let ended = self.accounts.end_operator_key(operator, ACTOR, key.fingerprint).await?;
                applied.ended += usize::from(ended);
            }
        }
        for key in &listing.proven {
            let new = operator_key(key, KeySource::Directory);
            match self.accounts.add_operator_key(operator, ACTOR, &new).await {
                Ok(added) => applied.added += usize::from(added),
                Err(OperatorError::Store(error)) => return Err(error),
                Err(refused) => applied
                    .skipped
                    .push(format!("key {} was skipped: {refused}", key.thumbprint)),
            }
        }
        applied.skipped.extend(listing.skipped);
        Ok(applied)
    }
}

impl Listing {
    fn read(fetched: &Fetched, domain: &str, now_s: i64) -> Result<Self, String> {
        let listed = parse_directory(&fetched.body, KEYS_MAX, now_s)
            .map_err(|error| format!("the directory can't be used: {error}"))?;
        let signatures = signatures(&fetched.headers)?;
        let message = Message {
            method: "GET",
            target_uri: "",
            authority: domain,
            content_digest: None,
            is_response: true,
        };
        let mut listing = Self {
            proven: Vec::new(),
            skipped: Vec::new(),
            all: HashSet::new(),
            expires: false,
        };
        for key in listed {
            let key = match key {
                Ok(key) => key,
                Err(fault) => {
                    listing.skipped.push(fault);
                    continue;
                }
            };
            listing.expires |= key.expires_s.is_some();
            if !listing.all.insert(Fingerprint(*key.key.fingerprint())) {
                continue;
            }
            let is_proven = signatures
                .iter()
                .filter(|one| one.key_id() == Some(key.thumbprint.as_str()) && one.tag() == Some(TAG))
                .any(|one| {
                    let components = ["@authority"];
                    let verified = one.verify(&key.key, &message, &components, now_s, SIGNATURE_SECONDS_MAX);
                    verified.is_ok()
                });
            if is_proven {
                listing.proven.push(key);
            } else {
                let thumbprint = &key.thumbprint;
                listing.skipped.push(format!(
                    "key {thumbprint} was skipped: the response has no valid signature by it with the tag {TAG}"
                ));
            }
        }
        Ok(listing)
    }
}

/// The response's signatures; none if it has no such fields.
fn signatures(headers: &HeaderMap) -> Result<Vec<MessageSignature>, String> {
    let field = |name| {
        let values = headers.get_all(name).iter();
        let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        values.join(", ")
    };
    let (input, signature) = (field("signature-input"), field("signature"));
    MessageSignature::parse(&input, &signature).map_err(|error| format!("the response's signatures: {error}"))
}

fn check_media_type(headers: &HeaderMap) -> Result<(), String> {
    let found = headers.get(header::CONTENT_TYPE).and_then(|found| found.to_str().ok());
    let essence = found.and_then(|found| found.split(';').next()).unwrap_or_default();
    if essence.trim().eq_ignore_ascii_case(MEDIA_TYPE) {
        return Ok(());
    }
    Err(format!("the directory's Content-Type must be {MEDIA_TYPE}"))
}

/// The state after an answer that could be used.
fn good(now_ms: i64, fresh_ms: i64, skipped: String) -> DirectoryState {
    DirectoryState {
        fetched_at_ms: now_ms,
        next_at_ms: now_ms.saturating_add(fresh_ms),
        failures: 0,
        failure: skipped,
    }
}

/// The state after a fetch that failed.
fn failed(before: &DirectoryState, now_ms: i64, failure: String) -> DirectoryState {
    let pause_ms = PAUSE_MS_MIN << before.failures.min(16);
    DirectoryState {
        fetched_at_ms: before.fetched_at_ms,
        next_at_ms: now_ms.saturating_add(pause_ms.min(PAUSE_MS_MAX)),
        failures: before.failures.saturating_add(1),
        failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_six_hours() {
        let mut state = DirectoryState::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            state = failed(&state, 0, "status 500".to_owned());
            pauses.push(state.next_at_ms / 60_000);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360, 360]);
        let limit = DirectoryState {
            failures: u32::MAX,
            ..state
        };
        assert_eq!(failed(&limit, 0, String::new()).next_at_ms, PAUSE_MS_MAX);
    }
}

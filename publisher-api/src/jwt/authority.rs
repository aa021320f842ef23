//! A token's text to the subject it is about.

use std::path::Path;
use std::time::Duration;

use accounts::Subject;
use jsonwebtoken::{Algorithm, DecodingKey};
use metrics::counter;
use outbound::OutboundClient;
use serde_json::{Map, Value};
use service::health::Health;

use super::TokenError;
use super::claims::Expected;
use super::config::AuthConfig;
use super::dev;
use super::key_ring::{FileSource, KeyRing, KeySetSource, UrlSource};
use super::key_set::Match;
use super::token::Token;
use crate::oidc::SignInAttempt;

/// Issuer of trusted tokens, and its keys.
pub struct Authority {
    expected: Expected,
    ring: Option<KeyRing>,
    secret: Option<DecodingKey>,
    token_bytes_max: usize,
    /// Not for the dev issuer, whose key never changes: its file is read when a token requests it.
    refresh_every: Option<Duration>,
    retry_every: Duration,
}

/// Why no authority can be made.
#[derive(Debug, thiserror::Error)]
#[error("auth.jwks_url: {0}")]
pub struct AuthoritySetupError(String);

impl Authority {
    /// Makes the authority of `config`: its issuer, or without one that of `receipts dev-token` in
    /// the data directory `data`. Keys by URL are fetched through `outside`.
    ///
    /// # Errors
    /// The URL is one that may not be asked.
    pub fn new(config: &AuthConfig, data: &Path, outside: &OutboundClient) -> Result<Self, AuthoritySetupError> {
        let (issuer, audience) = match config.is_given() {
            true => (config.issuer.as_str(), config.audience.as_str()),
            false => (dev::ISSUER, dev::AUDIENCE),
        };
        let source: Option<Box<dyn KeySetSource>> = if !config.is_given() {
            Some(Box::new(FileSource {
                path: dev::jwks_file(data),
                may_be_absent: true,
            }))
        } else if !config.jwks_file.is_empty() {
            Some(Box::new(FileSource {
                path: (&config.jwks_file).into(),
                may_be_absent: false,
            }))
        } else if !config.jwks_url.is_empty() {
            let (client, url) = (outside.clone(), config.jwks_url.clone());
            client
                .check(&url)
                .map_err(|error| AuthoritySetupError(error.to_string()))?;
            Some(Box::new(UrlSource { client, url }))
        } else {
            None
        };
        let secret = config.hs256_secret.reveal().as_bytes();
        Ok(Self {
            expected: Expected {
                issuer: issuer.to_owned(),
                audience: audience.to_owned(),
                leeway_s_max: config.leeway_s_max,
            },
            ring: source.map(|source| KeyRing::new(source, i64::from(config.jwks_refetch_s_min) * 1_000)),
            secret: (!secret.is_empty()).then(|| DecodingKey::from_secret(secret)),
            token_bytes_max: config.token_bytes_max,
            refresh_every: config
                .is_given()
                .then(|| Duration::from_secs(config.jwks_refresh_s.into())),
            retry_every: Duration::from_secs(config.jwks_refetch_s_min.into()),
        })
    }

    /// Whom `text` is about, if it is good at `now_ms`.
    ///
    /// The signature is checked where the request is handled: it is one, and people ask seldom.
    pub(crate) async fn subject(&self, text: &str, now_ms: i64) -> Result<Subject, TokenError> {
        counted(self.check(text, now_ms).await)
    }

    /// Whom the ID token of a sign-in is about, if it is good at `now_ms`, for `client_id`, and of
    /// this attempt; and when they signed in at the provider, if it says.
    pub(crate) async fn signed_in(
        &self,
        text: &str,
        client_id: &str,
        attempt: &SignInAttempt,
        now_ms: i64,
    ) -> Result<(Subject, Option<i64>), TokenError> {
        let expected = Expected {
            audience: client_id.to_owned(),
            ..self.expected.clone()
        };
        let checked = async {
            let claims = self.signed_claims(text, now_ms).await?;
            expected.signed_in(&claims, &attempt.nonce(), attempt.age_s_max, now_ms)
        };
        counted(checked.await)
    }

    async fn check(&self, text: &str, now_ms: i64) -> Result<Subject, TokenError> {
        self.expected.subject(&self.signed_claims(text, now_ms).await?, now_ms)
    }

    /// Claims of a token whose signature is good.
    async fn signed_claims(&self, text: &str, now_ms: i64) -> Result<Map<String, Value>, TokenError> {
        let token = Token::parse(text, self.token_bytes_max)?;
        let key = self.key(token.algorithm, token.kid.as_deref(), now_ms).await?;
        // An error is a signature that isn't base64url; the key is of the algorithm's family by its
        // making.
        let good = jsonwebtoken::crypto::verify(token.signature, token.signed.as_bytes(), &key, token.algorithm);
        if !good.unwrap_or(false) {
            return Err(TokenError::Signature);
        }
        token.claims()
    }

    async fn key(&self, algorithm: Algorithm, kid: Option<&str>, now_ms: i64) -> Result<DecodingKey, TokenError> {
        if algorithm == Algorithm::HS256 {
            // Never a key of the set: a public key is no secret.
            return self.secret.clone().ok_or(TokenError::Algorithm);
        }
        let ring = self.ring.as_ref().ok_or(TokenError::Algorithm)?;
        match ring.find(algorithm, kid, now_ms).await {
            None => Err(TokenError::Unavailable),
            Some(Match::Found(key)) => Ok(key.decoding),
            Some(Match::Unknown) => Err(TokenError::UnknownKey),
            Some(Match::OtherAlgorithm) => Err(TokenError::OtherAlgorithm),
            Some(Match::Ambiguous) => Err(TokenError::Ambiguous),
        }
    }

    /// Fetches the keys again and again, and tells readiness.
    pub(crate) async fn watch(&self, health: &Health, now_ms: impl Fn() -> i64) {
        let (Some(ring), Some(refresh_every)) = (&self.ring, self.refresh_every) else {
            return;
        };
        let component = health.register("publisher.jwks");
        loop {
            let pause = match ring.refresh(now_ms()).await {
                Ok(()) => {
                    component.ready();
                    refresh_every
                }
                Err(why) => {
                    // API keys, and tokens by the keys that were had, continue.
                    component.degraded(format!("the issuer's keys: {why}"));
                    self.retry_every
                }
            };
            tokio::time::sleep(pause).await;
        }
    }
}

fn counted<T>(checked: Result<T, TokenError>) -> Result<T, TokenError> {
    let outcome = checked.as_ref().map_or_else(TokenError::outcome, |_| "ok");
    counter!("receipts_publisher_tokens_total", "outcome" => outcome).increment(1);
    checked
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Authority")
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

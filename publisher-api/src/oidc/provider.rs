//! The identity provider: where it sends people, and what it says of them.

use std::sync::Arc;

use accounts::Subject;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::Serializer;
use http::{HeaderMap, HeaderValue, header};
use outbound::OutboundClient;
use serde::Deserialize;

use super::attempt::SignInAttempt;
use super::metadata::{Discovery, ProviderMetadata};
use crate::jwt::{AuthConfig, Authority, TokenError};

/// The longest answer to a token request, in bytes.
const BYTES_MAX: usize = 256 << 10;

/// The identity provider at which people sign in.
pub struct IdentityProvider {
    client: OutboundClient,
    discovery: Discovery,
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
}

/// Failure of a sign-in, for the log; people see less.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignInError {
    /// Not the person's fault.
    #[error("the identity provider can't be reached: {0}")]
    Unavailable(String),
    /// The provider refuses, or its answer is about another sign-in.
    #[error("{0}")]
    Refused(String),
    /// The ID token isn't good.
    #[error("the ID token: {0}")]
    Token(#[from] TokenError),
}

/// The provider's answer to a token request, as far as it is read.
#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
    error: Option<String>,
}

impl IdentityProvider {
    /// The provider of `config`, if people sign in at one.
    ///
    /// # Errors
    /// The client secret can't be read.
    pub fn new(config: &AuthConfig, client: &OutboundClient) -> Result<Option<Self>, String> {
        if config.client_id.is_empty() {
            return Ok(None);
        }
        let ms = |seconds: u32| i64::from(seconds) * 1_000;
        let (refresh_ms, retry_ms) = (ms(config.jwks_refresh_s), ms(config.jwks_refetch_s_min));
        Ok(Some(Self {
            client: client.clone(),
            discovery: Discovery::new(client.clone(), config.issuer.clone(), refresh_ms, retry_ms),
            issuer: config.issuer.clone(),
            client_id: config.client_id.clone(),
            client_secret: config.client_secret()?,
        }))
    }

    /// URL at the provider at which `attempt` begins.
    pub(crate) async fn authorization_url(
        &self,
        attempt: &SignInAttempt,
        redirect_uri: &str,
        now_ms: i64,
    ) -> Result<String, SignInError> {
        let metadata = self.metadata(now_ms).await?;
        let endpoint = &metadata.authorization_endpoint;
        let query = Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("scope", "openid email profile")
            .append_pair("state", &attempt.state())
            .append_pair("nonce", &attempt.nonce())
            .append_pair("code_challenge", &attempt.challenge())
            .append_pair("code_challenge_method", "S256")
            .append_pair("max_age", &attempt.age_s_max.to_string())
            .finish();
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{endpoint}{separator}{query}"))
    }

    /// Checks the provider's name in an answer (RFC 9207): the answer of another provider must not
    /// bring its code here.
    pub(crate) async fn check_issuer(&self, iss: Option<&str>, now_ms: i64) -> Result<(), SignInError> {
        let is_needed = self
            .metadata(now_ms)
            .await?
            .authorization_response_iss_parameter_supported;
        match iss {
            Some(iss) if iss == self.issuer => Ok(()),
            None if !is_needed => Ok(()),
            _ => Err(SignInError::Refused(
                "the answer names another issuer, or none".to_owned(),
            )),
        }
    }

    /// Exchanges the code of an answer for the person it is about; and when, in milliseconds since
    /// the Unix epoch, they signed in at the provider, if it says.
    pub(crate) async fn exchange(
        &self,
        authority: &Authority,
        attempt: &SignInAttempt,
        (code, redirect_uri): (&str, &str),
        now_ms: i64,
    ) -> Result<(Subject, Option<i64>), SignInError> {
        let metadata = self.metadata(now_ms).await?;
        let (headers, body) = self.token_request(&metadata, attempt, code, redirect_uri);
        let posted = self
            .client
            .post(&metadata.token_endpoint, headers, body.into(), BYTES_MAX);
        let answer = posted
            .await
            .map_err(|error| SignInError::Unavailable(error.to_string()))?;
        if answer.status.is_server_error() {
            return Err(SignInError::Unavailable(format!("it answered {}", answer.status)));
        }
        let parsed: Option<TokenAnswer> = serde_json::from_slice(&answer.body).ok();
        let (token, error) = parsed.map_or((None, None), |parsed| (parsed.id_token, parsed.error));
        let Some(token) = token.filter(|_| answer.status.is_success()) else {
            let why = error.unwrap_or_default();
            let shown: String = why.chars().filter(|c| c.is_ascii_graphic()).take(100).collect();
            return Err(SignInError::Refused(format!("no ID token: {} {shown}", answer.status)));
        };
        Ok(authority.signed_in(&token, &self.client_id, attempt, now_ms).await?)
    }

    /// Header fields and body of the request for tokens (RFC 6749 sections 2.3.1 and 4.1.3).
    fn token_request(
        &self,
        metadata: &ProviderMetadata,
        attempt: &SignInAttempt,
        code: &str,
        redirect_uri: &str,
    ) -> (HeaderMap, String) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        let mut body = Serializer::new(String::new());
        body.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("code_verifier", &attempt.verifier());
        match &self.client_secret {
            Some(secret) if !metadata.takes_secret_in_form() => {
                let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(&self.client_id), encoded(secret));
                let basic = format!("Basic {}", STANDARD.encode(pair));
                if let Ok(mut value) = HeaderValue::try_from(basic) {
                    value.set_sensitive(true);
                    headers.insert(header::AUTHORIZATION, value);
                }
            }
            secret => {
                body.append_pair("client_id", &self.client_id);
                if let Some(secret) = secret {
                    body.append_pair("client_secret", secret);
                }
            }
        }
        (headers, body.finish())
    }

    async fn metadata(&self, now_ms: i64) -> Result<Arc<ProviderMetadata>, SignInError> {
        self.discovery.metadata(now_ms).await.map_err(SignInError::Unavailable)
    }
}

impl std::fmt::Debug for IdentityProvider {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("IdentityProvider")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

//! The provider's addresses, by OpenID Connect Discovery 1.0.

use std::sync::Arc;

use outbound::OutboundClient;
use serde::Deserialize;
use tokio::sync::Mutex;

/// The longest document, in bytes.
const BYTES_MAX: usize = 256 << 10;

/// A provider's description of itself, as far as it is read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ProviderMetadata {
    issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    /// Whether its answers name it in `iss` (RFC 9207).
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// The description as it was fetched last.
pub(super) struct Discovery {
    client: OutboundClient,
    issuer: String,
    refresh_ms: i64,
    retry_ms: i64,
    /// Locked during a fetch, so that there is never a second.
    found: Mutex<Discovered>,
}

#[derive(Default)]
struct Discovered {
    metadata: Option<Arc<ProviderMetadata>>,
    fetched_at_ms: Option<i64>,
    failed_at_ms: Option<i64>,
}

impl ProviderMetadata {
    /// Whether the secret is sent in the form, as for providers that don't take it as a password
    /// (OpenID Connect Core section 9).
    pub(super) fn takes_secret_in_form(&self) -> bool {
        let methods = &self.token_endpoint_auth_methods_supported;
        let has = |name: &str| methods.iter().any(|method| method == name);
        has("client_secret_post") && !has("client_secret_basic")
    }
}

impl Discovery {
    /// Fetches again after `refresh_ms`, and `retry_ms` after a failure.
    pub(super) fn new(client: OutboundClient, issuer: String, refresh_ms: i64, retry_ms: i64) -> Self {
        Self {
            client,
            issuer,
            refresh_ms,
            retry_ms,
            found: Mutex::default(),
        }
    }

    /// The description; one that was fetched before while the provider can't be reached.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn metadata(&self, now_ms: i64) -> Result<Arc<ProviderMetadata>, String> {
        let mut found = self.found.lock().await;
        let is_within = |at_ms: Option<i64>, ms: i64| at_ms.is_some_and(|at_ms| (0..ms).contains(&(now_ms - at_ms)));
        if is_within(found.fetched_at_ms, self.refresh_ms) || is_within(found.failed_at_ms, self.retry_ms) {
            let missing = || "the identity provider couldn't be reached a moment ago".to_owned();
            return found.metadata.clone().ok_or_else(missing);
        }
        match self.fetch().await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *found = Discovered {
                    metadata: Some(Arc::clone(&metadata)),
                    fetched_at_ms: Some(now_ms),
                    failed_at_ms: None,
                };
                Ok(metadata)
            }
            Err(why) => {
                tracing::warn!(why, "the identity provider's description of itself can't be fetched");
                found.failed_at_ms = Some(now_ms);
                found.metadata.clone().ok_or(why)
            }
        }
    }

    async fn fetch(&self) -> Result<ProviderMetadata, String> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let fetched = self
            .client
            .get(&url, BYTES_MAX)
            .await
            .map_err(|error| error.to_string())?;
        let fetched = fetched.success().map_err(|error| error.to_string())?;
        let metadata = serde_json::from_slice(&fetched.body);
        let metadata: ProviderMetadata = metadata.map_err(|error| format!("it isn't what it should be: {error}"))?;
        // Section 4.3: exactly equal, or another could answer for it.
        if metadata.issuer != self.issuer {
            return Err("it is of another issuer than auth.issuer".to_owned());
        }
        for address in [&metadata.authorization_endpoint, &metadata.token_endpoint] {
            self.client.check(address).map_err(|error| error.to_string())?;
        }
        Ok(metadata)
    }
}

//! Secrets in the paths of links: of sign-ins and of invitations.

use accounts::{AccountsError, SecretToken};
use http::request::Parts;
use web::Failure;
use web::access::Gatekeeper;

/// Returns what `find` has for the secret `text` of a link. A secret without anything counts
/// towards the unknown credentials of the request's address.
///
/// # Errors
/// 429 for an address with too many of them; 503.
pub(super) async fn find_by_secret<T>(
    gatekeeper: &Gatekeeper,
    head: &Parts,
    text: &str,
    find: impl AsyncFnOnce(&SecretToken) -> Result<Option<T>, AccountsError>,
) -> Result<Option<T>, Failure> {
    let unknown = gatekeeper.unknown_credentials(&head.headers, &head.extensions).await?;
    let found = match SecretToken::parse(text) {
        Some(token) => find(&token).await?,
        None => None,
    };
    if found.is_none() {
        unknown.add().await;
    }
    Ok(found)
}

//! A sign-in in progress.
//!
//! The secret of a sign-in is in a cookie of the browser that began it; nothing is stored. `state`,
//! `nonce` and the PKCE verifier follow from the secret, so an answer of the provider is accepted
//! from that browser alone (login CSRF), and an ID token of this sign-in alone. The cookie is
//! removed by the first answer, and a provider takes a code once: nothing can be replayed.

use accounts::{AccountsError, SecretToken};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Time in which the person must be back from the provider, in seconds.
pub(crate) const ATTEMPT_S_MAX: u32 = 600;

/// A sign-in in progress.
pub(crate) struct SignInAttempt {
    secret: SecretToken,
    begun_at_ms: i64,
    /// Largest age of the person's sign-in at the provider, in seconds.
    pub(crate) age_s_max: u32,
    /// The session that the browser has, which the new one ends. Its own cookie doesn't come back
    /// with the provider's redirect.
    pub(crate) before: Option<SecretToken>,
    /// The invitation that the sign-in accepts.
    pub(crate) invitation: Option<SecretToken>,
}

impl SignInAttempt {
    /// Begins one at `now_ms`.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn begin(
        age_s_max: u32,
        before: Option<SecretToken>,
        invitation: Option<SecretToken>,
        now_ms: i64,
    ) -> Result<Self, AccountsError> {
        Ok(Self {
            secret: SecretToken::generate()?,
            begun_at_ms: now_ms,
            age_s_max,
            before,
            invitation,
        })
    }

    /// The value of its cookie.
    pub(crate) fn cookie(&self) -> String {
        let revealed = |token: &Option<SecretToken>| token.as_ref().map(SecretToken::reveal).unwrap_or_default();
        let (before, invitation) = (revealed(&self.before), revealed(&self.invitation));
        let (secret, begun_at_ms, age_s_max) = (self.secret.reveal(), self.begun_at_ms, self.age_s_max);
        format!("{secret}.{begun_at_ms}.{age_s_max}.{before}.{invitation}")
    }

    /// The attempt of a cookie, if it isn't too old at `now_ms`.
    pub(crate) fn parse(cookie: &str, now_ms: i64) -> Option<Self> {
        let mut parts = cookie.split('.');
        let mut next = || parts.next();
        let (secret, begun_at_ms, age_s_max, before, invitation) = (next()?, next()?, next()?, next()?, next()?);
        let attempt = Self {
            secret: SecretToken::parse(secret)?,
            begun_at_ms: begun_at_ms.parse().ok()?,
            age_s_max: age_s_max.parse().ok()?,
            before: SecretToken::parse(before),
            invitation: SecretToken::parse(invitation),
        };
        let age_ms = now_ms.checked_sub(attempt.begun_at_ms)?;
        ((0..i64::from(ATTEMPT_S_MAX) * 1_000).contains(&age_ms) && parts.next().is_none()).then_some(attempt)
    }

    /// `state`, which comes back with the provider's answer.
    pub(crate) fn state(&self) -> String {
        hex::encode(self.secret.derive(&self.purpose("state")))
    }

    /// Whether an answer with this `state` is one to this attempt.
    pub(crate) fn is_answered_by(&self, state: &str) -> bool {
        self.secret.confirms(&self.purpose("state"), state.as_bytes())
    }

    /// `nonce`, which the ID token must have.
    pub(crate) fn nonce(&self) -> String {
        hex::encode(self.secret.derive(&self.purpose("nonce")))
    }

    /// The PKCE verifier, which only the token request has.
    pub(crate) fn verifier(&self) -> String {
        hex::encode(self.secret.derive(&self.purpose("verifier")))
    }

    /// The PKCE challenge by the method `S256` (RFC 7636 section 4.2).
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier()))
    }

    /// The times and the invitation are part of it: a cookie with others answers to no `state` that
    /// was sent.
    fn purpose(&self, what: &str) -> String {
        let (begun_at_ms, age_s_max) = (self.begun_at_ms, self.age_s_max);
        let invitation = self.invitation.as_ref().map(SecretToken::reveal).unwrap_or_default();
        format!("sign-in {what} {begun_at_ms} {age_s_max} {invitation}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    #[test]
    fn a_cookie_brings_the_attempt_back_for_ten_minutes() {
        for before in [None, Some(SecretToken::generate().unwrap())] {
            let invitation = SecretToken::generate().ok().filter(|_| before.is_none());
            let attempt = SignInAttempt::begin(600, before.clone(), invitation.clone(), NOW_MS).unwrap();
            let cookie = attempt.cookie();
            let again = SignInAttempt::parse(&cookie, NOW_MS + 599_999).unwrap();
            assert!(again.is_answered_by(&attempt.state()));
            assert_eq!((again.nonce(), again.verifier()), (attempt.nonce(), attempt.verifier()));
            assert_eq!((again.before, again.invitation), (before, invitation));
            for wrong in [NOW_MS + 600_000, NOW_MS - 1, i64::MIN] {
                assert!(SignInAttempt::parse(&cookie, wrong).is_none(), "{wrong}");
            }
            // A later time, or a larger age, is another attempt.
            for changed in [
                cookie.replace(&NOW_MS.to_string(), &(NOW_MS + 1).to_string()),
                cookie.replace(".600.", ".6000."),
            ] {
                let changed = SignInAttempt::parse(&changed, NOW_MS + 1).unwrap();
                assert!(!changed.is_answered_by(&attempt.state()));
            }
        }
        for wrong in ["", "...", "a.1.2.3", &format!("{}.1800000000000.600.", "0".repeat(64))] {
            assert!(SignInAttempt::parse(wrong, NOW_MS).is_none(), "{wrong}");
        }
    }

    /// An answer and an ID token don't give the verifier away.
    #[test]
    fn its_secrets_are_apart() {
        let one = SignInAttempt::begin(600, None, None, NOW_MS).unwrap();
        let two = SignInAttempt::begin(600, None, None, NOW_MS).unwrap();
        let all = [one.state(), one.nonce(), one.verifier(), one.challenge(), two.state()];
        for (number, text) in all.iter().enumerate() {
            assert!(!all[..number].contains(text));
            assert!((43..=128).contains(&text.len()), "{text}");
        }
        assert!(!two.is_answered_by(&one.state()) && !one.is_answered_by(""));
    }
}

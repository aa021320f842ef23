//! Faults of tokens.

/// Fault for which a token isn't accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the token is longer than {0} bytes")]
    TooLong(usize),
    #[error("not a JWT: {0}")]
    Malformed(&'static str),
    #[error("the token's header has `{0}`, which isn't allowed here")]
    Header(&'static str),
    #[error("the token's algorithm isn't accepted: RS256, ES256 and EdDSA are, and HS256 where it is configured")]
    Algorithm,
    #[error("the token names a key that the issuer doesn't have")]
    UnknownKey,
    #[error("the token names a key that is for another algorithm")]
    OtherAlgorithm,
    #[error("the token names no key (`kid`), and the issuer has several")]
    Ambiguous,
    #[error("the token's signature doesn't verify")]
    Signature,
    #[error("the token is of another issuer (`iss`)")]
    Issuer,
    #[error("the token is for another audience (`aud`)")]
    Audience,
    #[error("the token has expired: get a new one from your identity provider")]
    Expired,
    #[error("the token isn't valid yet (`nbf`)")]
    NotYet,
    #[error("the token's `{0}` is missing or isn't what it should be")]
    Claim(&'static str),
    /// The keys are unavailable. Not the caller's fault.
    #[error("the issuer's keys can't be had")]
    Unavailable,
}

impl TokenError {
    /// Label of metrics.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Unavailable => "unavailable",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "bad_signature",
            _ => "refused",
        }
    }
}

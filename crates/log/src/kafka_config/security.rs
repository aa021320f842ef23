//! Security of connections to the brokers, and their login.

use serde::{Deserialize, Serialize};

/// Security of connections to the brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecurityProtocol {
    /// In the clear, no login.
    #[default]
    Plaintext,
    /// TLS; a login only by client certificate.
    Ssl,
    /// In the clear, with a login.
    #[serde(rename = "sasl_plaintext")]
    SaslPlaintext,
    /// TLS, with a login.
    #[serde(rename = "sasl_ssl")]
    SaslSsl,
}

impl SecurityProtocol {
    #[cfg(feature = "kafka")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Ssl => "ssl",
            Self::SaslPlaintext => "sasl_plaintext",
            Self::SaslSsl => "sasl_ssl",
        }
    }

    pub(crate) fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    pub(crate) fn has_login(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// Mechanism of the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SaslMechanism {
    /// RFC 4616: the password itself, so only within TLS.
    #[serde(rename = "PLAIN")]
    Plain,
    /// RFC 5802 with SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// RFC 5802 with SHA-512.
    #[default]
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

impl SaslMechanism {
    #[cfg(feature = "kafka")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

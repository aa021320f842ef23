//! Format faults: what is wrong, where (RFC 6901 JSON Pointer), and what to change.

use std::fmt;

use serde::{Serialize, Serializer};

/// At most this many faults are listed for one body.
pub(crate) const FAULTS_MAX: usize = 20;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// The stable, machine-readable kind of a format fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FaultCode { $($(#[doc = $doc])+ $name,)+ }

        impl FaultCode {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code as clients see it, in snake_case.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The code's meaning, for documents.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim(),)+ }
            }
        }
    };
}

codes! {
    /// Not JSON (RFC 8259).
    InvalidJson = "invalid_json",
    /// Not UTF-8 (RFC 8259 section 8.1).
    InvalidUtf8 = "invalid_utf8",
    /// Starts with a byte order mark (RFC 8259 section 8.1).
    ByteOrderMark = "byte_order_mark",
    /// Data follow the JSON value.
    TrailingData = "trailing_data",
    /// Two members of an object have one name (RFC 7493 section 2.3).
    DuplicateMember = "duplicate_member",
    /// A `\u` escape of half a surrogate pair (RFC 7493 section 2.1).
    LoneSurrogate = "lone_surrogate",
    /// Nested deeper than allowed.
    TooDeep = "too_deep",
    /// A number no IEEE 754 double holds (RFC 7493 section 2.2).
    NumberOutOfRange = "number_out_of_range",
    /// A required member is absent.
    MissingMember = "missing_member",
    /// A member is of another JSON type than it must be.
    WrongType = "wrong_type",
    /// Not a UUID in 36 characters.
    InvalidUuid = "invalid_uuid",
    /// Not an RFC 3339 timestamp with milliseconds.
    InvalidTimestamp = "invalid_timestamp",
    /// Too far ahead of, or behind, the time of arrival.
    TimestampOutOfRange = "timestamp_out_of_range",
    /// A `version` other than 1.0.0.
    UnsupportedVersion = "unsupported_version",
    /// A `signatureAlgorithm` other than Ed25519, RSA-2048 and ECDSA-P256.
    UnsupportedAlgorithm = "unsupported_algorithm",
    /// Not standard, padded base64 (RFC 4648 section 4).
    InvalidBase64 = "invalid_base64",
    /// Not an SPKI public key in PEM of a supported kind.
    InvalidPublicKey = "invalid_public_key",
    /// The key is of another kind than `signatureAlgorithm` names.
    KeyAlgorithmMismatch = "key_algorithm_mismatch",
    /// Not `sha256:` and 64 hexadecimal digits.
    InvalidContentHash = "invalid_content_hash",
    /// Not an http or https URL with a host.
    InvalidUrl = "invalid_url",
    /// A URL on another host than the publisher's.
    UrlOutsidePublisher = "url_outside_publisher",
    /// Not training, inference or research.
    InvalidPurpose = "invalid_purpose",
    /// Not a DNS host name.
    InvalidPublisher = "invalid_publisher",
    /// A string is longer than allowed.
    TooLong = "too_long",
    /// A receipt is longer than allowed.
    ReceiptTooLarge = "receipt_too_large",
    /// A batch is longer than allowed.
    BatchTooLarge = "batch_too_large",
    /// A batch whose `batchId` is an empty string.
    EmptyBatchId = "empty_batch_id",
    /// A batch without receipts.
    EmptyBatch = "empty_batch",
    /// A batch with more receipts than allowed.
    TooManyReceipts = "too_many_receipts",
    /// The receipts of a batch carry different keys.
    MixedKeys = "mixed_keys",
}

impl FaultCode {
    /// Whether the fault lies in what a member holds, rather than in the JSON or its size.
    pub(crate) const fn is_of_a_member(self) -> bool {
        !matches!(
            self,
            Self::InvalidJson
                | Self::InvalidUtf8
                | Self::ByteOrderMark
                | Self::TrailingData
                | Self::DuplicateMember
                | Self::LoneSurrogate
                | Self::TooDeep
                | Self::NumberOutOfRange
                | Self::ReceiptTooLarge
                | Self::BatchTooLarge
                | Self::TooManyReceipts
        )
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for FaultCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A fault of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{code} at \"{pointer}\": {detail}")]
pub struct Fault {
    /// JSON Pointer (RFC 6901); empty for the whole body.
    pub pointer: String,
    /// Kind of fault.
    pub code: FaultCode,
    /// Advice: what to change, for a person.
    pub detail: String,
}

/// Why a body isn't a receipt or batch: one to twenty faults, in the order they were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FormatError {
    /// The faults. Never empty.
    pub faults: Vec<Fault>,
    /// Whether there are more faults than are listed.
    pub more: bool,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if i > 0 { "; " } else { "" })?;
        }
        if self.more { f.write_str("; and more") } else { Ok(()) }
    }
}

impl std::error::Error for FormatError {}

impl FormatError {
    pub(crate) fn one(pointer: String, code: FaultCode, detail: String) -> Self {
        Self {
            faults: vec![Fault { pointer, code, detail }],
            more: false,
        }
    }
}

/// Collects faults up to [`FAULTS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Faults {
    list: Vec<Fault>,
    more: bool,
}

impl Faults {
    pub(crate) fn push(&mut self, pointer: String, code: FaultCode, detail: impl Into<String>) {
        if self.list.len() < FAULTS_MAX {
            self.list.push(Fault {
                pointer,
                code,
                detail: detail.into(),
            });
        } else {
            self.more = true;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether more was found than is listed.
    pub(crate) fn is_full(&self) -> bool {
        self.more
    }

    pub(crate) fn has(&self, pointer: &str) -> bool {
        self.list.iter().any(|fault| fault.pointer == pointer)
    }

    /// The faults as an error. Only where there are any.
    pub(crate) fn into_error(self) -> FormatError {
        FormatError {
            faults: self.list,
            more: self.more,
        }
    }

    /// Takes over another body's faults, its pointers below `prefix`.
    pub(crate) fn absorb(&mut self, prefix: &str, error: FormatError) {
        for fault in error.faults {
            self.push(format!("{prefix}{}", fault.pointer), fault.code, fault.detail);
        }
        self.more |= error.more;
    }
}

impl From<Box<Fault>> for FormatError {
    fn from(fault: Box<Fault>) -> Self {
        Self {
            faults: vec![*fault],
            more: false,
        }
    }
}

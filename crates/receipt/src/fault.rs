//! Format faults: what is wrong, where (RFC 6901 JSON Pointer), and what to change.

use std::fmt;

use serde::{Serialize, Serializer};

/// The most faults that are listed for one body.
pub(crate) const FAULTS_MAX: usize = 1_000;

/// The most faults that are listed for one receipt, so that a batch's list names many receipts.
const RECEIPT_FAULTS_MAX: usize = 20;

/// The longest list of faults, in bytes of pointers and details: a pointer contains names that the
/// sender chose.
const FAULTS_BYTES_MAX: usize = 256 * 1024;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $remedy:literal,)+) => {
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

            /// Advice: what to change, for documents.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)+ }
            }
        }
    };
}

codes! {
    /// Not JSON (RFC 8259).
    InvalidJson = "invalid_json", "Serialize the body with a JSON library.",
    /// Not UTF-8 (RFC 8259 section 8.1).
    InvalidUtf8 = "invalid_utf8", "Encode the body as UTF-8.",
    /// Starts with a byte order mark (RFC 8259 section 8.1).
    ByteOrderMark = "byte_order_mark", "Remove the first three bytes, EF BB BF.",
    /// Data follow the JSON value.
    TrailingData = "trailing_data", "Send one JSON value, and nothing after it.",
    /// Two members of an object have one name (RFC 7493 section 2.3).
    DuplicateMember = "duplicate_member", "Write each member once.",
    /// A `\u` escape of half a surrogate pair (RFC 7493 section 2.1).
    LoneSurrogate = "lone_surrogate",
        "Write characters beyond U+FFFF as both halves of the pair, or as UTF-8.",
    /// Nested deeper than allowed.
    TooDeep = "too_deep", "Flatten the members that you added: 32 nested arrays and objects are allowed.",
    /// A number no IEEE 754 double holds (RFC 7493 section 2.2).
    NumberOutOfRange = "number_out_of_range",
        "Write the number as a string, or within the range of a double.",
    /// A required member is absent.
    MissingMember = "missing_member", "Add the member that the pointer names.",
    /// A member is of another JSON type than it must be.
    WrongType = "wrong_type", "Write the JSON type that the detail names.",
    /// Not a UUID in 36 characters.
    InvalidUuid = "invalid_uuid", "Generate a UUID (RFC 9562) and write its 36 characters, hyphens included.",
    /// Not an RFC 3339 timestamp with a zone.
    InvalidTimestamp = "invalid_timestamp", "Write RFC 3339 with a zone, like `2026-11-24T09:30:01.125Z`.",
    /// Too far ahead of, or behind, the time of arrival.
    TimestampOutOfRange = "timestamp_out_of_range", "Check the clock, and send receipts within 30 days.",
    /// A `version` other than 1.0.0.
    UnsupportedVersion = "unsupported_version", "Write `1.0.0`.",
    /// A `signatureAlgorithm` other than Ed25519, RSA-2048 and ECDSA-P256.
    UnsupportedAlgorithm = "unsupported_algorithm",
        "Sign with Ed25519, RSA-2048 or ECDSA-P256, and name it so.",
    /// Not standard, padded base64 (RFC 4648 section 4).
    InvalidBase64 = "invalid_base64", "Encode with the standard alphabet and padding, without line breaks.",
    /// The signature has a length that no signature of its algorithm has.
    InvalidSignatureLength = "invalid_signature_length",
        "Send the decoded signature's 64 bytes (Ed25519, or ECDSA-P256 as r and s), 256 bytes (RSA-2048) or DER.",
    /// Not an SPKI public key in PEM of a supported kind.
    InvalidPublicKey = "invalid_public_key",
        "Send the public key as an SPKI PEM (`-----BEGIN PUBLIC KEY-----`). If it was the private key, replace the key.",
    /// The key is of another kind than `signatureAlgorithm` names.
    KeyAlgorithmMismatch = "key_algorithm_mismatch", "Name the algorithm of the key in `client.publicKey`.",
    /// Not `sha256:` and 64 hexadecimal digits.
    InvalidContentHash = "invalid_content_hash",
        "Write `sha256:` and the SHA-256 of the content as 64 hexadecimal digits.",
    /// Not an http or https URL whose host is a domain name.
    InvalidUrl = "invalid_url",
        "Write an absolute http or https URL with a domain name, without user name, whitespace or control characters.",
    /// A URL on another host than the publisher's.
    UrlOutsidePublisher = "url_outside_publisher",
        "Write the domain of the URL, or a parent domain of it, in `content.publisher`.",
    /// Not a purpose that the format has.
    InvalidPurpose = "invalid_purpose", "Write one of the purposes that the detail names.",
    /// Not a domain name.
    InvalidPublisher = "invalid_publisher",
        "Write a domain name, like `news.example.com`, without scheme and path. Addresses and `localhost` aren't domain names.",
    /// A text that is required is empty or white space only.
    EmptyText = "empty_text", "Write the name, the version or the use case that the member is for.",
    /// A string is longer than allowed.
    TooLong = "too_long", "Shorten the string to the limit that the detail names.",
    /// A receipt is longer than allowed.
    ReceiptTooLarge = "receipt_too_large",
        "Shorten or remove members that you added: 64 KiB are allowed by default.",
    /// A batch is longer than allowed.
    BatchTooLarge = "batch_too_large", "Divide the batch: 8 MiB are allowed by default.",
    /// A batch whose `batchId` is an empty string.
    EmptyBatchId = "empty_batch_id", "Give the batch an ID, such as a UUID.",
    /// A batch without receipts.
    EmptyBatch = "empty_batch", "Send at least one receipt.",
    /// A batch with more receipts than allowed.
    TooManyReceipts = "too_many_receipts", "Divide the batch: 10,000 receipts are allowed by default.",
    /// The receipts of a batch carry different keys.
    MixedKeys = "mixed_keys", "Send a batch for each key.",
}

impl FaultCode {
    /// Whether the body isn't JSON, or isn't JSON that has one meaning (RFC 8259, RFC 7493).
    #[must_use]
    pub const fn is_of_json(self) -> bool {
        matches!(
            self,
            Self::InvalidJson
                | Self::InvalidUtf8
                | Self::ByteOrderMark
                | Self::TrailingData
                | Self::DuplicateMember
                | Self::LoneSurrogate
                | Self::TooDeep
                | Self::NumberOutOfRange
        )
    }

    /// Whether the fault lies in what a member holds, rather than in the JSON or its size.
    pub(crate) const fn is_of_a_member(self) -> bool {
        !self.is_of_json()
            && !matches!(
                self,
                Self::ReceiptTooLarge | Self::BatchTooLarge | Self::TooManyReceipts
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

/// Why a body isn't a receipt or batch: its faults, in the order they were found. A batch has at
/// most 1,000, each receipt 20, and their texts take 256 KiB.
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

/// Collects faults up to a limit.
#[derive(Debug)]
pub(crate) struct Faults {
    list: Vec<Fault>,
    count_max: usize,
    bytes_left: usize,
    /// Whether a fault was found that the list had no room for.
    is_full: bool,
    more: bool,
}

impl Faults {
    /// The faults of a receipt, or of a batch's own members.
    pub(crate) fn of_receipt() -> Self {
        Self::up_to(RECEIPT_FAULTS_MAX)
    }

    /// The faults of a batch and its receipts.
    pub(crate) fn of_batch() -> Self {
        Self::up_to(FAULTS_MAX)
    }

    fn up_to(count_max: usize) -> Self {
        Self {
            list: Vec::new(),
            count_max,
            bytes_left: FAULTS_BYTES_MAX,
            is_full: false,
            more: false,
        }
    }

    pub(crate) fn push(&mut self, pointer: String, code: FaultCode, detail: impl Into<String>) {
        let detail = detail.into();
        let bytes = pointer.len() + detail.len();
        let fits = self.list.len() < self.count_max && bytes <= self.bytes_left;
        // The first fault is always listed: an error has one.
        if self.is_full || !(fits || self.list.is_empty()) {
            (self.is_full, self.more) = (true, true);
            return;
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.list.push(Fault { pointer, code, detail });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether a fault was found that the list had no room for. No further one is listed.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
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

//! Body and headers of a request.

use std::io::{self, Write};

use bytes::Bytes;
use receipt::BodyKind;

/// Fast, and most of what zstd can do for JSON.
const ZSTD_LEVEL: i32 = 3;

/// Compression of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

impl Compression {
    /// As in `Content-Encoding`.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// Compresses a body.
    ///
    /// # Errors
    /// The compressor fails.
    pub fn apply(self, body: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(body),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&body)?;
                encoder.finish()
            }
            Self::Zstd => zstd::encode_all(body.as_slice(), ZSTD_LEVEL),
        }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Endpoint that it goes to.
    pub kind: BodyKind,
    /// The body as sent.
    pub body: Bytes,
    /// Compression of the body.
    pub compression: Compression,
    /// `X-Service-Signature`: over the body before compression; where requests are signed.
    pub signature: Option<String>,
}

impl Submission {
    /// A batch as it is.
    #[must_use]
    pub fn of_batch(body: Bytes) -> Self {
        Self {
            kind: BodyKind::Batch,
            body,
            compression: Compression::None,
            signature: None,
        }
    }
}

//! Body and headers of a request.

use std::io::{self, Write};

use bytes::Bytes;
use receipt::BodyKind;

/// A shorter batch isn't worth the compression.
const COMPRESSED_BYTES_MIN: usize = 1 << 10;

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
    pub fn apply(self, body: &Bytes) -> io::Result<Bytes> {
        match self {
            Self::None => Ok(body.clone()),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(body)?;
                encoder.finish().map(Bytes::from)
            }
            Self::Zstd => zstd::encode_all(&body[..], ZSTD_LEVEL).map(Bytes::from),
        }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Endpoint that it goes to.
    pub kind: BodyKind,
    /// The body before compression.
    pub body: Bytes,
    /// Compression of the body on its way.
    pub compression: Compression,
    /// `X-Service-Signature`: over the body before compression; where requests are signed.
    pub signature: Option<String>,
}

impl Submission {
    /// A batch, compressed on its way if that is worth it.
    #[must_use]
    pub fn of_batch(body: Bytes) -> Self {
        let is_small = body.len() < COMPRESSED_BYTES_MIN;
        Self {
            kind: BodyKind::Batch,
            body,
            compression: if is_small { Compression::None } else { Compression::Gzip },
            signature: None,
        }
    }
}

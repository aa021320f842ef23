//! The page's files, in the binary: each with its type, its tag, and compressed once.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};
use web::compress::takes_gzip;

/// Name and bytes of every file, listed by `build.rs`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// By name, as the page names them: `index.html`, `assets/...`.
pub(super) static ASSETS: LazyLock<HashMap<&'static str, Asset>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|(name, bytes)| (*name, Asset::new(name, bytes)))
        .collect()
});

pub(super) struct Asset {
    pub(super) etag: HeaderValue,
    pub(super) caching: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    /// By gzip, where that saves anything.
    compressed: Option<&'static [u8]>,
}

impl Asset {
    fn new(name: &str, bytes: &'static [u8]) -> Self {
        let hash: String = Sha256::digest(bytes)
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            // Weak (RFC 9110 section 8.8.1): the compressed form has the same one.
            etag: HeaderValue::from_str(&format!("W/\"{hash}\"")).unwrap_or(HeaderValue::from_static("W/\"\"")),
            // Names under assets/ carry a hash of the content, so what they mean never changes.
            caching: if name.starts_with("assets/") {
                "public, max-age=31536000, immutable"
            } else {
                "no-cache"
            },
            media_type: media_type(name),
            bytes,
            compressed: compressed(bytes)
                .filter(|small| small.len() < bytes.len())
                .map(|small| &*small.leak()),
        }
    }

    /// Whether the sender has it already (`If-None-Match`).
    pub(super) fn is_cached_by(&self, request: &HeaderMap) -> bool {
        let cached = request
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|line| line.to_str().ok());
        let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let own = self.etag.to_str().map(weak).unwrap_or_default();
        cached
            .flat_map(|line| line.split(','))
            .any(|tag| tag.trim() == "*" || weak(tag) == own)
    }

    /// The file, compressed if the sender can read that.
    pub(super) fn body(&self, request: &HeaderMap) -> Response {
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        match self.compressed.filter(|_| takes_gzip(request)) {
            Some(small) => {
                let encoding = (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                ([kind, encoding], small).into_response()
            }
            None => ([kind], self.bytes).into_response(),
        }
    }
}

fn compressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

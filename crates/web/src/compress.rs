//! Compression of answers by gzip, where the client accepts it.
//!
//! A piece of [`PIECE_BYTES`] takes about 0.1 ms, so it is done in place: a runtime's thread is
//! free for others after each piece, however long the answer is.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use hyper::body::Frame;

/// Answers that are shorter gain nothing.
const BYTES_MIN: u64 = 1_024;

/// Bytes that are compressed at a time.
const PIECE_BYTES: usize = 16 << 10;

/// Whether `Accept-Encoding` names gzip and doesn't exclude it (RFC 9110 section 12.5.3).
#[must_use]
pub fn takes_gzip(request: &HeaderMap) -> bool {
    let lines = request
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

/// The answer compressed, unless it is short, compressed already, no text, or a live stream.
pub(crate) fn compressed(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let is_short = body.size_hint().upper().is_some_and(|bytes| bytes < BYTES_MIN);
    if is_short || head.headers.contains_key(header::CONTENT_ENCODING) || !is_compressible(&head.headers) {
        return Response::from_parts(head, body);
    }
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers
        .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    if let Some(strong) = strong_tag(&head.headers)
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", strong].concat())
    {
        head.headers.insert(header::ETAG, weak);
    }
    let body = Compressed {
        inner: body,
        encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
        waiting: Bytes::new(),
    };
    Response::from_parts(head, Body::new(body))
}

/// Whether the answer is text and no stream of events. JSON with a strong tag stays as it is: the
/// tag, which would have to be weak (RFC 9110 section 8.8.1), is for `If-Match`.
fn is_compressible(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    match kind {
        "application/json" => strong_tag(headers).is_none(),
        "text/event-stream" => false,
        _ => kind.starts_with("text/") || kind.ends_with("json"),
    }
}

fn strong_tag(headers: &HeaderMap) -> Option<&[u8]> {
    let tag = headers.get(header::ETAG).map(HeaderValue::as_bytes);
    tag.filter(|tag| !tag.starts_with(b"W/"))
}

/// A body on its way through the encoder.
struct Compressed {
    inner: Body,
    /// The encoder; none once the end was written.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// Bytes of the answer that are still to be compressed.
    waiting: Bytes,
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let Some(mut encoder) = this.encoder.take() else {
            return Poll::Ready(None);
        };
        if this.waiting.is_empty() {
            let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
                this.encoder = Some(encoder);
                return Poll::Pending;
            };
            match frame {
                Some(Ok(frame)) => this.waiting = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let end = encoder.finish().map_err(axum::Error::new);
                    return Poll::Ready(Some(end.map(|end| Frame::data(end.into()))));
                }
            }
        }
        let piece = this.waiting.split_to(this.waiting.len().min(PIECE_BYTES));
        if let Err(error) = encoder.write_all(&piece) {
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        let written = std::mem::take(encoder.get_mut());
        this.encoder = Some(encoder);
        if written.is_empty() {
            // Others get their turn between two pieces.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(written.into()))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::io::Read as _;

    use axum::response::IntoResponse;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;

    async fn bytes(response: Response) -> Bytes {
        response.into_body().collect().await.unwrap().to_bytes()
    }

    fn answer(kind: &'static str, tag: &'static str, text: &str) -> Response {
        ([(header::CONTENT_TYPE, kind), (header::ETAG, tag)], text.to_owned()).into_response()
    }

    #[test]
    fn gzip_must_be_named_and_not_excluded() {
        for (accepted, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, accepted.parse().unwrap())]);
            assert_eq!(takes_gzip(&headers), takes, "{accepted}");
        }
    }

    #[tokio::test]
    async fn long_text_is_compressed_and_comes_back_as_it_was() {
        let text: String = (0..40_000)
            .map(|number| format!("{{\"receipts\": {number}}}\n"))
            .collect();
        for (kind, tag) in [("application/json", "W/\"a\""), ("text/csv; charset=utf-8", "\"a\"")] {
            let response = compressed(answer(kind, tag, &text));
            assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
            assert_eq!(response.headers()[header::ETAG], "W/\"a\"");
            assert!(!response.headers().contains_key(header::CONTENT_LENGTH));
            let small = bytes(response).await;
            assert!(small.len() < text.len() / 4);
            let mut back = String::new();
            GzDecoder::new(&small[..]).read_to_string(&mut back).unwrap();
            assert_eq!(back, text);
        }
    }

    #[tokio::test]
    async fn short_answers_strong_tags_events_and_pictures_stay() {
        let long = "data: a\n\n".repeat(10_000);
        for (kind, text) in [
            ("text/csv", "a"),
            ("application/json", &*long),
            ("text/event-stream", &*long),
            ("image/png", &*long),
        ] {
            let response = compressed(answer(kind, "\"a\"", text));
            assert!(!response.headers().contains_key(header::CONTENT_ENCODING), "{kind}");
            assert_eq!(response.headers()[header::ETAG], "\"a\"");
            assert_eq!(bytes(response).await, text);
        }
    }
}

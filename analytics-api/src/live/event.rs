//! Events as bytes. Each is one or more whole events, so that a listener's chunks can come from anywhere.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Serialize;

use crate::completeness::Completeness;
use crate::live::keys::End;

/// The first bytes of a stream: how long to wait before it is opened again, in milliseconds.
pub(super) const HELLO: Bytes = Bytes::from_static(b"retry: 2000\n\n");
/// Keeps proxies from thinking that the stream is dead.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// The day's totals.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Totals<'a> {
    pub(super) total_receipts: u64,
    pub(super) unique_clients: u64,
    pub(super) usage_by_purpose: crate::routes::PurposeCounts,
    /// The day's start and end.
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    #[serde(flatten)]
    pub(super) completeness: Completeness,
}

/// `event: receipts`, of a JSON array and of how many more came that aren't in it.
pub(super) fn receipts(id: &str, array: &[u8], left_out: u64) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(array.len() + id.len() + 80);
    bytes.put_slice(b"event: receipts\nid: ");
    bytes.put_slice(id.as_bytes());
    bytes.put_slice(b"\ndata: {\"leftOut\":");
    bytes.put_slice(left_out.to_string().as_bytes());
    bytes.put_slice(b",\"receipts\":");
    bytes.put_slice(array);
    bytes.put_slice(b"}\n\n");
    bytes
}

/// `event: totals`.
pub(super) fn totals(id: &str, totals: &Totals<'_>) -> serde_json::Result<Bytes> {
    let mut bytes = format!("event: totals\nid: {id}\ndata: ").into_bytes();
    // JSON without line feeds: what serde_json writes is one line.
    serde_json::to_writer(&mut bytes, totals)?;
    bytes.extend_from_slice(b"\n\n");
    Ok(bytes.into())
}

/// `event: reload`: what came in between isn't told one by one.
pub(super) fn reload(id: &str) -> Bytes {
    let reason = "more has come, or changed, than is told one by one: load what is shown anew";
    format!("event: reload\nid: {id}\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}

/// `event: end`, the last one of a stream that must not go on as it is.
pub(super) fn end(why: End) -> Bytes {
    let reason = match why {
        End::Key => "the API key doesn't hold any more",
        End::Domains => "the account's domains have changed: connect again",
    };
    format!("event: end\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}

/// The last bytes at a shutdown: streams come back one after the other.
pub(super) fn retry(nth: u64) -> Bytes {
    format!("retry: {}\n\n", 1_000 + nth * 7_919 % 4_000).into()
}

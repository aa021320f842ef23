//! Events as bytes. Each is one or more whole events, so that a listener's chunks can come from anywhere.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Serialize;

use crate::completeness::Completeness;
use crate::live::keys::End;

/// The first bytes of a stream: how long to wait before it is opened again, in milliseconds.
pub(super) const HELLO: Bytes = Bytes::from_static(b"retry: 2000\n\n");
/// Keeps proxies from thinking that the stream is dead.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// Bytes of an event's receipts: they are full of strangers' texts, and neither a hub's memory nor a listener's takes any length.
const RECEIPTS_BYTES_MAX: usize = 1 << 20;

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

/// A JSON array of as many of the first `rows` as an event has room for, and how many those are.
pub(super) fn array<T: Serialize>(rows: &[T]) -> serde_json::Result<(Bytes, usize)> {
    let mut bytes = vec![b'['];
    for (at, row) in rows.iter().enumerate() {
        let end = bytes.len();
        if at > 0 {
            bytes.push(b',');
        }
        serde_json::to_writer(&mut bytes, row)?;
        if bytes.len() >= RECEIPTS_BYTES_MAX {
            bytes.truncate(end);
            bytes.push(b']');
            return Ok((bytes.into(), at));
        }
    }
    bytes.push(b']');
    Ok((bytes.into(), rows.len()))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_array_has_as_many_rows_as_an_event_has_room_for() {
        assert_eq!(array::<u8>(&[]).unwrap(), (Bytes::from_static(b"[]"), 0));
        assert_eq!(array(&["a", "b"]).unwrap(), (Bytes::from_static(b"[\"a\",\"b\"]"), 2));
        let long = "x".repeat(100_000);
        let (bytes, count) = array(&vec![&long; 200]).unwrap();
        assert_eq!((count, bytes.len() <= RECEIPTS_BYTES_MAX), (10, true));
        let told: Vec<String> = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(told, vec![long; 10]);
        let (bytes, count) = array(&["x".repeat(RECEIPTS_BYTES_MAX)]).unwrap();
        assert_eq!((count, bytes.as_ref()), (0, b"[]".as_slice()));
    }
}

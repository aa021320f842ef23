//! A record as a message: the body is the payload, everything beside it a header.
//!
//! | header | value |
//! |---|---|
//! | `format` | `1` |
//! | `kind` | `receipt`, `batch` or `verdicts` |
//! | `request-id` | as answered in `X-Request-Id` |
//! | `received-at-ms` | decimal, milliseconds since the Unix epoch |
//! | `request-signature` | `X-Service-Signature`, if there was one |
//! | `client-address` | the peer's address, if it is known |
//! | `traceparent` | the request's, if it had a valid one |
//!
//! Headers with other names are passed over, so readers of before `traceparent` read on. Reading
//! never fails: what anyone else wrote into the topic comes out as a record that the verifier
//! judges, and rejects with its bytes stored.

use std::net::IpAddr;

use bytes::Bytes;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};

use crate::record::{LoggedRecord, Position, Record, RecordKind, TraceText};

const FORMAT: &str = "format";
const KIND: &str = "kind";
const REQUEST_ID: &str = "request-id";
const RECEIVED_AT: &str = "received-at-ms";
const REQUEST_SIGNATURE: &str = "request-signature";
const CLIENT_ADDRESS: &str = "client-address";
const TRACEPARENT: &str = "traceparent";

/// The format's number; a reader of it must be running everywhere before a writer of the next is.
const FORMAT_NUMBER: &str = "1";
/// Most bytes of a request id ([`Record::request_id`]).
const REQUEST_ID_BYTES_MAX: usize = 64;
/// More than the lengths take that stand around a header and around a record.
const HEADER_FRAME_BYTES: usize = 10;
const RECORD_FRAME_BYTES: usize = 64;

fn kind_name(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Receipt => "receipt",
        RecordKind::Batch => "batch",
        RecordKind::Verdicts => "verdicts",
    }
}

/// The headers of `record`.
pub(super) fn headers_of(record: &Record) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new_with_capacity(7);
    for_each(record, |key, value| {
        let taken = std::mem::take(&mut headers);
        headers = taken.insert(Header {
            key,
            value: Some(value),
        });
    });
    headers
}

/// A bound of what `record` takes in the log, in bytes.
pub(super) fn encoded_len_max(record: &Record) -> usize {
    let mut bytes = record.body.len() + RECORD_FRAME_BYTES;
    for_each(record, |key, value| {
        bytes += key.len() + value.len() + HEADER_FRAME_BYTES
    });
    bytes
}

fn for_each(record: &Record, mut header: impl FnMut(&str, &str)) {
    header(FORMAT, FORMAT_NUMBER);
    header(KIND, kind_name(record.kind));
    header(REQUEST_ID, &record.request_id);
    header(RECEIVED_AT, &record.received_at_ms.to_string());
    if let Some(signature) = &record.request_signature {
        header(REQUEST_SIGNATURE, signature);
    }
    if let Some(address) = record.client_address {
        header(CLIENT_ADDRESS, &address.to_string());
    }
    if let Some(trace) = &record.trace {
        header(TRACEPARENT, trace.as_str());
    }
}

/// The record in `message`, which is in an epoch's topic.
pub(super) fn record_of(message: &impl Message, epoch: u32) -> LoggedRecord {
    let appended_at_ms = message.timestamp().to_millis().unwrap_or(0);
    let mut record = Record {
        kind: RecordKind::Receipt,
        body: Bytes::copy_from_slice(message.payload().unwrap_or_default()),
        request_signature: None,
        request_id: String::new(),
        received_at_ms: appended_at_ms,
        client_address: None,
        trace: None,
    };
    let count = message.headers().map_or(0, Headers::count);
    for Header { key, value } in (0..count).filter_map(|index| header(message, index)) {
        // A signature that isn't text stays one that is wrong.
        let text = String::from_utf8_lossy(value.unwrap_or_default());
        match key {
            KIND if text == kind_name(RecordKind::Batch) => record.kind = RecordKind::Batch,
            KIND if text == kind_name(RecordKind::Verdicts) => record.kind = RecordKind::Verdicts,
            REQUEST_ID if text.len() <= REQUEST_ID_BYTES_MAX => record.request_id = text.into_owned(),
            RECEIVED_AT => record.received_at_ms = text.parse().unwrap_or(appended_at_ms),
            REQUEST_SIGNATURE => record.request_signature = Some(text.into_owned()),
            CLIENT_ADDRESS => record.client_address = text.parse::<IpAddr>().ok(),
            TRACEPARENT => record.trace = TraceText::new(text.as_bytes()),
            _ => {}
        }
    }
    LoggedRecord {
        position: Position {
            epoch,
            partition: u32::try_from(message.partition()).unwrap_or(0),
            offset: u64::try_from(message.offset()).unwrap_or(0),
        },
        appended_at_ms,
        record,
    }
}

/// Returns a header; `None` if its name isn't text. rdkafka panics over such a name, and one
/// foreign record must not stop the log.
fn header(message: &impl Message, index: usize) -> Option<Header<'_, &[u8]>> {
    let read = || message.headers().and_then(|headers| headers.try_get(index));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .ok()
        .flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rdkafka::{Timestamp, message::OwnedMessage};

    use super::*;

    fn message(payload: Option<&[u8]>, headers: Option<OwnedHeaders>) -> OwnedMessage {
        let payload = payload.map(<[u8]>::to_vec);
        OwnedMessage::new(
            payload,
            None,
            "t".to_owned(),
            Timestamp::LogAppendTime(77),
            3,
            9,
            headers,
        )
    }

    #[test]
    fn a_record_comes_back_as_it_went() {
        let full = Record {
            kind: RecordKind::Batch,
            body: Bytes::from_static(b"{}"),
            request_signature: Some("c2ln".to_owned()),
            request_id: "id".to_owned(),
            received_at_ms: -5,
            client_address: Some([10, 0, 0, 1].into()),
            trace: TraceText::new(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        };
        let bare = Record {
            kind: RecordKind::Receipt,
            request_signature: None,
            client_address: None,
            trace: None,
            ..full.clone()
        };
        let block = Record::verdicts(Bytes::from_static(b"\0\xff"), 5);
        for record in [full, bare, block] {
            let logged = record_of(&message(Some(&record.body), Some(headers_of(&record))), 7);
            assert_eq!(logged.record, record);
            let position = Position {
                epoch: 7,
                partition: 3,
                offset: 9,
            };
            assert_eq!((logged.position, logged.appended_at_ms), (position, 77));
        }
    }

    #[test]
    fn whatever_stands_in_the_topic_becomes_a_record() {
        let nothing = record_of(&message(None, None), 1).record;
        assert!(nothing.body.is_empty() && nothing.request_id.is_empty());
        assert_eq!((nothing.kind, nothing.received_at_ms), (RecordKind::Receipt, 77));
        let long = "x".repeat(65);
        let odd = [
            (KIND, Some(&b"parcel"[..])),
            (REQUEST_ID, Some(long.as_bytes())),
            (RECEIVED_AT, Some(b"soon")),
            (REQUEST_SIGNATURE, Some(b"\xff")),
            (CLIENT_ADDRESS, Some(b"here")),
            (TRACEPARENT, Some(b"00-1")),
            ("tracestate", None),
        ];
        let headers = odd.into_iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value })
        });
        let odd = record_of(&message(Some(b"\0"), Some(headers)), 1).record;
        assert_eq!(
            (odd.kind, odd.received_at_ms, odd.client_address),
            (RecordKind::Receipt, 77, None)
        );
        assert!(odd.request_id.is_empty() && odd.trace.is_none());
        assert_eq!(
            odd.request_signature.as_deref(),
            Some("\u{fffd}"),
            "a wrong signature doesn't become none"
        );
    }
}

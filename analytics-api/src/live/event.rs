//! Events of a stream.

use std::fmt::Write as _;
use std::time::Duration;

use axum::response::sse::Event;
use serde::Serialize;

use super::keys::StreamEnd;

/// Bytes of an event's receipts: their texts come from strangers, and neither a topic's memory nor
/// a subscriber's accepts any length.
const RECEIPTS_BYTES_MAX: usize = 1 << 20;

/// A JSON array of as many of the first `rows` as an event has room for, and their number.
pub(super) fn array<T: Serialize>(rows: &[T]) -> serde_json::Result<(String, usize)> {
    let mut array = String::from("[");
    for (count, row) in rows.iter().enumerate() {
        let row = serde_json::to_string(row)?;
        if array.len() + row.len() + 1 >= RECEIPTS_BYTES_MAX {
            return Ok((array + "]", count));
        }
        if count > 0 {
            array.push(',');
        }
        array.push_str(&row);
    }
    Ok((array + "]", rows.len()))
}

/// First event: the pause before a client reconnects.
pub(super) fn hello() -> Event {
    Event::default().retry(Duration::from_secs(2))
}

/// `receipts`: a JSON array, and the number of further receipts that aren't in it.
pub(super) fn receipts(id: &str, array: &str, left_out: u64) -> Event {
    let mut data = Event::default().event("receipts").id(id).into_data_writer();
    // Writing to memory doesn't fail.
    let _ = write!(data, "{{\"leftOut\":{left_out},\"receipts\":{array}}}");
    data.into_event()
}

/// `totals`: the day's totals as JSON.
pub(super) fn totals(id: &str, totals: &str) -> Event {
    Event::default().event("totals").id(id).data(totals)
}

/// `reload`: changes that aren't sent one by one.
pub(super) fn reload(id: &str) -> Event {
    let data = r#"{"reason":"too many changes to send one by one: reload the data"}"#;
    Event::default().event("reload").id(id).data(data)
}

/// `end`: the last event of a stream that must not continue.
pub(super) fn end(end: StreamEnd) -> Event {
    let data = match end {
        StreamEnd::Key => r#"{"reason":"the API key doesn't hold any more"}"#,
        StreamEnd::Domains => r#"{"reason":"the account's domains or trusted operators have changed: connect again"}"#,
    };
    Event::default().event("end").data(data)
}

/// Last event at a shutdown. The pauses differ, so that clients reconnect one after the other.
pub(super) fn reconnect(nth: u64) -> Event {
    Event::default().retry(Duration::from_millis(1_000 + nth * 7_919 % 4_000))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_array_has_as_many_rows_as_an_event_has_room_for() {
        assert_eq!(array::<u8>(&[]).unwrap(), ("[]".to_owned(), 0));
        assert_eq!(array(&["a", "b"]).unwrap(), (r#"["a","b"]"#.to_owned(), 2));
        let long = "x".repeat(100_000);
        let (text, count) = array(&vec![&long; 200]).unwrap();
        assert_eq!((count, text.len() <= RECEIPTS_BYTES_MAX), (10, true));
        let rows: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(rows, vec![long; 10]);
        let (text, count) = array(&["x".repeat(RECEIPTS_BYTES_MAX)]).unwrap();
        assert_eq!((count, text.as_str()), (0, "[]"));
    }
}

//! Server-sent events (WHATWG HTML, section 9.2) out of the bytes of a stream, within a limit: an
//! event's length is the server's choice.

/// The longest event, in bytes. The analytics API's have at most 1 MiB of receipts.
pub(super) const EVENT_BYTES_MAX: usize = 4 << 20;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamEvent {
    /// Name of the event; `message` if it has none.
    pub(super) name: String,
    pub(super) data: String,
    /// ID of the last event that had one.
    pub(super) id: Option<String>,
}

/// An event is longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {EVENT_BYTES_MAX} bytes")]
pub(super) struct EventTooLong;

/// The events of a stream, fed with its bytes.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    line: Vec<u8>,
    /// The last byte was a CR, and an LF after it belongs to the same line end.
    is_after_cr: bool,
    has_begun: bool,
    name: String,
    data: String,
    has_data: bool,
    id: Option<String>,
    /// The pause before a reconnection that the server requests, in milliseconds.
    retry_ms: Option<u64>,
}

impl EventReader {
    /// The pause before a reconnection that the server requests, in milliseconds.
    pub(super) fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Reads further bytes, and returns the events that are complete with them.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, EventTooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let is_same_end = std::mem::take(&mut self.is_after_cr) && byte == b'\n';
            match byte {
                b'\n' if is_same_end => {}
                b'\n' | b'\r' => {
                    self.is_after_cr = byte == b'\r';
                    events.extend(self.end_line());
                }
                _ if self.line.len() + self.data.len() >= EVENT_BYTES_MAX => return Err(EventTooLong),
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<StreamEvent> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line = text.as_ref();
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()).filter(|id| !id.is_empty()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => self.retry_ms = value.parse().ok(),
            // A comment, or a field of another version.
            _ => {}
        }
        None
    }

    /// An event without data is none.
    fn end_event(&mut self) -> Option<StreamEvent> {
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        std::mem::take(&mut self.has_data).then(|| StreamEvent {
            name: if name.is_empty() { "message".to_owned() } else { name },
            data,
            id: self.id.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn event(name: &str, data: &str, id: Option<&str>) -> StreamEvent {
        StreamEvent {
            name: name.to_owned(),
            data: data.to_owned(),
            id: id.map(str::to_owned),
        }
    }

    #[test]
    fn the_events_are_the_same_however_the_bytes_are_cut() {
        let stream = "\u{feff}retry: 2000\n\n: a comment\n\nevent: totals\nid: 7\ndata: {}\n\n\
                      data:a\r\ndata: b\r\n\r\nid\rdata: ü\r\revent: x\nid: a\0b\ndata\n\nunknown: 1\ndata: cut off";
        let expected = [
            event("totals", "{}", Some("7")),
            event("message", "a\nb", Some("7")),
            event("message", "ü", None),
            event("x", "", None),
        ];
        for size in [1, 2, 3, 7, stream.len()] {
            let mut reader = EventReader::default();
            let chunks = stream.as_bytes().chunks(size);
            let events: Vec<StreamEvent> = chunks.flat_map(|chunk| reader.feed(chunk).unwrap()).collect();
            assert_eq!(events, expected, "{size} bytes at a time");
            assert_eq!(reader.retry_ms(), Some(2_000));
        }
    }

    #[test]
    fn an_event_has_a_limit() {
        let line = [b"data: ", "x".repeat(EVENT_BYTES_MAX / 2 - 64).as_bytes(), b"\n"].concat();
        let mut reader = EventReader::default();
        assert_eq!(reader.feed(&line), Ok(Vec::new()));
        assert_eq!(reader.feed(&line).unwrap(), Vec::new());
        assert_eq!(reader.feed(&line), Err(EventTooLong));
        // The limit is an event's, not the stream's.
        let mut reader = EventReader::default();
        for _ in 0..4 {
            reader.feed(&line).unwrap();
            assert_eq!(reader.feed(b"\n").unwrap().len(), 1);
        }
    }
}

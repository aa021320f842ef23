//! `traceparent`: which trace a request belongs to, as its sender says (W3C Trace Context Level 1,
//! section 3.2). `tracestate` isn't retained: it is for whoever makes spans, and none are made
//! here.

use std::fmt;

use http::{HeaderMap, HeaderName};
use tracing::field::DisplayValue;

/// The header, in requests.
pub const HEADER: HeaderName = HeaderName::from_static("traceparent");

/// Bytes of version 00 as text.
pub const TEXT_BYTES: usize = 55;

/// The only flag that is known of every version: the sender records this trace.
const SAMPLED: u8 = 1;

/// The trace of a request, and the sender's span in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace_id: TraceId,
    parent_id: [u8; 8],
    flags: u8,
}

/// The id of a trace; not all zero. Shown as 32 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

impl TraceParent {
    /// The request's, if it has exactly one and that is valid. Anything else is as none: a fault in
    /// somebody's tracing must not cost a receipt.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        // Most requests have none, and one look finds that out.
        headers.get(HEADER)?;
        let mut values = headers.get_all(HEADER).iter();
        match (values.next(), values.next()) {
            (Some(one), None) => Self::parse(one.as_bytes()),
            _ => None,
        }
    }

    /// Reads the header's value. Of a higher version the fields of version 00 count, as the
    /// standard has it (3.2.4), and of its flags the sampled one; `ff` is no version.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (value, more) = value.split_first_chunk::<TEXT_BYTES>()?;
        let [version] = hex(&value[0..2])?;
        let dashes = [value[2], value[35], value[52]] == [b'-'; 3];
        let ends = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => matches!(more, [] | [b'-', ..]),
        };
        if !dashes || !ends {
            return None;
        }
        let trace_id: [u8; 16] = hex(&value[3..35])?;
        let parent_id: [u8; 8] = hex(&value[36..52])?;
        let [flags] = hex(&value[53..55])?;
        let is_valid = trace_id != [0; 16] && parent_id != [0; 8];
        is_valid.then_some(Self {
            trace_id: TraceId(trace_id),
            parent_id,
            flags: if version == 0 { flags } else { flags & SAMPLED },
        })
    }

    /// The trace's id.
    #[must_use]
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// As version 00; what came as version 00 is as it came.
    #[must_use]
    pub fn text(&self) -> [u8; TEXT_BYTES] {
        let mut text = [b'-'; TEXT_BYTES];
        write_hex(&mut text[0..2], &[0]);
        write_hex(&mut text[3..35], &self.trace_id.0);
        write_hex(&mut text[36..52], &self.parent_id);
        write_hex(&mut text[53..55], &[self.flags]);
        text
    }
}

/// The field `trace_id` of a log line; a line of a request without one doesn't have it.
#[must_use]
pub fn field(trace: Option<TraceParent>) -> Option<DisplayValue<TraceId>> {
    trace.map(|trace| tracing::field::display(trace.trace_id))
}

impl fmt::Display for TraceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 32];
        write_hex(&mut text, &self.0);
        out.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// `text` as bytes; lower case only, as the standard has it.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(bytes)
}

fn write_hex(text: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// The standard's own example.
    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn text(trace: TraceParent) -> String {
        String::from_utf8(trace.text().to_vec()).unwrap()
    }

    #[test]
    fn a_valid_one_is_retained_as_it_is() {
        for good in [GOOD, &GOOD.replace("-01", "-00"), &GOOD.replace("-01", "-ff")] {
            let trace = TraceParent::parse(good.as_bytes()).unwrap();
            assert_eq!(text(trace), good);
            assert_eq!(trace.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        }
    }

    #[test]
    fn of_a_higher_version_what_is_known_counts() {
        for higher in [
            GOOD.replacen("00", "01", 1),
            GOOD.replacen("00", "fe", 1) + "-whatever comes",
            GOOD.replacen("00", "cc", 1).replace("-01", "-ff"),
            GOOD.replacen("00", "01", 1) + "-",
        ] {
            assert_eq!(text(TraceParent::parse(higher.as_bytes()).unwrap()), GOOD, "{higher}");
        }
    }

    #[test]
    fn anything_else_is_as_none() {
        for bad in [
            String::new(),
            GOOD[..54].to_owned(),
            GOOD.to_owned() + "-",
            GOOD.to_owned() + "0",
            GOOD.replacen("00", "ff", 1),
            GOOD.replacen("00", "01", 1) + ".more",
            GOOD.replacen("00", "0g", 1),
            GOOD.to_uppercase(),
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            GOOD.replace('-', "_"),
            format!(" {GOOD}"),
        ] {
            assert_eq!(TraceParent::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn more_than_one_header_is_as_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceParent::of(&headers), None);
        headers.append(HEADER, HeaderValue::from_static(GOOD));
        assert!(TraceParent::of(&headers).is_some());
        headers.append(HEADER, HeaderValue::from_static(GOOD));
        assert_eq!(TraceParent::of(&headers), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(trace_id in 1_u128.., parent_id in 1_u64.., flags in any::<u8>()) {
            let written = format!("00-{trace_id:032x}-{parent_id:016x}-{flags:02x}");
            let trace = TraceParent::parse(written.as_bytes()).unwrap();
            prop_assert_eq!(text(trace), written);
            prop_assert_eq!(trace.trace_id().to_string(), format!("{trace_id:032x}"));
        }

        #[test]
        fn whatever_comes_is_read_or_not(at in 0..TEXT_BYTES, byte in any::<u8>(), more in prop::collection::vec(any::<u8>(), 0..9)) {
            let mut value = GOOD.as_bytes().to_vec();
            value[at] = byte;
            value.extend(more);
            if let Some(trace) = TraceParent::parse(&value) {
                prop_assert_eq!(TraceParent::parse(&trace.text()), Some(trace));
                prop_assert_eq!(trace.text()[3..52].to_vec(), value[3..52].to_vec());
            }
        }
    }
}

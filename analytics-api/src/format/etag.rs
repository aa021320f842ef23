//! Entity tags of answers (RFC 9110 section 8.8.3).
//!
//! A tag is over the numbers, not over `completeThrough`, which moves all the time. Rows have that
//! in a header only, so their tags are strong; JSON has it among its members, so
//! its tags are weak: what they distinguish is the numbers, not each byte.

use sha2::{Digest, Sha256};

use web::format::Format;

/// The tag of an answer whose bytes, but for `completeThrough`, are these.
pub(crate) fn tag(format: Format, incomplete: bool, bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    hash.update([u8::from(incomplete)]);
    hash.update(bytes);
    let mut tag = match format {
        Format::Json => "W/\"".to_owned(),
        Format::Csv | Format::Ndjson | Format::Parquet => "\"".to_owned(),
    };
    for byte in hash.finalize().iter().take(16) {
        // Writing into a String can't fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_follow_the_bytes() {
        let one = tag(Format::Csv, false, b"a");
        assert_eq!(one, tag(Format::Csv, false, b"a"));
        assert_eq!((one.len(), one.starts_with('"')), (34, true));
        assert_ne!(one, tag(Format::Csv, false, b"b"));
        assert_ne!(one, tag(Format::Csv, true, b"a"));
        assert!(tag(Format::Json, false, b"a").starts_with("W/\""));
    }
}

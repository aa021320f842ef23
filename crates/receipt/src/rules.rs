//! The rules of single values: URLs, hashes, UUIDs, base64.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::fault::FaultCode;
use crate::text::hex_digit;

/// The decoded bytes of a signature: Ed25519 64, RSA-2048 256, ECDSA-P256 up to 72.
pub type SignatureBytes = SmallVec<[u8; 96]>;

/// The longest signature that is decoded. The longest that can be right has 256 bytes.
pub(crate) const SIGNATURE_BYTES_MAX: usize = 512;
/// The longest base64 that decodes to that.
const SIGNATURE_TEXT_MAX: usize = SIGNATURE_BYTES_MAX.div_ceil(3) * 4;

/// A UUID in its 36-character form, in either case (RFC 9562 section 4). Neither the nil nor the
/// max UUID: they identify nothing (sections 5.9 and 5.10), and our tables have the nil one for
/// erased clients.
pub(crate) fn uuid(text: &str) -> Option<Uuid> {
    // Of the forms that the crate reads, only the hyphenated one has 36 characters.
    if text.len() != 36 {
        return None;
    }
    let uuid = Uuid::try_parse_ascii(text.as_bytes()).ok()?;
    (!uuid.is_nil() && !uuid.is_max()).then_some(uuid)
}

/// The hash of `sha256:` and 64 hexadecimal digits, in either case.
pub(crate) fn content_hash(text: &str) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = text.strip_prefix("sha256:")?.as_bytes().try_into().ok()?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(hash)
}

/// Why a text isn't a signature's base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureTextError {
    NotBase64,
    TooLong,
}

impl SignatureTextError {
    /// The code, and what to change.
    pub(crate) const fn explain(self) -> (FaultCode, &'static str) {
        match self {
            Self::NotBase64 => (
                FaultCode::InvalidBase64,
                "must be a signature in standard base64 with padding",
            ),
            Self::TooLong => (FaultCode::TooLong, "a signature has at most 512 bytes"),
        }
    }
}

/// Strict base64: the standard alphabet, padded, no stray bits (RFC 4648 section 4), of 1 to 512
/// bytes.
pub(crate) fn signature(text: &str) -> Result<SignatureBytes, SignatureTextError> {
    if text.len() > SIGNATURE_TEXT_MAX {
        return Err(SignatureTextError::TooLong);
    }
    let mut buffer = [0; SIGNATURE_TEXT_MAX / 4 * 3];
    match STANDARD.decode_slice(text, &mut buffer) {
        Ok(length) if length > SIGNATURE_BYTES_MAX => Err(SignatureTextError::TooLong),
        Ok(length) if length > 0 => Ok(SignatureBytes::from_slice(&buffer[..length])),
        _ => Err(SignatureTextError::NotBase64),
    }
}

/// Returns the host of an http or https URL (RFC 3986 section 3) without userinfo, free of
/// whitespace and control characters. `None` if the text isn't such a URL.
pub(crate) fn url_host(text: &str) -> Option<&str> {
    let scheme_is = |scheme: &str| {
        text.get(..scheme.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    };
    let rest = if scheme_is("https://") {
        &text["https://".len()..]
    } else if scheme_is("http://") {
        &text["http://".len()..]
    } else {
        return None;
    };
    // Without an early exit, so that it compiles to vector instructions.
    let (bad, all) = text
        .bytes()
        .fold((false, 0), |(bad, all), b| (bad | (b <= b' ') | (b == 0x7f), all | b));
    let beyond_ascii = |c: char| !c.is_ascii() && (c.is_whitespace() || c.is_control());
    if bad || (all >= 0x80 && text.contains(beyond_ascii)) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.strip_prefix('[') {
        Some(literal) => match literal.split_once(']') {
            Some((address, after)) if address.parse::<std::net::Ipv6Addr>().is_ok() => (
                address,
                if after.is_empty() {
                    Some("")
                } else {
                    after.strip_prefix(':')
                },
            ),
            _ => return None,
        },
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            (host, Some(port))
        }
    };
    let port_is_good =
        port.is_some_and(|p| p.is_empty() || (p.bytes().all(|b| b.is_ascii_digit()) && p.parse::<u16>().is_ok()));
    let host_is_good = !host.is_empty() && host.bytes().all(is_host_byte);
    (port_is_good && host_is_good).then_some(host)
}

/// Leaves out what no host may contain, `@` of userinfo included; letters beyond ASCII are in (RFC
/// 3987).
const fn is_host_byte(byte: u8) -> bool {
    !matches!(
        byte,
        b'\\' | b'@' | b'<' | b'>' | b'"' | b'^' | b'`' | b'{' | b'|' | b'}' | b'[' | b']'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for good in [
            "http://a",
            "https://example.com",
            "HTTPS://Example.com:8443/a?b#c",
            "http://[::1]:80/x",
            "http://[2001:db8::1]",
            "https://bücher.example/ä",
            "https://a?b",
            "http://a:",
        ] {
            assert!(url_host(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "ftp://a",
            "https://",
            "https:///x",
            "http://?x",
            "http://#",
            "http://:80",
            "http://u@",
            "http://u@a",
            "https://user:pw@example.com/",
            "https://news.example:pw@other.example/",
            "http://a b",
            "http://a/b c",
            "http://a\t",
            "http://a/\u{7f}",
            "http://a/\u{a0}",
            "http://a/\u{2028}",
            "http://a:x",
            "http://a:65536",
            "http://[::1",
            "http://[zz]",
            "http://[::1]x",
            " http://a",
            "http:/a",
            "http:a",
            "https://a\\b",
            "http\u{e9}://a",
        ] {
            assert!(url_host(bad).is_none(), "{bad}");
        }
        assert_eq!(url_host("HTTPS://Example.com:8443/a?b#c@d"), Some("Example.com"));
        assert_eq!(url_host("http://[::1]:80/x"), Some("::1"));
    }

    #[test]
    fn uuids() {
        assert!(uuid("550e8400-e29b-41d4-a716-446655440000").is_some());
        assert!(uuid("550E8400-E29B-41D4-A716-446655440000").is_some());
        for bad in [
            "",
            "550e8400e29b41d4a716446655440000",
            "{550e8400-e29b-41d4-a716-446655440000}",
            "550e8400-e29b-41d4-a716-44665544000g",
            "550e8400-e29b-41d4-a7164-46655440000",
            "550e8400-e29b-41d4-a716-4466554400\u{e9}",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        ] {
            assert!(uuid(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn signatures_are_strict_base64() {
        assert_eq!(signature("AAECAw==").as_deref(), Ok(&[0, 1, 2, 3][..]));
        for bad in [
            "",
            "AAECAw",
            "AAECAw=",
            "AAECAx==",
            "AAEC Aw==",
            "AAECAw==\n",
            "-_==",
            "====",
            "A",
        ] {
            assert_eq!(signature(bad), Err(SignatureTextError::NotBase64), "{bad}");
        }
        assert!(signature(&STANDARD.encode([7; 512])).is_ok());
        assert_eq!(signature(&STANDARD.encode([7; 513])), Err(SignatureTextError::TooLong));
        assert_eq!(
            signature(&STANDARD.encode([7; 5_000])),
            Err(SignatureTextError::TooLong)
        );
    }

    #[test]
    fn content_hashes() {
        let digits = "0123456789abcdefABCDEF0123456789abcdefABCDEF0123456789abcdefABCD";
        assert_eq!(
            content_hash(&format!("sha256:{digits}")).map(|hash| hash[..3].to_vec()),
            Some(vec![1, 0x23, 0x45])
        );
        for bad in [
            digits,
            "sha256:",
            "SHA256:00",
            &format!("sha256:{digits}0"),
            &format!("sha512:{digits}"),
        ] {
            assert_eq!(content_hash(bad), None, "{bad}");
        }
    }
}

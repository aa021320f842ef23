//! `multipart/form-data` as ClickHouse's clients send it: the query and its parameters as fields.

/// The fields of a body, or `None` if it isn't well-formed multipart.
pub(crate) fn fields(content_type: &str, body: &[u8]) -> Option<Vec<(String, String)>> {
    let boundary = boundary(content_type)?;
    let opening = format!("--{boundary}");
    let separator = format!("\r\n--{boundary}");
    let mut rest = body.strip_prefix(opening.as_bytes())?;
    let mut fields = Vec::new();
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return matches!(end, b"" | b"\r\n").then_some(fields);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = find(rest, b"\r\n\r\n")?;
        let name = field_name(std::str::from_utf8(&rest[..head_end]).ok()?)?;
        rest = &rest[head_end + 4..];
        let value_end = find(rest, separator.as_bytes())?;
        fields.push((name, std::str::from_utf8(&rest[..value_end]).ok()?.to_owned()));
        rest = &rest[value_end + separator.len()..];
    }
}

fn boundary(content_type: &str) -> Option<&str> {
    let mut parts = content_type.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = parts.find_map(|part| part.strip_prefix("boundary="))?.trim_matches('"');
    // RFC 2046, section 5.1.1: 1 to 70 characters.
    (1..=70).contains(&value.len()).then_some(value)
}

fn field_name(head: &str) -> Option<String> {
    let line = head
        .split("\r\n")
        .find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
    let start = line.find(" name=\"")? + 7;
    let length = line[start..].find('"')?;
    Some(line[start..start + length].to_owned())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::fields;

    #[test]
    fn fields_are_taken_byte_for_byte() {
        let body = "--b1\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nSELECT {p:String}\r\n\
                    --b1\r\nContent-Disposition: form-data; name=\"param_p\"\r\n\r\nit's \"ü\"\r\n--b\r\n\r\n\
                    --b1--\r\n";
        // Lines are split by `\r\n` only where the boundary follows.
        let found = fields(
            "multipart/form-data; boundary=b1",
            body.replace("                    ", "").as_bytes(),
        );
        assert_eq!(
            found.unwrap(),
            [
                ("query".to_owned(), "SELECT {p:String}".to_owned()),
                ("param_p".to_owned(), "it's \"ü\"\r\n--b\r\n".to_owned())
            ]
        );
    }

    #[test]
    fn broken_bodies_are_none() {
        for (kind, body) in [
            ("text/plain", "--b--"),
            ("multipart/form-data", "--b--"),
            ("multipart/form-data; boundary=b", ""),
            (
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nSELECT 1",
            ),
            ("multipart/form-data; boundary=b", "--b\r\nX: y\r\n\r\nv\r\n--b--"),
        ] {
            assert!(fields(kind, body.as_bytes()).is_none(), "{kind} {body}");
        }
        assert_eq!(
            fields("multipart/form-data; boundary=b", b"--b--\r\n"),
            Some(Vec::new())
        );
    }
}

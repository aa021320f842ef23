//! PEM (RFC 7468): one block, nothing around it.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The DER in a PEM block with this label. The error says what to change.
pub(crate) fn decode(pem: &str, label: &str) -> Result<Vec<u8>, String> {
    let must = |what: &str, line: &str| format!("the PEM must {what} with -----{line} {label}-----");
    let body = strip(pem, "BEGIN", label).ok_or_else(|| must("begin", "BEGIN"))?;
    let end = body.find("-----").ok_or_else(|| must("end", "END"))?;
    let (body, end) = body.split_at(end);
    let rest = strip(end, "END", label).ok_or_else(|| must("end", "END"))?;
    if !rest.bytes().all(|b| b.is_ascii_whitespace()) {
        return Err("remove what follows the PEM block".to_owned());
    }
    let mut base64 = String::with_capacity(body.len());
    base64.extend(body.split([' ', '\t', '\r', '\n']));
    STANDARD
        .decode(base64)
        .map_err(|_| "the PEM's body must be padded base64".to_owned())
}

/// What follows `-----WORD LABEL-----` at the start.
fn strip<'a>(text: &'a str, word: &str, label: &str) -> Option<&'a str> {
    text.strip_prefix("-----")?
        .strip_prefix(word)?
        .strip_prefix(' ')?
        .strip_prefix(label)?
        .strip_prefix("-----")
}

/// A PEM block in lines of 64 characters, each ended by a line feed.
pub(crate) fn encode(der: &[u8], label: &str) -> String {
    let base64 = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in base64.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|&b| char::from(b)));
        pem.push('\n');
    }
    pem.push_str("-----END ");
    pem.push_str(label);
    pem.push_str("-----\n");
    pem
}

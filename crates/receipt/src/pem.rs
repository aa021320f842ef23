//! PEM (RFC 7468): one block, nothing around it.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The DER in a PEM block with this label. The error says what to change.
///
/// Between RFC 7468's strict and lax forms: lines may be of any length, end in spaces, CR LF or LF, and hold spaces. What
/// OpenSSL can't read isn't read here either: boundaries that share a line with base64, empty lines, CR as a line end.
pub(crate) fn decode(pem: &str, label: &str) -> Result<Vec<u8>, String> {
    let must = |what: &str, line: &str| format!("the PEM must {what} with the line -----{line} {label}-----");
    let mut lines = pem.split('\n');
    let begins = lines
        .next()
        .and_then(|line| boundary(line, "BEGIN", label))
        .is_some_and(is_blank);
    if !begins {
        return Err(must("begin", "BEGIN"));
    }
    let mut base64 = String::with_capacity(pem.len());
    let after = loop {
        let line = lines.next().ok_or_else(|| must("end", "END"))?;
        if line.starts_with('-') {
            break boundary(line, "END", label).ok_or_else(|| must("end", "END"))?;
        }
        if is_blank(line) {
            return Err("remove the empty lines from the PEM".to_owned());
        }
        base64.extend(line.trim_end_matches('\r').split([' ', '\t']));
    };
    if !is_blank(after) || !lines.all(is_blank) {
        return Err("remove what follows the PEM block".to_owned());
    }
    STANDARD
        .decode(base64)
        .map_err(|_| "the PEM's body must be padded base64".to_owned())
}

/// What follows `-----WORD LABEL-----` at the start of a line.
fn boundary<'a>(line: &'a str, word: &str, label: &str) -> Option<&'a str> {
    line.strip_prefix("-----")?
        .strip_prefix(word)?
        .strip_prefix(' ')?
        .strip_prefix(label)?
        .strip_prefix("-----")
}

fn is_blank(line: &str) -> bool {
    line.bytes().all(|b| b.is_ascii_whitespace())
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

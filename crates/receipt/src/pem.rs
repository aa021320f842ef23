//! PEM (RFC 7468): one block, nothing around it.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// A line longer than this holds no spaces: OpenSSL reads lines in pieces of 254 bytes, and takes a
/// piece that is all spaces for an empty line.
const SPACED_BYTES_MAX: usize = 128;

/// The DER in a PEM block with this label. The error says what to change.
///
/// Between RFC 7468's strict and lax forms: lines may be of any length, end in CR LF or LF, and
/// hold a few spaces. What OpenSSL can't read isn't read here either: a boundary and base64 in one
/// line, empty lines, CR as a line end.
pub(crate) fn decode(pem: &str, label: &str) -> Result<Vec<u8>, String> {
    let must = |what: &str, line: &str| format!("the PEM must {what} with the line -----{line} {label}-----");
    let mut lines = pem.split('\n');
    let begins = lines
        .next()
        .and_then(|line| boundary(line, "BEGIN", label))
        .is_some_and(|after| is_blank(after) && after.len() < SPACED_BYTES_MAX);
    if !begins {
        return Err(must("begin", "BEGIN"));
    }
    let mut base64 = String::with_capacity(pem.len());
    let after = loop {
        let line = lines.next().ok_or_else(|| must("end", "END"))?;
        if line.starts_with('-') {
            break boundary(line, "END", label).ok_or_else(|| must("end", "END"))?;
        }
        let base64_line = line.strip_suffix('\r').unwrap_or(line);
        let is_spaced = base64_line.contains([' ', '\t']);
        if is_blank(line) || (is_spaced && line.len() > SPACED_BYTES_MAX) {
            return Err("remove empty lines and spaces from the PEM".to_owned());
        }
        base64.extend(base64_line.split([' ', '\t']));
    };
    if !is_blank(after) || !lines.all(is_blank) {
        return Err("remove what follows the PEM block".to_owned());
    }
    STANDARD
        .decode(base64)
        .map_err(|_| "the PEM's body must be padded base64".to_owned())
}

/// Returns the rest behind `-----WORD LABEL-----` at the start of a line.
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

#[cfg(test)]
mod tests {
    use super::decode;

    const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
    const END: &str = "-----END PUBLIC KEY-----";

    fn reads(pem: &str) -> bool {
        let der = decode(pem, "PUBLIC KEY");
        assert!(der.as_ref().map_or(true, |der| der == &[0, 1, 2, 3, 4, 5]), "{pem:?}");
        der.is_ok()
    }

    #[test]
    fn reads_what_openssl_reads() {
        for pem in [
            format!("{BEGIN}\nAAECAwQF\n{END}\n"),
            format!("{BEGIN}\nAAECAwQF\n{END}"),
            format!("{BEGIN}\r\nAAEC\r\nAwQF\r\n{END}\r\n\r\n"),
            format!("{BEGIN} \t\n  AAE CAwQF \n{END} \n\n"),
            format!("{BEGIN}\nA\nAECAw\nQF\n{END}"),
        ] {
            assert!(reads(&pem), "{pem:?}");
        }
    }

    /// Each of these, around a real key, is refused by OpenSSL 3.0's `PEM_read_bio_PUBKEY`, too.
    #[test]
    fn refuses_what_openssl_refuses() {
        let spaces = " ".repeat(600);
        for pem in [
            format!("{BEGIN}AAECAwQF{END}"),
            format!("{BEGIN}AAECAwQF\n{END}\n"),
            format!("{BEGIN}\nAAECAwQF{END}\n"),
            format!("{BEGIN}\rAAECAwQF\r{END}\r"),
            format!("{BEGIN}\nAAECAwQF\n\n{END}\n"),
            format!("{BEGIN}\nAAEC\n\nAwQF\n{END}\n"),
            format!("{BEGIN}\nAAEC\r\n\r\nAwQF\n{END}\n"),
            format!("{BEGIN}\nAAECAwQF\n {END}\n"),
            format!("{BEGIN}\n{spaces}AAECAwQF\n{END}\n"),
            format!("{BEGIN}\nAAECAwQF\n"),
            BEGIN.to_owned(),
            String::new(),
        ] {
            assert!(!reads(&pem), "{pem:?}");
        }
    }
}

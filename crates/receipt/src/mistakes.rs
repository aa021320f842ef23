//! Usual mistakes of signing: what a bad signature is over, instead of the canonical bytes.

use aws_lc_rs::signature::{RSA_PSS_2048_8192_SHA256, UnparsedPublicKey};

use crate::canonical::{SIGNATURE_MEMBERS, write_value};
use crate::key::sha256;
use crate::tape::{NodeId, NodeKind, Tape};
use crate::{PublicKey, text};

/// Advice where a signature is over none of the usual wrong messages.
const UNKNOWN: &str = "it is over none of the usual wrong messages either: another key than client.publicKey signed \
                       it, or something was changed after it was signed";
/// Advice in that case where the key of `client.publicKey` has signed the request.
const UNKNOWN_OF_SENDER: &str = "it is over none of the usual wrong messages either: another key than the request's \
                                 signed the receipt, or it was changed after it was signed";

/// A way in which JSON libraries write the members that are signed.
struct JsonStyle {
    /// Members by their names, not as they were sent.
    is_sorted: bool,
    /// Characters that are written as `\u` escapes.
    escapes: fn(char) -> bool,
    item: &'static str,
    colon: &'static str,
    /// Spaces of each level where values stand on lines of their own.
    indent: usize,
    advice: &'static str,
}

const COMPACT: JsonStyle = JsonStyle {
    is_sorted: false,
    escapes: is_never,
    item: ",",
    colon: ":",
    indent: 0,
    advice: "",
};

/// As Python's `json.dumps` without `ensure_ascii=False`.
fn is_beyond_ascii(c: char) -> bool {
    !(' '..='~').contains(&c)
}

/// As Go's `encoding/json` with `SetEscapeHTML`, its default.
fn is_special_in_html(c: char) -> bool {
    matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

fn is_never(_: char) -> bool {
    false
}

const STYLES: [JsonStyle; 11] = [
    JsonStyle {
        advice: "it is over the members in the order as sent: sort them by name (RFC 8785)",
        ..COMPACT
    },
    JsonStyle {
        is_sorted: true,
        escapes: is_beyond_ascii,
        advice: "it is over the ASCII-escaped form: write characters as UTF-8 (in Python ensure_ascii=False)",
        ..COMPACT
    },
    JsonStyle {
        is_sorted: true,
        escapes: is_special_in_html,
        advice: "it is over a form with <, > or & escaped: write them as they are (in Go SetEscapeHTML(false))",
        ..COMPACT
    },
    JsonStyle {
        escapes: is_beyond_ascii,
        advice: "it is over the ASCII-escaped form, in the order as sent: sort the members, and write UTF-8",
        ..COMPACT
    },
    JsonStyle {
        is_sorted: true,
        item: ", ",
        colon: ": ",
        advice: "it is over a form with spaces behind commas and colons: write none",
        ..COMPACT
    },
    JsonStyle {
        is_sorted: true,
        escapes: is_beyond_ascii,
        item: ", ",
        colon: ": ",
        advice: "it is over the ASCII-escaped form with spaces: write UTF-8, and no spaces",
        ..COMPACT
    },
    JsonStyle {
        item: ", ",
        colon: ": ",
        advice: "it is over a form with spaces, in the order as sent: sort the members, and write no spaces",
        ..COMPACT
    },
    JsonStyle {
        escapes: is_beyond_ascii,
        item: ", ",
        colon: ": ",
        advice: "it is over Python's json.dumps: sort the members, and write UTF-8 and no spaces (RFC 8785)",
        ..COMPACT
    },
    JsonStyle {
        colon: ": ",
        indent: 2,
        advice: "it is over an indented form: write no whitespace (RFC 8785)",
        ..COMPACT
    },
    JsonStyle {
        is_sorted: true,
        colon: ": ",
        indent: 2,
        advice: "it is over an indented form: write no whitespace (RFC 8785)",
        ..COMPACT
    },
    JsonStyle {
        colon: ": ",
        indent: 4,
        advice: "it is over an indented form: write no whitespace (RFC 8785)",
        ..COMPACT
    },
];

/// Returns advice for a signature that isn't over `canonical`. `document` is the signed document
/// where it is at hand; `signed_request` says that the key has signed the request around it.
/// Verifies about 20 times.
pub(crate) fn advice(
    key: &PublicKey,
    canonical: &[u8],
    signature: &[u8],
    document: Option<(&Tape, &str)>,
    signed_request: bool,
) -> &'static str {
    let unknown = if signed_request { UNKNOWN_OF_SENDER } else { UNKNOWN };
    let is_over = |message: &[u8]| key.verify(message, signature);
    let digest = sha256(canonical);
    if is_over(&digest) || is_over(hex::encode(digest).as_bytes()) {
        return "it is over the SHA-256 of the canonical bytes: sign the bytes themselves, which the algorithm hashes";
    }
    if is_over(&[canonical, b"\n"].concat()) {
        return "it is over the canonical bytes and a line feed: remove the line feed";
    }
    if is_pss(key, canonical, signature) {
        return "it is RSA-PSS: sign with PKCS#1 v1.5 and SHA-256";
    }
    let Some((tape, text)) = document else { return unknown };
    for skipped in [&SIGNATURE_MEMBERS[..1], &[]] {
        let whole = JsonStyle {
            is_sorted: true,
            ..COMPACT
        };
        for empty in [None, Some("\"\""), Some("null")] {
            if is_over(&whole.write(tape, text, skipped, empty)) {
                return "it is over the whole document: remove both signature and signatureAlgorithm before signing";
            }
        }
    }
    let style = STYLES
        .iter()
        .find(|style| is_over(&style.write(tape, text, &SIGNATURE_MEMBERS, None)));
    style.map_or(unknown, |style| style.advice)
}

/// Whether a signature is RSA-PSS of the right bytes.
fn is_pss(key: &PublicKey, canonical: &[u8], signature: &[u8]) -> bool {
    key.rsa_der().is_some_and(|der| {
        UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, der)
            .verify(canonical, signature)
            .is_ok()
    })
}

impl JsonStyle {
    /// Writes a document without the members `skipped`. The value of `signature` is replaced by
    /// `empty`, if given.
    fn write(&self, tape: &Tape, text: &str, skipped: &[&str], empty: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        self.value(tape, 0, text, skipped, empty, 1, &mut out);
        out
    }

    #[allow(clippy::too_many_arguments)]
    fn value(
        &self,
        tape: &Tape,
        id: NodeId,
        text: &str,
        skipped: &[&str],
        empty: Option<&str>,
        depth: usize,
        out: &mut Vec<u8>,
    ) {
        let node = tape.node(id);
        let (open, close) = match node.kind {
            NodeKind::Object => (b'{', b'}'),
            NodeKind::Array => (b'[', b']'),
            NodeKind::String => return self.string(tape.inner(id, text), out),
            _ => return write_value(tape, id, text, out),
        };
        let is_object = node.kind == NodeKind::Object;
        let mut children = Vec::new();
        let mut child = id + 1;
        while child < node.next {
            children.push(child);
            let value = if is_object { child + 1 } else { child };
            child = tape.node(value).next;
        }
        if is_object && self.is_sorted {
            children = tape.names(id).to_vec();
        }
        let name_of = |child: NodeId| tape.string(child, text);
        children.retain(|&child| !is_object || !skipped.contains(&&*name_of(child)));
        out.push(open);
        for (index, &child) in children.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(self.item.as_bytes());
            }
            self.line(depth, out);
            if !is_object {
                self.value(tape, child, text, &[], None, depth + 1, out);
                continue;
            }
            self.string(tape.inner(child, text), out);
            out.extend_from_slice(self.colon.as_bytes());
            match empty.filter(|_| name_of(child) == SIGNATURE_MEMBERS[0]) {
                Some(empty) => out.extend_from_slice(empty.as_bytes()),
                None => self.value(tape, child + 1, text, &[], None, depth + 1, out),
            }
        }
        if !children.is_empty() {
            self.line(depth - 1, out);
        }
        out.push(close);
    }

    /// Begins a line, if values stand on lines of their own.
    fn line(&self, depth: usize, out: &mut Vec<u8>) {
        if self.indent > 0 {
            out.push(b'\n');
            out.resize(out.len() + self.indent * depth, b' ');
        }
    }

    fn string(&self, inner: &str, out: &mut Vec<u8>) {
        let mut canonical = Vec::new();
        text::write_canonical(&mut canonical, inner);
        for c in String::from_utf8_lossy(&canonical).chars() {
            if (self.escapes)(c) {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            } else {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
}

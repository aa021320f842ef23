//! The JSON Canonicalization Scheme (RFC 8785): members in order, ECMAScript numbers, minimal
//! escapes, no whitespace.
//!
//! Whatever the scanner found canonical as written is copied; only the rest is written again.

use crate::fault::{FaultCode, FormatError};
use crate::key::sha256;
use crate::scan::{Scanner, utf8};
use crate::scratch::Scratch;
use crate::tape::{NodeId, NodeKind, Tape};
use crate::{Limits, receipt, text};

/// Nesting beyond this is refused whatever the caller allows: writing recurses.
const DEPTH_MAX: usize = 1_024;

/// The two members that a signature isn't over.
pub(crate) const SIGNATURE_MEMBERS: [&str; 2] = ["signature", "signatureAlgorithm"];

/// The canonical bytes of any I-JSON value (RFC 7493), nested at most `depth_max` (and 1,024) deep.
///
/// # Errors
/// The one fault at which scanning stopped.
pub fn canonicalize(json: &[u8], depth_max: usize) -> Result<Vec<u8>, FormatError> {
    let mut tape = Tape::default();
    let text = utf8(json)?;
    Scanner::new(text, depth_max.min(DEPTH_MAX), usize::MAX).document(&mut tape)?;
    let mut out = Vec::with_capacity(text.len());
    write_value(&tape, 0, text, &mut out);
    Ok(out)
}

/// Appends the canonical form of a node.
pub(crate) fn write_value(tape: &Tape, id: NodeId, text: &str, out: &mut Vec<u8>) {
    let node = tape.node(id);
    if node.verbatim {
        out.extend_from_slice(tape.raw(id, text).as_bytes());
        return;
    }
    match node.kind {
        NodeKind::Object => write_object(tape, id, text, &[], out),
        NodeKind::Array => {
            out.push(b'[');
            let mut child = id + 1;
            while child < node.next {
                if child > id + 1 {
                    out.push(b',');
                }
                write_value(tape, child, text, out);
                child = tape.node(child).next;
            }
            out.push(b']');
        }
        NodeKind::String => text::write_canonical(out, tape.inner(id, text)),
        // As ECMAScript writes it (RFC 8785 section 3.2.2.3).
        NodeKind::Number => out.extend_from_slice(ryu_js::Buffer::new().format_finite(node.number()).as_bytes()),
        NodeKind::True | NodeKind::False | NodeKind::Null => out.extend_from_slice(tape.raw(id, text).as_bytes()),
    }
}

/// Appends the canonical form of an object without the members called `skip`.
pub(crate) fn write_object(tape: &Tape, id: NodeId, text: &str, skip: &[&str], out: &mut Vec<u8>) {
    out.push(b'{');
    let mut first = true;
    for &name in tape.names(id) {
        let key = tape.node(name);
        if !skip.is_empty() && skip.contains(&&*tape.string(name, text)) {
            continue;
        }
        if !first {
            out.push(b',');
        }
        first = false;
        let value = tape.node(name + 1);
        if key.verbatim && value.verbatim && value.start == key.end + 1 {
            // Name, colon and value are canonical and adjacent: one copy.
            out.extend_from_slice(&text.as_bytes()[key.start as usize..value.end as usize]);
            continue;
        }
        write_value(tape, name, text, out);
        out.push(b':');
        write_value(tape, name + 1, text, out);
    }
    out.push(b'}');
}

/// SHA-256 of a receipt's canonical bytes: what identifies it, besides its `receiptId`. Scans the
/// receipt, but holds it against no rule of the format.
///
/// # Errors
/// JSON that isn't an I-JSON object within the limits.
pub fn payload_hash(json: &[u8], limits: &Limits, scratch: &mut Scratch) -> Result<[u8; 32], FormatError> {
    write_receipt(json, limits, scratch)?;
    Ok(sha256(&scratch.canonical))
}

/// Replaces `scratch.canonical` by a receipt's canonical bytes: those that its signature is over.
///
/// # Errors
/// JSON that isn't an I-JSON object within the limits.
pub(crate) fn write_receipt(json: &[u8], limits: &Limits, scratch: &mut Scratch) -> Result<(), FormatError> {
    receipt::check_size(json.len(), limits)?;
    let text = utf8(json)?;
    let Scratch { tape, canonical, .. } = scratch;
    Scanner::new(text, limits.depth_max, limits.string_bytes_max).document(tape)?;
    if tape.kind(0) != NodeKind::Object {
        let detail = format!("must be an object, not {}", tape.kind(0).name());
        return Err(FormatError::one(String::new(), FaultCode::WrongType, detail));
    }
    canonical.clear();
    write_object(tape, 0, text, &SIGNATURE_MEMBERS, canonical);
    Ok(())
}

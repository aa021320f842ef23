//! `Content-Digest` (RFC 9530).

use sfv::ListEntry;
use sha2::{Digest as _, Sha256, Sha512};

use crate::SignatureError;
use crate::signature::{dictionary, error};

/// Compares a content with the field `Content-Digest`: at least one digest must be SHA-256 or
/// SHA-512, and each of these must be the content's. Other algorithms are passed over.
///
/// # Errors
/// [`SignatureError`], in a sentence for the sender.
pub fn check_content_digest(field: &str, content: &[u8]) -> Result<(), SignatureError> {
    let mut compared = false;
    for (algorithm, digest) in dictionary("Content-Digest", field)? {
        let expected = match algorithm.as_str() {
            "sha-256" => Sha256::digest(content).to_vec(),
            "sha-512" => Sha512::digest(content).to_vec(),
            _ => continue,
        };
        let ListEntry::Item(digest) = digest else {
            return Err(error("Content-Digest: a digest is a byte sequence"));
        };
        if digest.bare_item.as_byte_sequence() != Some(&expected[..]) {
            return Err(error(format!(
                "the body's {} isn't that of Content-Digest",
                algorithm.as_str()
            )));
        }
        compared = true;
    }
    if compared {
        Ok(())
    } else {
        Err(error("Content-Digest needs a digest by sha-256 or sha-512"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// RFC 9530, appendix B.1: the field of this content.
    const CONTENT: &[u8] = b"{\"hello\": \"world\"}\n";
    const FIELD: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";

    #[test]
    fn a_digest_is_the_contents() {
        check_content_digest(FIELD, CONTENT).unwrap();
        check_content_digest(&format!("unixsum=30637, {FIELD}"), CONTENT).unwrap();
        for (field, content, why) in [
            (FIELD, &b"{}"[..], "isn't that of"),
            ("sha-512=:AAAA:", CONTENT, "isn't that of"),
            (&format!("{FIELD}, sha-512=:AAAA:"), CONTENT, "isn't that of"),
            ("sha-256=7", CONTENT, "isn't that of"),
            ("sha-256=(7)", CONTENT, "byte sequence"),
            ("md5=:AAAA:", CONTENT, "needs a digest"),
            ("", CONTENT, "needs a digest"),
            ("sha-256", CONTENT, "isn't that of"),
            ("=", CONTENT, "isn't a dictionary"),
        ] {
            let refused = check_content_digest(field, content).unwrap_err().to_string();
            assert!(refused.contains(why), "{field}: {refused}");
        }
    }
}

//! HTTP message signatures and key directories: pure, no I/O.
//!
//! | module | noun |
//! |---|---|
//! | [`MessageSignature`] | a signature of RFC 9421, its covered components and parameters |
//! | [`check_content_digest`] | the field `Content-Digest` of RFC 9530 against the content |
//! | [`DirectoryKey`] | a public key of a JWK Set (RFC 7517), with its thumbprint (RFC 7638) |
#![forbid(unsafe_code)]

mod content_digest;
mod directory;
mod signature;

pub use content_digest::check_content_digest;
pub use directory::{DirectoryError, DirectoryKey, JwkError, MEDIA_TYPE, PATH, TAG, key_set, parse_directory};
pub use signature::{Message, MessageSignature, SIGNATURES_MAX, SignatureError};

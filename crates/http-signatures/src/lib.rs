//! HTTP message signatures and key directories: pure, no I/O.
//!
//! | module | noun |
//! |---|---|
//! | [`MessageSignature`] | a signature of RFC 9421, its covered components and parameters |
//! | [`DirectoryKey`] | a public key of a JWK Set (RFC 7517), with its thumbprint (RFC 7638) |
#![forbid(unsafe_code)]

mod directory;
mod signature;

pub use directory::{
    DirectoryError, DirectoryKey, MEDIA_TYPE, PATH, TAG, is_published_test_key, key_set, parse_directory,
};
pub use signature::{Message, MessageSignature, SIGNATURES_MAX, SignatureError};

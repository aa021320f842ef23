//! The hash of a content.

use sha2::{Digest, Sha256};

use crate::failure::CommandFailure;
use crate::input::Input;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// `sha256:` and the SHA-256 of everything in `input`, which may have any length.
///
/// # Errors
/// The input can't be read, or is empty: the hash of nothing is hardly ever meant.
pub(crate) fn of(mut input: Input) -> Result<String, CommandFailure> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut is_empty = true;
    loop {
        let read = input.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        is_empty = false;
        hash.update(&chunk[..read]);
    }
    if is_empty {
        return Err(CommandFailure::Input(format!(
            "{} is empty: give the content as it was received, or its hash with --content-hash",
            input.name()
        )));
    }
    Ok(format!("sha256:{}", hex::encode(hash.finalize())))
}

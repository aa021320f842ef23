//! Committed positions: one small file for each group, replaced as a whole.
//!
//! Little-endian: magic (8 bytes), epoch (4), 1 if a commit was ever made or 0 (4), next offset
//! (8), length of the metadata (4), metadata, CRC32C of all before it (4).

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{disk, error::OpenError, identity::write_atomically};
use crate::traits::Committed;

/// The directory of the position files within the log's.
pub(super) const POSITIONS: &str = "positions";
/// Most bytes of metadata one commit carries.
pub(super) const METADATA_BYTES_MAX: usize = 16 << 10;
const MAGIC: [u8; 8] = *b"RCPTPOS\0";
const HEAD: usize = 28;

/// Whether a group may be called so: its name is a file's name.
pub(super) fn is_group_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=128).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain)
}

fn encode(epoch: u32, committed: Option<&Committed>) -> Vec<u8> {
    let (next_offset, metadata) = committed.map_or((0, ""), |made| (made.next_offset, made.metadata.as_str()));
    let mut bytes = MAGIC.to_vec();
    bytes.extend(epoch.to_le_bytes());
    bytes.extend(u32::from(committed.is_some()).to_le_bytes());
    bytes.extend(next_offset.to_le_bytes());
    bytes.extend(u32::try_from(metadata.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(metadata.as_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// The epoch the group was stored in, and its commit if it ever made one.
fn decode(bytes: &[u8]) -> Result<(u32, Option<Committed>), &'static str> {
    let (covered, crc) = bytes.split_last_chunk::<4>().ok_or("it is cut off")?;
    if covered.len() < HEAD || covered[..8] != MAGIC {
        return Err("this is not a position file");
    }
    if crc32c::crc32c(covered) != u32::from_le_bytes(*crc) {
        return Err("its checksum is wrong");
    }
    let number = |at: usize, bytes: usize| {
        covered[at..at + bytes]
            .iter()
            .rev()
            .fold(0_u64, |number, &byte| (number << 8) | u64::from(byte))
    };
    let epoch = u32::try_from(number(8, 4)).unwrap_or(0);
    let metadata = std::str::from_utf8(&covered[HEAD..]).map_err(|_| "its metadata isn't text")?;
    let made = number(12, 4) == 1;
    Ok((
        epoch,
        made.then(|| Committed {
            epoch,
            next_offset: number(16, 8),
            metadata: metadata.to_owned(),
        }),
    ))
}

/// Stores the group's commit durably; `None` makes the group known without one.
pub(super) fn store(log_dir: &Path, group: &str, epoch: u32, committed: Option<&Committed>) -> io::Result<()> {
    write_atomically(&log_dir.join(POSITIONS), group, &encode(epoch, committed))
}

/// Removes the group, if it is known.
pub(super) fn remove(log_dir: &Path, group: &str) -> io::Result<()> {
    match disk::remove_file(log_dir.join(POSITIONS).join(group)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Every known group with its commit. A commit of another epoch is of an earlier life of the log:
/// the group is known, its commit void.
pub(super) fn load(log_dir: &Path, epoch: u32) -> Result<Vec<(String, Option<Committed>)>, OpenError> {
    let dir = log_dir.join(POSITIONS);
    let mut groups = Vec::new();
    for entry in disk::read_dir(&dir).map_err(OpenError::io(&dir))? {
        let path: PathBuf = entry.map_err(OpenError::io(&dir))?.path();
        let Some(name) = path
            .file_name()
            .and_then(|name| name.to_str())
            .filter(|name| is_group_name(name))
        else {
            continue; // the rest of an unfinished write
        };
        groups.push((name.to_owned(), load_one(log_dir, name, epoch)?.flatten()));
    }
    Ok(groups)
}

/// Reads the commit of one group: the outer `None` is an unknown group.
pub(super) fn load_one(log_dir: &Path, group: &str, epoch: u32) -> Result<Option<Option<Committed>>, OpenError> {
    let path = log_dir.join(POSITIONS).join(group);
    let bytes = match disk::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io(&path)(error)),
    };
    let (stored_epoch, committed) = decode(&bytes).map_err(|fault| OpenError::DamagedPosition {
        file: path.clone(),
        detail: fault.to_owned(),
    })?;
    if stored_epoch != epoch {
        tracing::warn!(
            group,
            stored_epoch,
            epoch,
            "a committed position is of another life of the log: ignored"
        );
        return Ok(Some(None));
    }
    Ok(Some(committed))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn reads_back_and_shows_any_changed_byte() {
        let committed = Committed {
            epoch: 9,
            next_offset: 1 << 47,
            metadata: "{\"in\":1,\"ö\":2}".to_owned(),
        };
        for made in [Some(committed), None] {
            let bytes = encode(9, made.as_ref());
            assert_eq!(decode(&bytes), Ok((9, made)));
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 4;
                assert!(decode(&changed).is_err(), "byte {at}");
                assert!(decode(&bytes[..at]).is_err(), "cut at {at}");
            }
        }
    }

    #[test]
    fn group_names_are_file_names() {
        for name in ["verifier", "a", "A.b_c-9"] {
            assert!(is_group_name(name), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "a/b", "ü", &"a".repeat(129)] {
            assert!(!is_group_name(name), "{name}");
        }
    }
}

//! `log.json`: which life of the log this directory holds.

use std::{io, os::unix::fs::FileExt, path::Path};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    disk::{self, File, sync_dir},
    error::OpenError,
};

const FILE: &str = "log.json";
const FORMAT: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
struct LogIdentity {
    format: u32,
    epoch: u32,
}

/// The epoch of the log in `dir`, or `None` if none was created yet.
pub(super) fn read(dir: &Path) -> Result<Option<u32>, OpenError> {
    let path = dir.join(FILE);
    let text = match disk::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io(&path)(error)),
    };
    match serde_json::from_slice::<LogIdentity>(&text) {
        Ok(LogIdentity {
            format: FORMAT,
            epoch: epoch @ 1..,
        }) => Ok(Some(epoch)),
        Ok(other) => Err(OpenError::damaged(
            &path,
            0,
            format!("unknown format or epoch: {other:?}"),
        )),
        Err(error) => Err(OpenError::damaged(&path, 0, error.to_string())),
    }
}

/// Begins a new life of the log: a random epoch, so that no position of an earlier life comes
/// again.
pub(super) fn create(dir: &Path) -> Result<u32, OpenError> {
    let epoch = loop {
        let [a, b, c, d, ..] = Uuid::new_v4().into_bytes();
        let epoch = u32::from_le_bytes([a, b, c, d]);
        if epoch != 0 {
            break epoch;
        }
    };
    let text = format!("{{\"format\":{FORMAT},\"epoch\":{epoch}}}\n");
    write_atomically(dir, FILE, text.as_bytes()).map_err(OpenError::io(&dir.join(FILE)))?;
    Ok(epoch)
}

/// Replaces `dir/name` durably: after a crash it holds the old bytes or the new ones.
pub(super) fn write_atomically(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = dir.join(format!(".{name}.tmp"));
    let file = File::create(&temporary)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    disk::rename(&temporary, dir.join(name))?;
    sync_dir(dir)
}

//! Acknowledged batches in files: what proves to a third party that the service had them, and when.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::spool::{SpoolName, bound, create_directory};

/// Files that share the bytes, so that the oldest part can be deleted.
const FILES: u64 = 8;

/// Lines of JSON, `{"acknowledgement": ..., "batch": ...}`, in a folder that has at most about
/// `bytes_max` bytes: its oldest file is deleted first. The batch is as it was sent, byte for byte.
#[derive(Debug)]
pub(crate) struct AcknowledgedLog {
    folder: PathBuf,
    bytes_max: u64,
    file: Option<File>,
}

impl AcknowledgedLog {
    pub(crate) fn new(spool: &Path, bytes_max: u64) -> Self {
        Self {
            folder: spool.join("acknowledged"),
            bytes_max,
            file: None,
        }
    }

    /// Writes a batch with its acknowledgement.
    pub(crate) fn append(&mut self, acknowledgement: &str, batch: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) if self.has_room(&file)? => file,
            _ => self.next_file()?,
        };
        let line = [
            br#"{"acknowledgement":"#,
            acknowledgement.as_bytes(),
            br#","batch":"#,
            batch,
            b"}\n",
        ];
        let end = file.metadata()?.len();
        file.write_all(&line.concat()).inspect_err(|_| {
            // Nobody reads a part of a line.
            let _ = file.set_len(end);
        })?;
        self.file = Some(file);
        Ok(())
    }

    /// Whether a file is neither full nor removed.
    fn has_room(&self, file: &File) -> io::Result<bool> {
        let metadata = file.metadata()?;
        Ok(metadata.nlink() > 0 && metadata.len() < self.bytes_max / FILES)
    }

    fn next_file(&self) -> io::Result<File> {
        create_directory(&self.folder)?;
        bound(&self.folder, self.bytes_max - self.bytes_max / FILES)?;
        let name = SpoolName::new(Uuid::now_v7()).with_extension("ndjson");
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(self.folder.join(name))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn the_newest_lines_are_retained_within_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = AcknowledgedLog::new(dir.path(), 8_000);
        let lines = || -> Vec<String> {
            let mut files: Vec<_> = fs::read_dir(dir.path().join("acknowledged")).unwrap().collect();
            files.sort_by_key(|file| file.as_ref().unwrap().file_name());
            let texts = files
                .iter()
                .map(|file| fs::read_to_string(file.as_ref().unwrap().path()).unwrap());
            texts
                .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
                .collect()
        };
        for number in 0..100 {
            let batch = format!(r#"{{"number":{number},"text":"{}"}}"#, "x".repeat(400));
            log.append(r#"{"keyId":"k"}"#, batch.as_bytes()).unwrap();
            let last: serde_json::Value = serde_json::from_str(lines().last().unwrap()).unwrap();
            assert_eq!(
                (&last["acknowledgement"]["keyId"], &last["batch"]["number"]),
                (&"k".into(), &number.into())
            );
        }
        let bytes: usize = lines().iter().map(|line| line.len() + 1).sum();
        assert!((5_000..=9_000).contains(&bytes), "{bytes}");
        // A folder that somebody removed is made again.
        fs::remove_dir_all(dir.path().join("acknowledged")).unwrap();
        log.append("{}", b"{}").unwrap();
        assert_eq!(lines(), [r#"{"acknowledgement":{},"batch":{}}"#]);
    }
}

//! The next segment's file, made ready before it is needed so that rolling doesn't wait for the
//! disk.

use std::{
    fs,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

use super::segment_file::create_reserved;

const FILE: &str = "next.spare";

/// At most one spare file.
#[derive(Debug)]
pub(super) struct Spare {
    path: PathBuf,
    segment_bytes: u64,
    direct: bool,
    ready: Mutex<Option<File>>,
}

impl Spare {
    /// Removes what an earlier process left.
    pub(super) fn new(dir: &Path, segment_bytes: u64, direct: bool) -> io::Result<Self> {
        let path = dir.join(FILE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self {
            path,
            segment_bytes,
            direct,
            ready: Mutex::new(None),
        })
    }

    /// Path of the file until the writer renames it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the spare if there is none. Not on the writing thread.
    pub(super) fn prepare(&self) -> io::Result<()> {
        let mut ready = self.ready.lock();
        if ready.is_none() {
            *ready = Some(self.create()?);
        }
        Ok(())
    }

    /// Takes the spare, or makes one on the spot. `use_it` runs before another can be prepared
    /// under the same name.
    pub(super) fn take<T>(&self, use_it: impl FnOnce(File) -> io::Result<T>) -> io::Result<T> {
        let mut ready = self.ready.lock();
        let file = match ready.take() {
            Some(file) => file,
            None => self.create()?,
        };
        use_it(file)
    }

    /// Bytes the spare takes.
    pub(super) fn bytes(&self) -> u64 {
        if self.ready.lock().is_some() {
            self.segment_bytes
        } else {
            0
        }
    }

    /// Gives the spare's space back.
    pub(super) fn discard(&self) {
        let mut ready = self.ready.lock();
        if ready.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn create(&self) -> io::Result<File> {
        let made = create_reserved(&self.path, self.segment_bytes, self.direct);
        if made.is_err() {
            // Half a reservation would keep space from everyone.
            let _ = fs::remove_file(&self.path);
        }
        made
    }
}

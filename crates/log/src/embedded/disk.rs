//! The file system under the log. The unit tests have a simulated one, which loses at a crash what
//! wasn't synced (`tests/disk.rs`).

#[cfg(not(test))]
pub(super) use std::fs::{File, canonicalize, create_dir, exists, read, read_dir, remove_file, rename};
use std::{io, path::Path};

#[cfg(not(test))]
use rustix::fs::{FallocateFlags, fallocate};

#[cfg(test)]
pub(super) use super::tests::disk::{
    File, canonicalize, create_dir, exists, read, read_dir, remove_file, rename, reserve,
};

/// Makes creations, renames and deletions in `dir` durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Reserves space up to `bytes`; file systems that can't are left to allocate while writing.
#[cfg(not(test))]
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::io::Errno;

    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

//! Receipts and batches in files, until they are acknowledged.
//!
//! Each process has a slot of the directory: `0`, `1` and so on, the first whose lock is free. A
//! new process also adopts what ended processes left in other slots. A slot contains a `.journal`
//! for each list of receipts that isn't a batch yet, and a `.batch` for each sealed batch. Their
//! names are a time in milliseconds and the batch's ID, the same for a journal and the batch that
//! it becomes. `rejected` contains what the service refused, and `damaged` what can't be read, for
//! people.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use uuid::Uuid;

use crate::frame::{read_frames, write_frame};

const SLOTS_MAX: u32 = 1_024;

/// Receipts in a file, which aren't a batch yet.
#[derive(Debug)]
pub(crate) struct SpoolJournal {
    path: PathBuf,
    file: File,
    has_directory_entry: AtomicBool,
}

impl SpoolJournal {
    /// Writes receipts. They survive the end of the process, and after the next [`Self::sync`] that
    /// of the machine. After an error, nothing further may be appended.
    pub(crate) fn append<'a>(&self, receipts: impl Iterator<Item = &'a Bytes>) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        let mut frames = Vec::new();
        for receipt in receipts {
            write_frame(&mut frames, receipt);
        }
        (&self.file).write_all(&frames).inspect_err(|_| {
            // If this fails too, readers stop at the frame that was cut off.
            let _ = self.file.set_len(end);
        })
    }

    /// Flushes to the disk what was written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if !self.has_directory_entry.load(Ordering::Relaxed) {
            sync_directory_of(&self.path)?;
            self.has_directory_entry.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Deletes the file, whose receipts are stored in a batch.
    pub(crate) fn delete(&self) {
        delete(&self.path);
    }
}

/// A slot of a spool directory.
#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    slot: PathBuf,
    kept_bytes_max: u64,
    _lock: File,
}

/// Files of one name that an ended process left.
#[derive(Debug)]
pub(crate) enum Leftover {
    /// Body of a sealed batch.
    Batch(Bytes),
    /// Receipts that weren't sent, because they aren't in a batch.
    Receipts(Arc<SpoolJournal>, Vec<Bytes>),
}

/// Name of a journal and of the batch that it becomes, without extension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpoolName(String);

impl SpoolName {
    pub(crate) fn new(batch_id: Uuid) -> Self {
        Self(format!("{:013}-{batch_id}", jiff::Timestamp::now().as_millisecond()))
    }

    fn of(path: &Path) -> Option<Self> {
        Some(Self(path.file_stem()?.to_str()?.to_owned()))
    }

    /// Age in milliseconds. A name that isn't ours has no age.
    pub(crate) fn age_ms(&self) -> u64 {
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let made_ms = self
            .0
            .split('-')
            .next()
            .and_then(|ms| ms.parse().ok())
            .unwrap_or(now_ms);
        u64::try_from(now_ms - made_ms).unwrap_or(0)
    }
}

impl Spool {
    /// Takes a slot of `directory`, which is created if it doesn't exist. `kept_bytes_max` bounds
    /// `rejected` and `damaged` each.
    pub(crate) fn open(directory: &Path, kept_bytes_max: u64) -> io::Result<Self> {
        create_directory(directory)?;
        for number in 0..SLOTS_MAX {
            let slot = directory.join(number.to_string());
            create_directory(&slot)?;
            if let Some(lock) = lock(&slot)? {
                return Ok(Self {
                    directory: directory.to_owned(),
                    slot,
                    kept_bytes_max,
                    _lock: lock,
                });
            }
        }
        Err(io::Error::other(format!("{SLOTS_MAX} processes use this spool")))
    }

    /// Begins a journal.
    pub(crate) fn new_journal(&self, name: &SpoolName) -> io::Result<Arc<SpoolJournal>> {
        self.open_journal(self.file(name, "journal")).map(Arc::new)
    }

    fn open_journal(&self, path: PathBuf) -> io::Result<SpoolJournal> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        Ok(SpoolJournal {
            path,
            file,
            has_directory_entry: AtomicBool::new(false),
        })
    }

    /// Stores a batch durably.
    pub(crate) fn store(&self, name: &SpoolName, body: &[u8]) -> io::Result<()> {
        let (part, path) = (self.file(name, "part"), self.file(name, "batch"));
        let mut frame = Vec::with_capacity(body.len() + 8);
        write_frame(&mut frame, body);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&part)?;
        file.write_all(&frame)?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
        sync_directory_of(&path)
    }

    /// Returns the body of a batch; `None` if the file is damaged, which moves it away.
    pub(crate) fn read(&self, name: &SpoolName) -> io::Result<Option<Bytes>> {
        let (mut frames, is_whole) = read_frames(&fs::read(self.file(name, "batch"))?.into());
        if is_whole && frames.len() == 1 {
            return Ok(frames.pop());
        }
        self.put_away(name, "damaged")?;
        Ok(None)
    }

    /// Deletes an acknowledged batch.
    pub(crate) fn delete(&self, name: &SpoolName) {
        delete(&self.file(name, "batch"));
    }

    /// Moves a batch that the service refused to `rejected`.
    pub(crate) fn reject(&self, name: &SpoolName) -> io::Result<()> {
        self.put_away(name, "rejected")
    }

    fn put_away(&self, name: &SpoolName, folder: &str) -> io::Result<()> {
        let (from, folder) = (self.file(name, "batch"), self.directory.join(folder));
        create_directory(&folder)?;
        tracing::error!(file = %from.display(), folder = %folder.display(), "moved a batch out of the spool");
        fs::rename(&from, folder.join(format!("{}.batch", name.0)))?;
        bound(&folder, self.kept_bytes_max)
    }

    /// Moves what ended processes left in other slots into this one, and returns the names of
    /// everything in it, oldest first.
    pub(crate) fn adopt(&self) -> io::Result<Vec<SpoolName>> {
        for slot in sorted(&self.directory, |_| true)? {
            let is_slot = slot.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
            if is_slot.is_none() || slot == self.slot {
                continue;
            }
            if let Some(_lock) = lock(&slot)? {
                for file in sorted(&slot, is_of_batch)? {
                    fs::rename(&file, self.slot.join(file.file_name().unwrap_or_default()))?;
                }
            }
        }
        for part in sorted(&self.slot, |extension| extension == "part")? {
            fs::remove_file(part)?;
        }
        let files = sorted(&self.slot, is_of_batch)?;
        let mut names: Vec<SpoolName> = files.iter().filter_map(|path| SpoolName::of(path)).collect();
        names.dedup();
        Ok(names)
    }

    /// Reads what is left of a batch; `None` if that is nothing.
    pub(crate) fn leftover(&self, name: &SpoolName) -> io::Result<Option<Leftover>> {
        let journal = self.file(name, "journal");
        if self.file(name, "batch").exists()
            && let Some(body) = self.read(name)?
        {
            // The end came between storing the batch and deleting its journal.
            delete(&journal);
            return Ok(Some(Leftover::Batch(body)));
        }
        if !journal.exists() {
            return Ok(None);
        }
        // The last frame may be cut off: its `append` had not returned.
        let (receipts, _) = read_frames(&fs::read(&journal)?.into());
        if receipts.is_empty() {
            delete(&journal);
            return Ok(None);
        }
        Ok(Some(Leftover::Receipts(
            Arc::new(self.open_journal(journal)?),
            receipts,
        )))
    }

    fn file(&self, name: &SpoolName, extension: &str) -> PathBuf {
        self.slot.join(format!("{}.{extension}", name.0))
    }
}

fn is_of_batch(extension: &str) -> bool {
    matches!(extension, "journal" | "batch")
}

/// Deletes the oldest files of a folder beyond `bytes_max`.
fn bound(folder: &Path, bytes_max: u64) -> io::Result<()> {
    let mut total = 0;
    for file in sorted(folder, |_| true)?.into_iter().rev() {
        total += fs::metadata(&file)?.len();
        if total > bytes_max {
            tracing::error!(file = %file.display(), "deleted a file that nobody looked at, as the folder is full");
            delete(&file);
        }
    }
    Ok(())
}

fn create_directory(path: &Path) -> io::Result<()> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Locks a slot; `None` if another process has it.
fn lock(slot: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(slot.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

fn sorted(directory: &Path, has_extension: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if has_extension(extension.unwrap_or_default()) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Deletes a file. One that stays is sent again by the next process, which counts nothing twice.
fn delete(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(file = %path.display(), %error, "a file of the spool can't be deleted");
    }
}

fn sync_directory_of(file: &Path) -> io::Result<()> {
    File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn name(number: u64) -> SpoolName {
        SpoolName(format!("{number:013}-{}", Uuid::from_u64_pair(0, number)))
    }

    fn journal_of(spool: &Spool, name: &SpoolName, receipts: &[&'static str]) -> Arc<SpoolJournal> {
        let journal = spool.new_journal(name).unwrap();
        let receipts: Vec<Bytes> = receipts
            .iter()
            .map(|receipt| Bytes::from_static(receipt.as_bytes()))
            .collect();
        journal.append(receipts.iter()).unwrap();
        journal.sync().unwrap();
        journal
    }

    #[test]
    fn a_new_process_takes_over_what_ended_ones_left() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Spool::open(dir.path(), 1 << 20).unwrap();
        let (first, second) = (open(), open());
        assert_ne!(first.slot, second.slot);
        journal_of(&second, &name(1), &["a", "b"]);
        second.store(&name(2), b"batch").unwrap();
        // The end came before its journal was deleted.
        journal_of(&second, &name(2), &["c"]);
        journal_of(&second, &name(3), &[]);
        fs::write(second.file(&name(4), "part"), "half").unwrap();
        assert_eq!(first.adopt().unwrap(), [], "the other process runs");
        drop(second);
        let names = first.adopt().unwrap();
        assert_eq!(names, [name(1), name(2), name(3)]);
        let left = |name| first.leftover(&name).unwrap();
        assert!(matches!(left(name(1)), Some(Leftover::Receipts(_, receipts)) if receipts == ["a", "b"]));
        assert!(matches!(left(name(2)), Some(Leftover::Batch(body)) if body == "batch"));
        assert!(left(name(3)).is_none());
        assert_eq!(first.adopt().unwrap(), [name(1), name(2)]);
    }

    #[test]
    fn a_damaged_batch_is_put_away_and_its_journal_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(dir.path(), 1 << 20).unwrap();
        spool.store(&name(1), b"batch").unwrap();
        journal_of(&spool, &name(1), &["a"]);
        let path = spool.file(&name(1), "batch");
        fs::write(&path, &fs::read(&path).unwrap()[..9]).unwrap();
        assert!(matches!(
            spool.leftover(&name(1)).unwrap(),
            Some(Leftover::Receipts(..))
        ));
        assert!(!path.exists() && dir.path().join("damaged").read_dir().unwrap().count() == 1);
    }

    #[test]
    fn refused_batches_are_kept_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(dir.path(), 250).unwrap();
        for number in 1..=4 {
            spool.store(&name(number), &[b'x'; 100]).unwrap();
            spool.reject(&name(number)).unwrap();
        }
        let kept = sorted(&dir.path().join("rejected"), |_| true).unwrap();
        assert_eq!(
            kept.iter().filter_map(|path| SpoolName::of(path)).collect::<Vec<_>>(),
            [name(3), name(4)]
        );
    }
}

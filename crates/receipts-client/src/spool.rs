//! Receipts and batches in files, until they are acknowledged.
//!
//! Each process has a slot of the directory: `0`, `1` and so on, the first whose lock is free. A
//! new process also adopts what ended processes left in other slots. A slot contains a `.journal`
//! for each list of receipts that isn't a batch yet, and a `.batch` for each sealed batch. Their
//! names are a time in milliseconds and the batch's ID, the same for a journal and the batch that
//! it becomes. `rejected` contains what the service refused, and `damaged` what can't be read, for
//! people. A directory that somebody removed is made again when something is to be written.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
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
    /// of the machine. After an error, nothing further may be appended; `NotFound` means that
    /// somebody removed the file.
    pub(crate) fn append<'a>(&self, receipts: impl Iterator<Item = &'a Bytes>) -> io::Result<()> {
        if self.is_removed()? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "somebody removed the journal"));
        }
        let end = self.file.metadata()?.len();
        let mut frames = Vec::new();
        for receipt in receipts {
            write_frame(&mut frames, receipt);
        }
        (&self.file).write_all(&frames).inspect_err(|_| {
            // If this fails too, readers skip the frame that was cut off.
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

    /// Whether somebody removed the file.
    pub(crate) fn is_removed(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() == 0)
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
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
    slot: Mutex<Slot>,
    retained_bytes_max: u64,
}

#[derive(Debug)]
struct Slot {
    path: PathBuf,
    lock: File,
}

impl Slot {
    /// Takes the first free slot of `directory`, which is created if it doesn't exist.
    fn take(directory: &Path) -> io::Result<Self> {
        create_directory(directory)?;
        for number in 0..SLOTS_MAX {
            let path = directory.join(number.to_string());
            create_directory(&path)?;
            if let Some(lock) = lock(&path)? {
                return Ok(Self { path, lock });
            }
        }
        Err(io::Error::other(format!("{SLOTS_MAX} processes use this spool")))
    }
}

/// Files of one name that an ended process left.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    /// The part that can be sent.
    pub(crate) content: Option<LeftoverContent>,
    /// The part that can't be read.
    pub(crate) damage: Option<DamagedFile>,
}

#[derive(Debug)]
pub(crate) enum LeftoverContent {
    /// Body of a sealed batch.
    Batch(Bytes),
    /// Receipts that weren't sent, because they aren't in a batch.
    Receipts(Arc<SpoolJournal>, Vec<Bytes>),
}

/// Bytes of a file that can't be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DamagedFile {
    /// Each run of such bytes.
    pub(crate) runs: Vec<Bytes>,
    /// Place of the file, for people.
    pub(crate) location: String,
}

/// Name of a journal and of the batch that it becomes, without extension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpoolName(String);

impl SpoolName {
    pub(crate) fn new(batch_id: Uuid) -> Self {
        Self(format!("{:013}-{batch_id}", jiff::Timestamp::now().as_millisecond()))
    }

    /// Name of a file with this extension.
    pub(crate) fn with_extension(&self, extension: &str) -> String {
        format!("{}.{extension}", self.0)
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
    /// Takes a slot of `directory`, which is created if it doesn't exist. `retained_bytes_max`
    /// bounds `rejected` and `damaged` each.
    pub(crate) fn open(directory: &Path, retained_bytes_max: u64) -> io::Result<Self> {
        Ok(Self {
            directory: directory.to_owned(),
            slot: Mutex::new(Slot::take(directory)?),
            retained_bytes_max,
        })
    }

    /// Returns the path of the slot. One that somebody removed is made again.
    fn usable_slot(&self) -> io::Result<PathBuf> {
        let mut slot = self.slot.lock();
        if slot.lock.metadata()?.nlink() == 0 {
            *slot = Slot::take(&self.directory)?;
            tracing::error!(slot = %slot.path.display(), "somebody removed the spool, which is made again");
        }
        Ok(slot.path.clone())
    }

    /// Begins a journal.
    pub(crate) fn new_journal(&self, name: &SpoolName) -> io::Result<Arc<SpoolJournal>> {
        self.usable_slot()?;
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

    /// Stores a batch durably, or not at all.
    pub(crate) fn store(&self, name: &SpoolName, body: &[u8]) -> io::Result<()> {
        self.usable_slot()?;
        let (part, path) = (self.file(name, "part"), self.file(name, "batch"));
        let mut frame = Vec::with_capacity(body.len() + 8);
        write_frame(&mut frame, body);
        let write = || {
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
        };
        write().inspect_err(|_| {
            for left in [&part, &path] {
                delete(left);
            }
        })
    }

    /// Returns the body of a batch, or what can't be read of it: a damaged file is moved away.
    pub(crate) fn read(&self, name: &SpoolName) -> io::Result<Result<Bytes, DamagedFile>> {
        let data = match fs::read(self.file(name, "batch")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(DamagedFile {
                    runs: Vec::new(),
                    location: "removed by somebody".to_owned(),
                }));
            }
            data => Bytes::from(data?),
        };
        let (mut frames, damaged) = read_frames(&data);
        match (frames.pop(), frames.is_empty() && damaged.is_empty()) {
            (Some(body), true) => Ok(Ok(body)),
            _ => Ok(Err(DamagedFile {
                runs: vec![data],
                location: self.put_away(&self.file(name, "batch"), "damaged", |from, to| fs::rename(from, to)),
            })),
        }
    }

    /// Whether a batch is in its file.
    pub(crate) fn has(&self, name: &SpoolName) -> bool {
        self.batch_file(name).exists()
    }

    /// Path of a batch's file.
    pub(crate) fn batch_file(&self, name: &SpoolName) -> PathBuf {
        self.file(name, "batch")
    }

    /// Deletes an acknowledged batch.
    pub(crate) fn delete(&self, name: &SpoolName) {
        delete(&self.file(name, "batch"));
    }

    /// Moves a batch that the service refused to `rejected`.
    pub(crate) fn reject(&self, name: &SpoolName) {
        self.put_away(&self.file(name, "batch"), "rejected", |from, to| fs::rename(from, to));
    }

    /// Puts a file into a folder for people, and returns where it is.
    fn put_away(&self, from: &Path, folder: &str, put: impl Fn(&Path, &Path) -> io::Result<()>) -> String {
        let folder = self.directory.join(folder);
        let retained = folder.join(from.file_name().unwrap_or_default());
        let put = create_directory(&folder)
            .and_then(|()| put(from, &retained))
            .and_then(|()| bound(&folder, self.retained_bytes_max));
        match put {
            Ok(()) => {
                tracing::error!(file = %from.display(), retained = %retained.display(), "a file of the spool is retained for people");
                format!("retained as {}", retained.display())
            }
            Err(error) => {
                tracing::error!(file = %from.display(), folder = %folder.display(), %error, "a file can't be retained");
                format!("at {}", from.display())
            }
        }
    }

    /// Moves what ended processes left in other slots into this one, and returns the names of
    /// everything in it, oldest first.
    pub(crate) fn adopt(&self) -> io::Result<Vec<SpoolName>> {
        let own = self.usable_slot()?;
        for slot in sorted(&self.directory, |_| true)? {
            let is_slot = slot.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
            if is_slot.is_none() || slot == own {
                continue;
            }
            if let Some(_lock) = lock(&slot)? {
                for file in sorted(&slot, is_of_batch)? {
                    fs::rename(&file, own.join(file.file_name().unwrap_or_default()))?;
                }
            }
        }
        for part in sorted(&own, |extension| extension == "part")? {
            fs::remove_file(part)?;
        }
        let files = sorted(&own, is_of_batch)?;
        let mut names: Vec<SpoolName> = files.iter().filter_map(|path| SpoolName::of(path)).collect();
        names.dedup();
        Ok(names)
    }

    /// Reads what is left of a batch.
    pub(crate) fn leftover(&self, name: &SpoolName) -> io::Result<Leftover> {
        let journal = self.file(name, "journal");
        let mut left = Leftover::default();
        if self.has(name) {
            match self.read(name)? {
                Ok(body) => {
                    // The end came between storing the batch and deleting its journal.
                    delete(&journal);
                    left.content = Some(LeftoverContent::Batch(body));
                    return Ok(left);
                }
                Err(damage) => left.damage = Some(damage),
            }
        }
        if !journal.exists() {
            return Ok(left);
        }
        let (receipts, damaged) = read_frames(&fs::read(&journal)?.into());
        // The journal has what a damaged batch had.
        let is_whole = damaged.is_empty();
        left.damage = (!is_whole).then(|| DamagedFile {
            runs: damaged,
            location: self.put_away(&journal, "damaged", |from, to| {
                if receipts.is_empty() {
                    return fs::rename(from, to);
                }
                // A second name takes no space, and stays when the journal is deleted.
                match fs::hard_link(from, to) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    linked => linked,
                }
            }),
        });
        if !receipts.is_empty() {
            let journal = Arc::new(self.open_journal(journal)?);
            left.content = Some(LeftoverContent::Receipts(journal, receipts));
        } else if is_whole {
            delete(&journal);
        }
        Ok(left)
    }

    fn file(&self, name: &SpoolName, extension: &str) -> PathBuf {
        self.slot.lock().path.join(name.with_extension(extension))
    }
}

fn is_of_batch(extension: &str) -> bool {
    matches!(extension, "journal" | "batch")
}

/// Deletes the oldest files of a folder beyond `bytes_max`.
pub(crate) fn bound(folder: &Path, bytes_max: u64) -> io::Result<()> {
    let mut total = 0;
    for file in sorted(folder, |_| true)?.into_iter().rev() {
        total += fs::metadata(&file)?.len();
        if total > bytes_max {
            tracing::warn!(file = %file.display(), bytes_max, "deleted the oldest file of a full folder");
            delete(&file);
        }
    }
    Ok(())
}

pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
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

/// Deletes a file, if it exists. One that stays is sent again by the next process, which counts
/// nothing twice.
pub(crate) fn delete(path: &Path) {
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
        assert_ne!(first.usable_slot().unwrap(), second.usable_slot().unwrap());
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
        let left = |name| {
            let left = first.leftover(&name).unwrap();
            assert_eq!(left.damage, None);
            left.content
        };
        assert!(matches!(left(name(1)), Some(LeftoverContent::Receipts(_, receipts)) if receipts == ["a", "b"]));
        assert!(matches!(left(name(2)), Some(LeftoverContent::Batch(body)) if body == "batch"));
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
        let left = spool.leftover(&name(1)).unwrap();
        assert!(matches!(left.content, Some(LeftoverContent::Receipts(..))), "{left:?}");
        assert_eq!(left.damage, None, "the journal has all of it");
        assert!(!path.exists() && dir.path().join("damaged").read_dir().unwrap().count() == 1);
    }

    #[test]
    fn a_damaged_journal_is_retained_and_the_rest_of_it_used() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(dir.path(), 1 << 20).unwrap();
        journal_of(&spool, &name(1), &["{1}", "{2}", "{3}"]);
        let path = spool.file(&name(1), "journal");
        let mut changed = fs::read(&path).unwrap();
        changed[20] ^= 1;
        fs::write(&path, &changed).unwrap();
        // The second process finds the retained file of the first.
        for _ in 0..2 {
            let left = spool.leftover(&name(1)).unwrap();
            let Some(LeftoverContent::Receipts(_, receipts)) = &left.content else {
                panic!("{left:?}")
            };
            assert_eq!(*receipts, ["{1}", "{3}"]);
            assert_eq!(left.damage.unwrap().runs, [Bytes::copy_from_slice(&changed[11..22])]);
        }
        delete(&path);
        let retained = sorted(&dir.path().join("damaged"), |_| true).unwrap();
        assert_eq!(
            retained.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>(),
            [changed]
        );
    }

    #[test]
    fn a_removed_spool_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("spool");
        let spool = Spool::open(&directory, 1 << 20).unwrap();
        let journal = journal_of(&spool, &name(1), &["a"]);
        spool.store(&name(2), b"batch").unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let error = journal.append([Bytes::from("b")].iter()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(spool.read(&name(2)).unwrap().is_err());
        journal_of(&spool, &name(3), &["c"]);
        spool.store(&name(4), b"batch").unwrap();
        assert_eq!(spool.adopt().unwrap(), [name(3), name(4)]);
        assert!(
            lock(&directory.join("0")).unwrap().is_none(),
            "the slot is this process's"
        );
    }

    #[test]
    fn refused_batches_are_retained_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(dir.path(), 250).unwrap();
        for number in 1..=4 {
            spool.store(&name(number), &[b'x'; 100]).unwrap();
            spool.reject(&name(number));
        }
        let retained = sorted(&dir.path().join("rejected"), |_| true).unwrap();
        assert_eq!(
            retained
                .iter()
                .filter_map(|path| SpoolName::of(path))
                .collect::<Vec<_>>(),
            [name(3), name(4)]
        );
    }
}

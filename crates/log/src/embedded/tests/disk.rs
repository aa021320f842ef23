//! A simulated file system. Its processes see what they wrote; after a power loss there is what was
//! synced, and of the rest whatever an unfriendly disk chose to write. POSIX promises no more:
//!
//! - each sector of a write, each change of a length and each change of a name lasts or not, in any
//!   order, until it is synced;
//! - syncing a file makes its content durable, not its name. Syncing a directory does the reverse;
//! - after a failed sync its pages look written, and aren't.
//!
//! A disk is a folder of the root, so that paths lead to it from any thread.

use std::{
    collections::BTreeMap,
    fs::TryLockError,
    io::{self, ErrorKind},
    ops::Range,
    os::unix::fs::{FileExt, OpenOptionsExt},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const SECTOR: usize = 512;
/// The directory that an empty disk has.
const HOME: &str = "home";
/// No file can be longer.
const CAPACITY: u64 = 1 << 40;

static DISKS: Mutex<BTreeMap<PathBuf, Arc<Mutex<State>>>> = Mutex::new(BTreeMap::new());

/// Payload of the panic that ends a process when its power is lost.
pub(crate) struct PowerLoss;

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(self, content: &mut Vec<u8>) {
        match self {
            Self::Write(at, bytes) => {
                let end = at + bytes.len();
                content.resize(content.len().max(end), 0);
                content[at..end].copy_from_slice(&bytes);
            }
            Self::Length(length) => content.resize(length, 0),
        }
    }
}

#[derive(Clone)]
enum NameChange {
    Link(PathBuf, usize),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, usize),
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Link(path, inode) => drop(names.insert(path, inode)),
            Self::Unlink(path) => drop(names.remove(&path)),
            Self::Rename(from, to, inode) => {
                if names.get(&from) == Some(&inode) {
                    names.remove(&from);
                }
                names.insert(to, inode);
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Link(path, _) | Self::Unlink(path) | Self::Rename(_, path, _) => path,
        }
    }
}

/// A file or directory.
#[derive(Default)]
struct Inode {
    name: PathBuf,
    content: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

impl Inode {
    /// Each sector becomes durable by itself.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let mut from = 0;
        while from < bytes.len() {
            let to = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
            self.change(Change::Write(at + from, bytes[from..to].to_vec()));
            from = to;
        }
    }

    fn change(&mut self, change: Change) {
        change.clone().apply(&mut self.content);
        self.unsynced.push(change);
    }

    /// Forgets what isn't synced, apart from what the disk has written by chance.
    fn lose(&mut self, random: &mut StdRng) {
        let durable = &mut self.durable;
        survivors(std::mem::take(&mut self.unsynced), random).for_each(|change| change.apply(durable));
    }
}

/// Changes that weren't synced and that a disk wrote nevertheless: none, all, the first ones, or
/// any.
fn survivors<T>(changes: Vec<T>, random: &mut StdRng) -> impl Iterator<Item = T> {
    let (first, others) = match random.random_range(0..6) {
        0 => (0, 0.0),
        1 => (changes.len(), 0.0),
        2 => (random.random_range(0..=changes.len()), 0.0),
        3 => (0, 0.9),
        4 => (0, 0.1),
        _ => (0, 0.5),
    };
    let keep = move |&(index, _): &(usize, T)| index < first || random.random_bool(others);
    let retained: Vec<_> = changes.into_iter().enumerate().filter(keep).collect();
    retained.into_iter().map(|(_, change)| change)
}

/// An observer of a disk; as another process it may read and sync.
type Observer = Box<dyn FnOnce() + Send>;

struct State {
    random: StdRng,
    root: PathBuf,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    unsynced_names: Vec<NameChange>,
    inodes: Vec<Inode>,
    /// Counts the processes; handles of an earlier one are void.
    process: usize,
    off: bool,
    trace: Vec<String>,
    power_loss: Option<(usize, Observer)>,
    errors: Range<usize>,
    failed: usize,
}

impl State {
    fn inode(&mut self, path: &Path) -> io::Result<usize> {
        if self.off {
            resume_unwind(Box::new(PowerLoss));
        }
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn name(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    fn change_name(&mut self, change: NameChange) {
        change.clone().apply(&mut self.names);
        self.unsynced_names.push(change);
    }

    fn link(&mut self, path: &Path) -> usize {
        let name = self.name(path);
        self.inodes.push(Inode {
            name,
            ..Inode::default()
        });
        let inode = self.inodes.len() - 1;
        self.change_name(NameChange::Link(path.to_owned(), inode));
        inode
    }

    fn sync(&mut self, inode: usize) {
        let directory = self.root.join(&self.inodes[inode].name);
        let inode = &mut self.inodes[inode];
        let durable = &mut inode.durable;
        inode.unsynced.drain(..).for_each(|change| change.apply(durable));
        let (synced, unsynced) = std::mem::take(&mut self.unsynced_names)
            .into_iter()
            .partition(|change| change.path().parent() == Some(&directory));
        self.unsynced_names = unsynced;
        synced
            .into_iter()
            .for_each(|change: NameChange| change.apply(&mut self.durable_names));
    }
}

/// Counts an operation. Returns an error, or ends the process, if that was planned for this one.
fn operation(disk: &Mutex<State>, what: &str, name: impl FnOnce(&State) -> PathBuf) -> io::Result<()> {
    let mut state = disk.lock();
    if state.off {
        resume_unwind(Box::new(PowerLoss));
    }
    let number = state.trace.len();
    let line = format!("{number} {what} {}", name(&state).display());
    state.trace.push(line);
    if let Some((_, observe)) = state.power_loss.take_if(|(at, _)| *at == number) {
        drop(state);
        observe();
        disk.lock().off = true;
        resume_unwind(Box::new(PowerLoss));
    }
    if state.errors.contains(&number) {
        state.failed += 1;
        return Err(io::Error::from_raw_os_error(5));
    }
    Ok(())
}

fn path_operation(path: &Path, what: &str) -> io::Result<Arc<Mutex<State>>> {
    let disk = disk_of(path)?;
    operation(&disk, what, |state| state.name(path))?;
    Ok(disk)
}

fn disk_of(path: &Path) -> io::Result<Arc<Mutex<State>>> {
    let root: PathBuf = path.components().take(2).collect();
    DISKS
        .lock()
        .get(&root)
        .cloned()
        .ok_or_else(|| ErrorKind::NotFound.into())
}

/// A disk as the test sees it.
pub(crate) struct Disk {
    root: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Disk {
    /// An empty disk. The seed decides what survives.
    pub(crate) fn new(seed: u64) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let root = PathBuf::from(format!("/disk-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let names = BTreeMap::from([(root.clone(), 0), (root.join(HOME), 1)]);
        let home = Inode {
            name: HOME.into(),
            ..Inode::default()
        };
        let state = Arc::new(Mutex::new(State {
            random: StdRng::seed_from_u64(seed),
            root: root.clone(),
            names: names.clone(),
            durable_names: names,
            unsynced_names: Vec::new(),
            inodes: vec![Inode::default(), home],
            process: 0,
            off: false,
            trace: Vec::new(),
            power_loss: None,
            errors: 0..0,
            failed: 0,
        }));
        DISKS.lock().insert(root.clone(), Arc::clone(&state));
        Self { root, state }
    }

    /// An empty directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join(HOME)
    }

    /// Operations so far, one a line.
    pub(crate) fn trace(&self) -> Vec<String> {
        self.state.lock().trace.clone()
    }

    pub(crate) fn operations(&self) -> usize {
        self.state.lock().trace.len()
    }

    /// Loses the power before the operation of this number, and after `observe` has run.
    pub(crate) fn lose_power_at(&self, operation: usize, observe: impl FnOnce() + Send + 'static) {
        self.state.lock().power_loss = Some((operation, Box::new(observe)));
    }

    /// Fails the operations of these numbers.
    pub(crate) fn fail(&self, operations: Range<usize>) {
        self.state.lock().errors = operations;
    }

    /// Operations that have failed.
    pub(crate) fn failed(&self) -> usize {
        self.state.lock().failed
    }

    pub(crate) fn is_off(&self) -> bool {
        self.state.lock().off
    }

    /// Ends the process, as `kill -9` does: what it wrote is there, also if it isn't durable.
    pub(crate) fn end_process(&self) {
        let mut state = self.state.lock();
        state.process += 1;
        state.off = false;
        state.power_loss = None;
        state.errors = 0..0;
    }

    /// Ends the process by a power loss.
    pub(crate) fn lose_power(&self) {
        self.end_process();
        let mut state = self.state.lock();
        let State {
            random,
            durable_names,
            unsynced_names,
            inodes,
            ..
        } = &mut *state;
        survivors(std::mem::take(unsynced_names), random).for_each(|change| change.apply(durable_names));
        for inode in inodes {
            inode.lose(random);
            inode.content.clone_from(&inode.durable);
        }
        let mut names: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for (path, &inode) in &state.durable_names {
            if *path == state.root || path.parent().is_some_and(|parent| names.contains_key(parent)) {
                names.insert(path.clone(), inode);
            }
        }
        state.durable_names.clone_from(&names);
        state.names = names;
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        DISKS.lock().remove(&self.root);
    }
}

/// An open file or directory.
pub(crate) struct File {
    disk: Arc<Mutex<State>>,
    inode: usize,
    process: usize,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("inode", &self.inode)
            .finish_non_exhaustive()
    }
}

/// Options of opening, as far as the log uses them.
#[derive(Default)]
pub(crate) struct OpenOptions {
    create: bool,
    truncate: bool,
}

impl OpenOptions {
    pub(crate) fn read(&mut self, _read: bool) -> &mut Self {
        self
    }

    pub(crate) fn write(&mut self, _write: bool) -> &mut Self {
        self
    }

    pub(crate) fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    pub(crate) fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let disk = disk_of(path)?;
        let mut found = disk.lock().inode(path);
        if self.create && found.is_err() {
            operation(&disk, "create", |state| state.name(path))?;
            found = Ok(disk.lock().link(path));
        }
        let (inode, process) = (found?, disk.lock().process);
        let file = File { disk, inode, process };
        if self.truncate && file.metadata()?.len() > 0 {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, _mode: u32) -> &mut Self {
        self
    }

    fn custom_flags(&mut self, _flags: i32) -> &mut Self {
        self
    }
}

pub(crate) struct Metadata {
    len: u64,
}

impl Metadata {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

impl File {
    pub(crate) fn options() -> OpenOptions {
        OpenOptions::default()
    }

    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::options().open(path)
    }

    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::options().create(true).truncate(true).open(path)
    }

    fn operation(&self, what: &str) -> io::Result<()> {
        let name = |state: &State| {
            assert_eq!(state.process, self.process, "a file of a process that has ended");
            state.inodes[self.inode].name.clone()
        };
        operation(&self.disk, what, name)
    }

    fn change(&self, change: Change) {
        self.disk.lock().inodes[self.inode].change(change);
    }

    pub(crate) fn set_len(&self, length: u64) -> io::Result<()> {
        self.operation(&format!("set length {length}"))?;
        self.change(Change::Length(length as usize));
        Ok(())
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        let outcome = self.operation("sync");
        let mut state = self.disk.lock();
        let State { random, inodes, .. } = &mut *state;
        match &outcome {
            Ok(()) => state.sync(self.inode),
            Err(_) => inodes[self.inode].lose(random),
        }
        outcome
    }

    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        let len = self.disk.lock().inodes[self.inode].content.len() as u64;
        Ok(Metadata { len })
    }

    /// Other tests have two processes.
    pub(crate) fn try_lock(&self) -> Result<(), TryLockError> {
        Ok(())
    }

    pub(crate) fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}

impl FileExt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.lock();
        let rest = state.inodes[self.inode]
            .content
            .get(offset as usize..)
            .unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let outcome = self.operation(&format!("write at {offset}"));
        let written = if outcome.is_ok() { bytes.len() } else { bytes.len() / 2 };
        self.disk.lock().inodes[self.inode].write(offset as usize, &bytes[..written]);
        outcome.map(|()| written)
    }
}

pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.operation(&format!("reserve {bytes}"))?;
    if bytes > CAPACITY {
        return Err(ErrorKind::StorageFull.into());
    }
    if bytes > file.metadata()?.len() {
        file.change(Change::Length(bytes as usize));
    }
    Ok(())
}

pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    Ok(path.to_owned())
}

pub(crate) fn exists(path: &Path) -> io::Result<bool> {
    Ok(disk_of(path)?.lock().inode(path).is_ok())
}

pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    path_operation(path, "create")?.lock().link(path);
    Ok(())
}

pub(crate) fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    if !exists(path)? {
        return Err(ErrorKind::NotFound.into());
    }
    let disk = path_operation(path, "remove")?;
    disk.lock().change_name(NameChange::Unlink(path.to_owned()));
    Ok(())
}

pub(crate) fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let disk = path_operation(to, "rename to")?;
    let mut state = disk.lock();
    let inode = state.inode(from)?;
    let name = state.name(to);
    state.inodes[inode].name = name;
    state.change_name(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
    Ok(())
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let disk = disk_of(path)?;
    let mut state = disk.lock();
    let inode = state.inode(path)?;
    Ok(state.inodes[inode].content.clone())
}

pub(crate) struct DirEntry(PathBuf);

impl DirEntry {
    pub(crate) fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

pub(crate) fn read_dir(path: &Path) -> io::Result<impl Iterator<Item = io::Result<DirEntry>>> {
    let disk = disk_of(path)?;
    let mut state = disk.lock();
    state.inode(path)?;
    let entries: Vec<_> = state
        .names
        .keys()
        .filter(|entry| entry.parent() == Some(path))
        .cloned()
        .collect();
    Ok(entries.into_iter().map(|entry| Ok(DirEntry(entry))))
}

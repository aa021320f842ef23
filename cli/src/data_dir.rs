//! The data directory: what lies where in it, and who holds it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::failure::CommandFailure;

/// The longest path of a Unix socket, in bytes: `sun_path` has 108 with its NUL.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A data directory, by its absolute path.
#[derive(Debug, Clone)]
pub struct DataDir {
    root: PathBuf,
}

/// Addresses of `receipts up`, as they are in `addresses.json` while it runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Addresses {
    /// The process.
    pub pid: u32,
    /// The gateway's base URL.
    pub gateway: String,
    /// The analytics API's base URL.
    pub analytics: String,
    /// The publisher API's base URL.
    pub publisher: String,
    /// The admin port's base URL: `/metrics`, `/healthz`, `/readyz`.
    pub metrics: String,
}

/// The data directory's lock; given back when dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl DataDir {
    /// The directory at `path`, which need not exist yet.
    ///
    /// # Errors
    /// The current directory is gone.
    pub fn new(path: &Path) -> Result<Self, CommandFailure> {
        let root = std::path::absolute(path)
            .map_err(|e| CommandFailure::Input(format!("the data directory {}: {e}", path.display())))?;
        Ok(Self { root })
    }

    /// `./data`, where the current directory can't be determined; using it says what is wrong.
    pub(crate) fn here() -> Self {
        Self {
            root: PathBuf::from("data"),
        }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The log's segments and positions.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The log of verdicts.
    #[must_use]
    pub fn verdicts(&self) -> PathBuf {
        self.root.join("verdicts")
    }

    /// ClickHouse's own directory.
    #[must_use]
    pub fn warehouse(&self) -> PathBuf {
        self.root.join("warehouse")
    }

    /// Socket of the embedded ClickHouse while `receipts up` runs.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.join("warehouse.sock")
    }

    /// File with the services' addresses.
    #[must_use]
    pub fn addresses(&self) -> PathBuf {
        self.root.join("addresses.json")
    }

    /// Creates the directory if it is absent, for its owner alone.
    ///
    /// # Errors
    /// The directory can't be created, or its path leaves no room for the socket's.
    pub fn create(&self) -> Result<(), CommandFailure> {
        let socket = self.socket();
        let bytes = socket.as_os_str().len();
        if bytes > SOCKET_PATH_BYTES_MAX {
            return Err(CommandFailure::Input(format!(
                "{} has {bytes} bytes, a socket's path at most {SOCKET_PATH_BYTES_MAX}: choose a data directory with a shorter path",
                socket.display()
            )));
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root);
        made.map_err(|e| CommandFailure::Input(format!("{} can't be created: {e}", self.root.display())))
    }

    /// Names who else can read the directory; `None` if nobody can.
    ///
    /// # Errors
    /// The directory can't be checked.
    pub fn readers(&self) -> io::Result<Option<&'static str>> {
        let mode = fs::metadata(&self.root)?.permissions().mode();
        Ok(match (mode & 0o050, mode & 0o005) {
            (0, 0) => None,
            (_, 0) => Some("its group"),
            _ => Some("everybody on this machine"),
        })
    }

    /// Fails if nothing lives here: a command that only looks must not create what it looks at.
    ///
    /// # Errors
    /// There is no log in the directory.
    pub fn require(&self) -> Result<(), CommandFailure> {
        if self.log().is_dir() {
            return Ok(());
        }
        let root = self.root.display();
        Err(CommandFailure::Input(format!(
            "{root} is no data directory of `receipts up`: name one with --data"
        )))
    }

    /// Takes the lock; `None` if another process has it.
    ///
    /// # Errors
    /// The lock file can't be opened.
    pub fn lock(&self) -> Result<Option<Lock>, CommandFailure> {
        let path = self.root.join("lock");
        let unusable = |what: String| CommandFailure::Input(format!("{} can't be locked: {what}", path.display()));
        let opened = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path);
        let mut file = opened.map_err(|e| unusable(e.to_string()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        }
        // Only for people who wonder; nothing depends on it.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Some(Lock { file }))
    }

    /// Holder of the lock, as far as the file says.
    #[must_use]
    pub fn holder(&self) -> String {
        match fs::read_to_string(self.root.join("lock")).map(|text| text.trim().to_owned()) {
            Ok(pid) if !pid.is_empty() => format!("process {pid}"),
            _ => "another process".to_owned(),
        }
    }

    /// Writes `addresses.json`, whole or not at all.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn publish(&self, addresses: &Addresses) -> Result<(), CommandFailure> {
        let text = serde_json::to_string_pretty(addresses).unwrap_or_default() + "\n";
        let path = self.addresses();
        crate::key_file::write(&path, &text, 0o644, true)
            .map_err(|e| CommandFailure::Input(format!("{} can't be written: {e}", path.display())))
    }

    /// Removes `addresses.json`.
    pub fn unpublish(&self) {
        let _ = fs::remove_file(self.addresses());
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

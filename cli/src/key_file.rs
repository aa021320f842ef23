//! Private keys on disk: PKCS#8 in PEM, readable by their owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use receipt::SigningKey;

use crate::failure::CommandFailure;

/// No PKCS#8 key of the three kinds is near this long.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// The option `--key F`.
#[derive(Debug, Clone, clap::Args)]
pub struct KeyArg {
    /// The private key: PKCS#8 in PEM, as `receipts keygen` and `openssl genpkey` write it
    #[arg(long = "key", value_name = "F", env = "RECEIPTS_KEY")]
    pub path: PathBuf,
}

impl KeyArg {
    /// Reads the key.
    pub fn read(&self) -> Result<SigningKey, CommandFailure> {
        read(&self.path)
    }
}

/// Reads a private key.
pub fn read(path: &Path) -> Result<SigningKey, CommandFailure> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| CommandFailure::Input(format!("the key {shown} can't be opened: {e}")))?;
    let mut pem = String::new();
    file.take(KEY_BYTES_MAX)
        .read_to_string(&mut pem)
        .map_err(|e| CommandFailure::Input(format!("the key {shown} can't be read: {e}")))?;
    SigningKey::from_pkcs8_pem(&pem).map_err(|e| CommandFailure::Input(format!("the key {shown} can't be used: {e}")))
}

/// Writes a file whole or not at all, with `mode`. An existing one is replaced only if `replace`.
pub fn write(path: &Path, text: &str, mode: u32, replace: bool) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&new)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
    // A link fails where something stands already; a rename replaces it.
    let placed = written.and_then(|()| {
        if replace {
            fs::rename(&new, path)
        } else {
            fs::hard_link(&new, path)
        }
    });
    if !(replace && placed.is_ok()) {
        let _ = fs::remove_file(&new);
    }
    placed
}

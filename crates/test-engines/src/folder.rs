//! A temporary folder for an engine or for another process under test.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// Removed when dropped; and, because a shared engine's handle never is, also when this process has
/// ended.
#[derive(Debug)]
pub struct Folder {
    directory: tempfile::TempDir,
    janitor: Child,
}

impl Folder {
    /// A new one, with `engine` in its name.
    ///
    /// # Errors
    ///
    /// The folder can't be made, or there is no `sh`.
    pub fn new(engine: &str) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix(&format!("receipts-{engine}-"))
            .tempdir()?;
        // Its input ends when we do. It removes more than once, since the engine may still be
        // dying. In a group of its own, out of reach of a Ctrl-C.
        let script = r#"cat > /dev/null; for turn in 1 2 3 4 5; do rm -rf -- "$1" && exit; sleep 1; done"#;
        let janitor = Command::new("sh")
            .args(["-c", script, "janitor"])
            .arg(directory.path())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting sh")?;
        Ok(Self { directory, janitor })
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

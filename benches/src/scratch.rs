//! Folder of logs while measuring: on a real disk, beside this program, and gone
//! afterwards.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A folder that is removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// In `parent`, or beside this program: temporary folders are often memory, where a sync costs
    /// nothing.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn new(parent: Option<&Path>) -> Result<Self> {
        let parent = match parent {
            Some(parent) => parent.to_owned(),
            None => std::env::current_exe()?
                .parent()
                .context("this program has no folder")?
                .to_owned(),
        };
        std::fs::create_dir_all(&parent).with_context(|| parent.display().to_string())?;
        let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(&parent);
        Ok(Self {
            folder: folder.with_context(|| parent.display().to_string())?,
        })
    }

    /// A new, empty folder in it.
    ///
    /// # Errors
    /// The folder exists already, or can't be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

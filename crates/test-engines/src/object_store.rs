//! An object store with S3's interface: moto, from PyPI.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::engine::Engine;
use crate::folder::Folder;
use crate::python::python;
use crate::spawner::dying_with_us;
use crate::{http, ports};

/// A running store with one empty bucket. Its objects are in memory.
#[derive(Debug)]
pub struct ObjectStore {
    // Held for its end.
    _engine: Engine,
    port: u16,
    // After the engine: dropped in this order.
    _folder: Folder,
}

impl ObjectStore {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// The packages can't be fetched (scripts/fetch-python), or the store doesn't start.
    pub fn start() -> anyhow::Result<Self> {
        let python = python()?;
        let folder = Folder::new("object-store")?;
        let [port] = ports::free()?;
        let command = move || {
            let mut command: Command = dying_with_us(&python, "KILL");
            command.args(["-m", "moto.server", "--port", &port.to_string()]);
            command
        };
        let answers = move |_: &Path| http::query(port, "GET /", "").is_ok();
        let log = folder.path().join("object-store.log");
        let engine = Engine::start("the object store", log, Signal::KILL, command, answers)?;
        http::query(port, "PUT /receipts", "")?;
        Ok(Self {
            _engine: engine,
            port,
            _folder: folder,
        })
    }

    /// `http://127.0.0.1:PORT/BUCKET/FOLDER/`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/receipts/cold/", self.port)
    }
}

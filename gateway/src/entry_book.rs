//! Known entries, for the webhook's 404.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use service::cpu::CpuPool;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// An entry that a receipt names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamedEntry {
    /// `content.entryId`.
    pub id: Uuid,
    /// `content.publisher` in canonical form.
    pub publisher: String,
}

/// Knows the entries. Asked once for each request to the webhook, if `[gateway] webhook_entries` is
/// `required`.
pub trait EntryBook: Send + Sync {
    /// Returns those of `asked` that exist and are the publisher's; an `Err` says why it failed.
    fn existing<'a>(&'a self, asked: &'a [NamedEntry]) -> BoxFuture<'a, Result<HashSet<NamedEntry>, String>>;
}

/// A longer file is refused: two million entries and more.
const FILE_BYTES_MAX: u64 = 80 * 1024 * 1024;

/// Between two looks at whether the file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A file with an entry's id on each line; what follows a `#` is left out. Read again when it has
/// changed. The webhook's owner writes it, so publishers aren't compared.
pub(crate) struct EntryFile {
    path: PathBuf,
    entries: RwLock<Arc<HashSet<Uuid>>>,
}

/// Version of the file's content.
type Version = (Option<SystemTime>, u64);

impl EntryFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// A sentence that names it: it can't be read, is too long, or a line is no UUID.
    pub(crate) async fn open(path: &Path, cpu: &CpuPool) -> Result<(Self, Version), String> {
        let (entries, version) = read(path, cpu).await?;
        let file = Self {
            path: path.to_owned(),
            entries: RwLock::new(Arc::new(entries)),
        };
        Ok((file, version))
    }

    /// Takes in what the file becomes, until `shutdown`. While it can't be read, the entries that
    /// were known stay.
    pub(crate) async fn watch(self: Arc<Self>, mut seen: Version, cpu: CpuPool, shutdown: CancellationToken) {
        let every = tokio::time::sleep(LOOK_EVERY);
        tokio::pin!(every);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = &mut every => {}
            }
            every.as_mut().reset(tokio::time::Instant::now() + LOOK_EVERY);
            let now = match version(&self.path).await {
                Ok(now) if now != seen => now,
                _ => continue,
            };
            // Told once for each content, not at each look.
            seen = now;
            match read(&self.path, &cpu).await {
                Ok((entries, read)) => {
                    tracing::info!(entries = entries.len(), "gateway.webhook_entries_file was read again");
                    *self.entries.write() = Arc::new(entries);
                    seen = read;
                }
                Err(what) => tracing::warn!(what, "gateway.webhook_entries_file: the entries known before stay"),
            }
        }
    }
}

impl EntryBook for EntryFile {
    fn existing<'a>(&'a self, asked: &'a [NamedEntry]) -> BoxFuture<'a, Result<HashSet<NamedEntry>, String>> {
        let entries = Arc::clone(&self.entries.read());
        let existing = asked
            .iter()
            .filter(|entry| entries.contains(&entry.id))
            .cloned()
            .collect();
        Box::pin(std::future::ready(Ok(existing)))
    }
}

async fn version(path: &Path) -> std::io::Result<Version> {
    let metadata = tokio::fs::metadata(path).await?;
    Ok((metadata.modified().ok(), metadata.len()))
}

async fn read(path: &Path, cpu: &CpuPool) -> Result<(HashSet<Uuid>, Version), String> {
    let fault = |what: String| format!("gateway.webhook_entries_file: {}: {what}", path.display());
    let version = version(path).await.map_err(|error| fault(error.to_string()))?;
    if version.1 > FILE_BYTES_MAX {
        return Err(fault(format!(
            "it has {} bytes, at most {FILE_BYTES_MAX} are read",
            version.1
        )));
    }
    let text = tokio::fs::read(path).await.map_err(|error| fault(error.to_string()))?;
    let entries = cpu
        .run(move || parse(&text))
        .await
        .map_err(|error| fault(error.to_string()))?;
    Ok((entries.map_err(fault)?, version))
}

fn parse(text: &[u8]) -> Result<HashSet<Uuid>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it isn't UTF-8".to_owned())?;
    let mut entries = HashSet::new();
    for (index, line) in text.lines().enumerate() {
        let id = line.split_once('#').map_or(line, |(id, _)| id).trim();
        if !id.is_empty() {
            let id = Uuid::try_parse(id).map_err(|_| format!("line {} is no UUID", index + 1))?;
            entries.insert(id);
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_file_has_an_id_a_line_and_a_wrong_line_is_named() {
        let text =
            b"# ours\n7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10 # the first\r\n\n  7D0F4B1E-3C11-4B6E-9A6B-0D6F3C7B9A11\n";
        assert_eq!(parse(text).unwrap().len(), 2);
        assert_eq!(parse(b""), Ok(HashSet::new()));
        assert_eq!(parse(b"\n\nfirst\n").unwrap_err(), "line 3 is no UUID");
        assert!(parse(b"\xff").is_err());
    }
}

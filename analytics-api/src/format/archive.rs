//! A ZIP archive that is sent while it is written, with ZIP64 for files of any length.

use std::fmt::Display;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use web::stream::{BrokenOff, PieceWriter};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{DateTime, ZipWriter};

/// Bytes that are compressed at a time, which takes about 0.2 ms.
const STEP_BYTES: usize = 16 << 10;
/// Bytes of the archive that are sent together.
const PIECE_BYTES: usize = 64 << 10;

/// An archive as it is written.
pub(crate) struct Archive<'a> {
    zip: ZipWriter<StreamWriter<PendingBytes>>,
    pending: PendingBytes,
    pieces: &'a PieceWriter,
    options: SimpleFileOptions,
}

/// Bytes of the archive that aren't sent yet.
#[derive(Clone, Default)]
struct PendingBytes(Arc<Mutex<Vec<u8>>>);

impl Write for PendingBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> Archive<'a> {
    /// An archive whose files were written `at` this instant.
    pub(crate) fn new(at: Timestamp, pieces: &'a PieceWriter) -> Self {
        let pending = PendingBytes::default();
        Self {
            zip: ZipWriter::new_stream(pending.clone()),
            pending,
            pieces,
            options: SimpleFileOptions::default()
                .large_file(true)
                .last_modified_time(date_time(at).unwrap_or_default()),
        }
    }

    /// Begins a file.
    pub(crate) fn file(&mut self, name: &str) -> Result<(), BrokenOff> {
        self.zip.start_file(name, self.options).map_err(unwritable)
    }

    /// Adds bytes to the file, and sends what is compressed of them. Other tasks get their turn in
    /// between.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), BrokenOff> {
        for step in bytes.chunks(STEP_BYTES) {
            self.zip.write_all(step).map_err(unwritable)?;
            let is_full = self.pending.0.lock().len() >= PIECE_BYTES;
            if is_full {
                let piece = mem::take(&mut *self.pending.0.lock());
                self.pieces.send(piece).await?;
            } else {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// The end of the archive, without which nothing can read it.
    pub(crate) fn end(self) -> Result<Vec<u8>, BrokenOff> {
        let pending = self.zip.finish().map_err(unwritable)?.into_inner();
        Ok(mem::take(&mut *pending.0.lock()))
    }
}

/// Logs why something can't be written.
pub(crate) fn unwritable(error: impl Display) -> BrokenOff {
    tracing::error!(%error, "an archive can't be written");
    "an archive can't be written"
}

/// In UTC: ZIP knows no zones.
fn date_time(at: Timestamp) -> Option<DateTime> {
    let at = at.to_zoned(TimeZone::UTC);
    let unsigned = |part: i8| u8::try_from(part).ok();
    let year = u16::try_from(at.year()).ok()?;
    let (month, day) = (unsigned(at.month())?, unsigned(at.day())?);
    DateTime::from_date_and_time(
        year,
        month,
        day,
        unsigned(at.hour())?,
        unsigned(at.minute())?,
        unsigned(at.second())?,
    )
    .ok()
}

//! Files and standard input as a bounded stream of JSON documents.
//!
//! A document is one receipt or one batch. The input is either NDJSON (a document a line), or one
//! JSON value that spans lines; an array at the top is a list of documents. Bytes are handed on as
//! they stand, because signatures are over them.
//!
//! Lines are taken here and not by `serde_json`'s stream of values: that stream ends at the first
//! line that isn't JSON, and has no limit on a value's length.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use receipt::BodyKind;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::failure::CommandFailure;

/// The most bytes that one document, one line, or one value spanning lines may have.
pub const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// FILE argument of most commands.
#[derive(Debug, Clone, clap::Args)]
pub struct InputArg {
    /// File to read; `-` or nothing is standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl InputArg {
    /// Opens the file, or standard input.
    pub fn open(&self) -> Result<Input, CommandFailure> {
        Input::open(self.file.as_deref())
    }
}

/// An opened file or standard input.
pub struct Input {
    name: String,
    reader: Box<dyn BufRead + Send>,
    size_bytes: Option<u64>,
}

/// A document of the input.
#[derive(Debug, PartialEq, Eq)]
pub struct Document {
    /// The line of the input it begins in, from 1 on.
    pub line: u64,
    /// Bytes of the document, or `None` if there are more than [`DOCUMENT_BYTES_MAX`].
    pub bytes: Option<Vec<u8>>,
}

impl Document {
    /// Bytes of the document.
    pub fn bytes(&self) -> Result<&[u8], CommandFailure> {
        let too_long = || CommandFailure::Input(format!("line {}: longer than {DOCUMENT_BYTES_MAX} bytes", self.line));
        self.bytes.as_deref().ok_or_else(too_long)
    }

    /// A batch has a member `receipts`; anything else, and anything that isn't JSON, is checked
    /// as a receipt.
    #[must_use]
    pub fn kind(&self) -> BodyKind {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct DocumentMembers {
            receipts: Option<IgnoredAny>,
            receipt_id: Option<IgnoredAny>,
        }
        match self.bytes.as_deref().map(serde_json::from_slice::<DocumentMembers>) {
            Some(Ok(DocumentMembers {
                receipts: Some(_),
                receipt_id: None,
            })) => BodyKind::Batch,
            _ => BodyKind::Receipt,
        }
    }
}

impl Input {
    /// Opens `path`; `None` and `-` are standard input.
    pub fn open(path: Option<&Path>) -> Result<Self, CommandFailure> {
        match path {
            Some(path) if path != Path::new("-") => {
                let shown = path.display();
                let file =
                    File::open(path).map_err(|e| CommandFailure::Input(format!("{shown} can't be opened: {e}")))?;
                let metadata = file
                    .metadata()
                    .map_err(|e| CommandFailure::Input(format!("{shown} can't be read: {e}")))?;
                if metadata.is_dir() {
                    return Err(CommandFailure::Input(format!("{shown} is a directory")));
                }
                Ok(Self {
                    name: shown.to_string(),
                    reader: Box::new(BufReader::with_capacity(1 << 17, file)),
                    size_bytes: metadata.is_file().then_some(metadata.len()),
                })
            }
            _ => Ok(Self {
                name: "standard input".to_owned(),
                reader: Box::new(BufReader::with_capacity(1 << 17, io::stdin())),
                size_bytes: None,
            }),
        }
    }

    /// The size of a regular file, for progress.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }

    /// The file's name, or `standard input`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next bytes; none at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, CommandFailure> {
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|e| self.unreadable(&e)),
            }
        }
    }

    /// Everything, if it is at most `bytes_max`.
    pub fn read_all(mut self, bytes_max: usize) -> Result<Vec<u8>, CommandFailure> {
        let mut bytes = Vec::new();
        let limit = bytes_max as u64 + 1;
        (&mut self.reader)
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|e| self.unreadable(&e))?;
        if bytes.len() > bytes_max {
            return Err(CommandFailure::Input(format!(
                "{} is longer than {bytes_max} bytes",
                self.name
            )));
        }
        Ok(bytes)
    }

    /// The lines that aren't blank, whatever is in them.
    #[must_use]
    pub fn lines(self) -> InputLines {
        InputLines { input: self, line: 0 }
    }

    /// The documents.
    #[must_use]
    pub fn documents(self) -> DocumentStream {
        DocumentStream {
            lines: self.lines(),
            started: false,
            ready: VecDeque::new(),
        }
    }

    fn unreadable(&self, error: &io::Error) -> CommandFailure {
        CommandFailure::Input(format!("{} can't be read: {error}", self.name))
    }
}

/// The lines of an input that aren't blank, without their line ends.
pub struct InputLines {
    input: Input,
    line: u64,
}

impl InputLines {
    /// The next line up to its end; the rest of one that is too long is skipped.
    fn next_line(&mut self) -> Result<Option<Document>, CommandFailure> {
        loop {
            let mut bytes = Vec::new();
            let limit = DOCUMENT_BYTES_MAX as u64 + 1;
            let read = (&mut self.input.reader)
                .take(limit)
                .read_until(b'\n', &mut bytes)
                .map_err(|e| self.input.unreadable(&e))?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            let ended = bytes.last() == Some(&b'\n');
            if !ended && read > DOCUMENT_BYTES_MAX {
                self.skip_line()?;
                return Ok(Some(Document {
                    line: self.line,
                    bytes: None,
                }));
            }
            while matches!(bytes.last(), Some(b'\n' | b'\r')) {
                bytes.pop();
            }
            if !bytes.iter().all(|b| b.is_ascii_whitespace()) {
                return Ok(Some(Document {
                    line: self.line,
                    bytes: Some(bytes),
                }));
            }
        }
    }

    fn skip_line(&mut self) -> Result<(), CommandFailure> {
        loop {
            let buffer = self
                .input
                .reader
                .fill_buf()
                .map_err(|e| CommandFailure::Input(format!("can't be read: {e}")))?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|&b| b == b'\n');
            let used = end.map_or(buffer.len(), |at| at + 1);
            self.input.reader.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }

    /// Appends everything that is left to `bytes`. False if that makes it too long.
    fn read_rest(&mut self, bytes: &mut Vec<u8>) -> Result<bool, CommandFailure> {
        bytes.push(b'\n');
        let limit = (DOCUMENT_BYTES_MAX + 1).saturating_sub(bytes.len()) as u64;
        (&mut self.input.reader)
            .take(limit)
            .read_to_end(bytes)
            .map_err(|e| self.input.unreadable(&e))?;
        Ok(bytes.len() <= DOCUMENT_BYTES_MAX)
    }
}

impl Iterator for InputLines {
    type Item = Result<Document, CommandFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_line().transpose()
    }
}

/// The documents of an input, in order.
pub struct DocumentStream {
    lines: InputLines,
    started: bool,
    ready: VecDeque<Document>,
}

impl DocumentStream {
    fn read(&mut self) -> Result<Option<Document>, CommandFailure> {
        loop {
            if let Some(document) = self.ready.pop_front() {
                return Ok(Some(document));
            }
            let Some(mut next) = self.lines.next_line()? else {
                return Ok(None);
            };
            // The first line decides: one that leaves a bracket open begins a value that spans
            // lines.
            if !std::mem::replace(&mut self.started, true)
                && let Some(bytes) = next.bytes.as_mut()
                && is_open(bytes)
            {
                if !self.lines.read_rest(bytes)? {
                    next.bytes = None;
                } else if one_value(bytes).is_err() && bytes.split(|&b| b == b'\n').all(begins_document) {
                    // NDJSON after all, with a first line that was cut off.
                    self.lines.line = next.line - 1;
                    self.lines.input.reader = Box::new(io::Cursor::new(std::mem::take(bytes)));
                    continue;
                }
            }
            self.ready.extend(split_array(next));
        }
    }
}

impl Iterator for DocumentStream {
    type Item = Result<Document, CommandFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Parses one JSON value and nothing after it, without keeping any of it.
fn one_value(bytes: &[u8]) -> serde_json::Result<IgnoredAny> {
    serde_json::from_slice(bytes)
}

/// Whether the object or array that begins in a line continues behind its end.
fn is_open(line: &[u8]) -> bool {
    let start = line.iter().position(|byte| matches!(byte, b'{' | b'['));
    start.is_some_and(|start| one_value(&line[start..]).is_err_and(|error| error.is_eof()))
}

/// A line that is blank or begins as a receipt or batch does at the very left.
fn begins_document(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace) || line.first() == Some(&b'{')
}

/// An array's elements as documents of their own; anything else as it stands.
fn split_array(document: Document) -> Vec<Document> {
    let is_array = |bytes: &[u8]| bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    match &document.bytes {
        Some(bytes) if is_array(bytes) => match serde_json::from_slice::<Vec<&RawValue>>(bytes) {
            Ok(elements) => elements
                .into_iter()
                .map(|e| Document {
                    line: document.line,
                    bytes: Some(e.get().as_bytes().to_vec()),
                })
                .collect(),
            Err(_) => vec![document],
        },
        _ => vec![document],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn documents(text: &str) -> Vec<(u64, String)> {
        let input = Input {
            name: "test".to_owned(),
            reader: Box::new(io::Cursor::new(text.as_bytes().to_vec())),
            size_bytes: None,
        };
        input
            .documents()
            .map(|d| d.unwrap())
            .map(|d| (d.line, String::from_utf8(d.bytes.unwrap()).unwrap()))
            .collect()
    }

    #[test]
    fn takes_a_document_a_line() {
        let read = documents("{\"a\":1}\n\n  \r\n{\"b\":\"}\"}\r\nnot json\n{\"c\":");
        let lines: Vec<_> = read.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(
            lines,
            [(1, "{\"a\":1}"), (4, "{\"b\":\"}\"}"), (5, "not json"), (6, "{\"c\":")]
        );
    }

    #[test]
    fn takes_one_value_that_spans_lines() {
        assert_eq!(
            documents("\n{\n \"a\": \"{\"\n}\n"),
            [(2, "{\n \"a\": \"{\"\n}\n".to_owned())]
        );
    }

    #[test]
    fn takes_an_array_apart_and_keeps_its_bytes() {
        assert_eq!(
            documents("[{\"a\": 1.0},\n {}]"),
            [(1, "{\"a\": 1.0}".to_owned()), (1, "{}".to_owned())]
        );
        assert_eq!(documents("[]"), []);
    }

    #[test]
    fn a_first_line_cut_off_does_not_swallow_the_others() {
        let read = documents("{\"a\":{\n{\"b\":1}\n\n{\"c\":1}\n");
        let lines: Vec<_> = read.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(lines, [(1, "{\"a\":{"), (2, "{\"b\":1}"), (4, "{\"c\":1}")]);
        let read = documents("\n{\"a\":{\r\n{\"b\":1}\r\n");
        assert_eq!(read, [(2, "{\"a\":{".to_owned()), (3, "{\"b\":1}".to_owned())]);
    }

    #[test]
    fn a_value_behind_a_byte_order_mark_stays_one_document() {
        let text = "\u{feff}{\n \"a\": 1\n}\n";
        assert_eq!(documents(text), [(1, text.to_owned())]);
    }

    #[test]
    fn two_values_on_a_line_stay_together() {
        assert_eq!(documents("{}{}"), [(1, "{}{}".to_owned())]);
    }
}

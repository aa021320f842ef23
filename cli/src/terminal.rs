//! Output for people: styles and ticks. Colours go away by themselves where the output isn't a
//! terminal.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use serde_json::json;
use service::instant::{now_ms, rfc3339_ms};
use service::telemetry::LogFormat;

use crate::failure::{CommandFailure, CommandOutcome};

/// Style of things that are as they should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Style of faults.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of things to look at.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Style of texts that may be read over.
pub const FAINT: Style = Style::new().dimmed();
/// A heading.
pub const HEAD: Style = Style::new().bold();

/// `text` in `style`.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// `text` on one line, with control characters and marks that change the direction of writing as
/// escapes: what strangers wrote can't move the cursor or show something else than it is.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if is_hidden(c) {
            // Writing into a String can't fail.
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}

/// Whether a terminal would act on a character instead of showing it.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Whether errors are lines of a log in JSON.
static HAS_JSON_ERRORS: AtomicBool = AtomicBool::new(false);

/// Has errors follow the format of the log.
pub fn set_error_format(format: LogFormat) {
    HAS_JSON_ERRORS.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Writes the error that ended the command, on standard error.
pub fn error(text: &str) {
    if HAS_JSON_ERRORS.load(Ordering::Relaxed) {
        let timestamp = rfc3339_ms(now_ms());
        note(json!({"timestamp": timestamp, "level": "ERROR", "message": text, "target": "receipts"}));
        return;
    }
    // Texts of input are in it.
    let lines: Vec<String> = text.lines().map(visible).collect();
    note(format_args!("{} {}", paint(BAD, "error:"), lines.join("\n")));
}

/// A tick or a cross.
#[must_use]
pub fn mark(good: bool) -> String {
    if good { paint(GOOD, "✓") } else { paint(BAD, "✗") }
}

/// Standard output for results: buffered, stripped of colours where they don't belong, with a
/// closed reader as a [`CommandFailure::OutputClosed`].
pub struct Output {
    stream: io::BufWriter<anstream::Stdout>,
}

impl Output {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self {
            stream: io::BufWriter::with_capacity(1 << 16, anstream::stdout()),
        }
    }

    /// Writes a line.
    pub fn line(&mut self, text: impl Display) -> Result<(), CommandFailure> {
        writeln!(self.stream, "{text}").map_err(|e| CommandFailure::output(&e))
    }

    /// Writes what was buffered.
    pub fn flush(&mut self) -> Result<(), CommandFailure> {
        self.stream.flush().map_err(|e| CommandFailure::output(&e))
    }
}

/// Standard output for bytes that aren't ours to change: no stripping of anything.
pub struct RawOutput {
    stream: io::BufWriter<io::StdoutLock<'static>>,
}

impl RawOutput {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self {
            stream: io::BufWriter::with_capacity(1 << 16, io::stdout().lock()),
        }
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), CommandFailure> {
        self.stream.write_all(bytes).map_err(|e| CommandFailure::output(&e))
    }

    /// Writes a value as one line of JSON.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<(), CommandFailure> {
        serde_json::to_writer(&mut self.stream, value).map_err(|e| CommandFailure::output(&e.into()))?;
        self.bytes(b"\n")
    }

    /// Writes what was buffered.
    pub fn flush(&mut self) -> Result<(), CommandFailure> {
        self.stream.flush().map_err(|e| CommandFailure::output(&e))
    }
}

/// Writes one line about what was done, and returns the answer.
pub fn report(line: impl Display, answer: CommandOutcome) -> Result<CommandOutcome, CommandFailure> {
    let mut out = Output::stdout();
    out.line(line)?;
    out.flush()?;
    Ok(answer)
}

/// Writes one line about a change: `done`, or `before` if nothing had to change.
pub fn report_change(
    is_done: bool,
    done: impl Display,
    before: impl Display,
) -> Result<CommandOutcome, CommandFailure> {
    let line: &dyn Display = if is_done { &done } else { &before };
    report(line, CommandOutcome::of(is_done))
}

/// A line for people on standard error; a closed one is no reason to fail.
pub fn note(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

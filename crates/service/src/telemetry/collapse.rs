//! Repeated lines: an engine that is away makes every request and every retry log the same line
//! so. Of each line in the code, a few pass in a while; the others are counted, and the next that
//! passes tells how many there were.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Time for which a line's count continues, and number of lines that pass in that time.
const WINDOW: Duration = Duration::from_secs(10);
const LINES_MAX: u32 = 10;

/// Formats as `F` does, and leaves out what repeats. What is requested by `debug` or `trace` is
/// never left out.
#[derive(Debug)]
pub(super) struct Collapse<F> {
    inner: F,
    json: bool,
    /// Counts of each line in the code that was ever written: as many as there are.
    seen: Mutex<HashMap<Identifier, Window>>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    passed: u32,
    left_out: u64,
}

impl<F> Collapse<F> {
    pub(super) fn new(inner: F, json: bool) -> Self {
        Self {
            inner,
            json,
            seen: Mutex::default(),
        }
    }

    /// `Some(n)` if the line may be written, with how many like it were left out since the last
    /// one.
    fn pass(&self, line: Identifier, now: Instant) -> Option<u64> {
        let mut seen = self.seen.lock();
        let window = seen.entry(line).or_insert(Window {
            began: now,
            passed: 0,
            left_out: 0,
        });
        if now.saturating_duration_since(window.began) >= WINDOW {
            window.began = now;
            window.passed = 0;
        }
        if window.passed >= LINES_MAX {
            window.left_out += 1;
            return None;
        }
        window.passed += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

impl<S, N, F> FormatEvent<S, N> for Collapse<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO {
            return self.inner.format_event(context, writer, event);
        }
        let Some(left_out) = self.pass(metadata.callsite(), Instant::now()) else {
            metrics::counter!("receipts_telemetry_lines_suppressed_total", "what" => metadata.target()).increment(1);
            return Ok(());
        };
        if left_out == 0 {
            return self.inner.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end();
        match line.strip_suffix('}').filter(|_| self.json) {
            Some(open) => writeln!(writer, "{open},\"collapsed\":{left_out}}}"),
            None => writeln!(writer, "{line} collapsed={left_out}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Out {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flood_of_one_line_is_a_few_lines_and_other_lines_pass() {
        let out = Out::default();
        let to = out.clone();
        let format = tracing_subscriber::fmt::format().json().flatten_event(true);
        let lines = tracing_subscriber::fmt()
            .json()
            .with_max_level(Level::TRACE)
            .event_format(Collapse::new(format, true))
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(lines, || {
            for attempt in 0..1_000 {
                tracing::warn!(attempt, "the warehouse is away");
                tracing::debug!(attempt, "asked for");
            }
            tracing::warn!("another line");
        });
        let text = String::from_utf8(out.0.lock().clone()).unwrap();
        let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        assert_eq!(
            (count("is away"), count("asked for"), count("another")),
            (10, 1_000, 1),
            "{text}"
        );
    }

    #[test]
    fn the_next_window_tells_how_many_were_left_out() {
        let collapse = Collapse::new((), false);
        let line = tracing::callsite!(name: "x", kind: tracing::metadata::Kind::EVENT, fields: left_out);
        let line = || tracing::Callsite::metadata(line).callsite();
        let start = Instant::now();
        let passed = (0..25).filter(|_| collapse.pass(line(), start).is_some()).count();
        assert_eq!(passed, 10);
        assert_eq!(collapse.pass(line(), start + WINDOW / 2), None);
        assert_eq!(collapse.pass(line(), start + WINDOW), Some(16));
        assert_eq!(collapse.pass(line(), start + WINDOW), Some(0));
    }
}

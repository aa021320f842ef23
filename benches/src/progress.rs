//! Progress of a measurement: a bar on a terminal, a line for each step elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::row::{Row, number};

/// Shows the steps of a run.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A run of `steps` figures.
    #[must_use]
    pub fn new(steps: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::new(steps as u64);
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Self { bar: Some(bar) }
    }

    /// A figure begins.
    pub fn begin(&self, figure: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(figure.to_owned()),
            None => anstream::eprintln!("measuring {figure}"),
        }
    }

    /// Notes that a step within a figure begins.
    pub fn step(&self, figure: &str, step: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("{figure}: {step}")),
            None => anstream::eprintln!("  {step}"),
        }
    }

    /// Prints the result of a figure: a run may last for long after it.
    pub fn found(&self, rows: &[Row]) {
        for row in rows {
            let mut text = format!(
                "  {}: {} {}",
                row.name,
                row.ours.map_or_else(|| "skipped".to_owned(), number),
                row.unit
            );
            for note in &row.notes {
                text.push_str("\n    ");
                text.push_str(note);
            }
            match &self.bar {
                Some(bar) => bar.println(text),
                None => anstream::eprintln!("{text}"),
            }
        }
    }

    /// A figure is done.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Everything is done.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

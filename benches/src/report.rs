//! The table a person reads, and the file that is written.

use std::path::{Path, PathBuf};

use anstream::println;
use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use serde::Serialize;

use crate::machine::Machine;
use crate::rounds::Effort;
use crate::row::{Row, number};

/// A whole run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// When it began, RFC 3339.
    pub at: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Machine of the run.
    pub machine: Machine,
    /// Runnable threads over the last minute, after the run.
    pub load_after: f64,
    /// Rounds whose median counts.
    pub rounds: usize,
    /// A quick run says that it works, not how fast.
    pub quick: bool,
    /// The figures.
    pub rows: Vec<Row>,
}

impl Report {
    /// Puts a run together.
    #[must_use]
    pub fn new(at: String, seconds: f64, machine: Machine, effort: &Effort, quick: bool, rows: Vec<Row>) -> Self {
        Self {
            at,
            seconds,
            machine,
            load_after: crate::machine::load(),
            rounds: effort.rounds,
            quick,
            rows,
        }
    }

    /// Prints the table.
    pub fn print(&self) {
        let bold = Style::new().bold();
        let machine = &self.machine;
        println!("\n{bold}{}{bold:#}, {}", machine.cpu, machine.summary());
        println!(
            "{} rounds each, ours and the reference in turn; medians. Load {} before, {} after.\n",
            self.rounds,
            number(machine.load_before),
            number(self.load_after)
        );
        let lines: Vec<[String; 7]> = self.rows.iter().map(cells).collect();
        let head = ["figure", "ours", "reference", "unit", "ratio", "target", "met"].map(str::to_owned);
        let mut widths = head.clone().map(|cell| cell.len());
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        println!("{bold}{}{bold:#}", layout(&head, &widths));
        for (row, line) in self.rows.iter().zip(&lines) {
            let style = match (row.met, &row.skipped) {
                (Some(true), _) => AnsiColor::Green.on_default(),
                (Some(false), _) => AnsiColor::Red.on_default().bold(),
                (None, Some(_)) => AnsiColor::Yellow.on_default(),
                (None, None) => Style::new(),
            };
            println!("{style}{}{style:#}", layout(line, &widths));
            if !row.reference_is.is_empty() {
                println!("    against {}", row.reference_is);
            }
            for note in row.skipped.iter().chain(&row.notes) {
                println!("    {note}");
            }
        }
        let targets = self.rows.iter().filter_map(|row| row.met);
        let (met, missed) = targets.fold(
            (0, 0),
            |(met, missed), is| if is { (met + 1, missed) } else { (met, missed + 1) },
        );
        let skipped = self.rows.iter().filter(|row| row.skipped.is_some()).count();
        println!("\n{met} targets met, {missed} missed, {skipped} figures not measured.");
    }

    /// Writes the run to `folder` as `<date>-<cpu>.json`, never over another run.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        self.write_as(folder, &slug(&self.machine.cpu))
    }

    /// Writes the run to `folder` as `<date>-<name>.json`, never over another run.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write_as(&self, folder: &Path, name: &str) -> Result<PathBuf> {
        let day = self.at.split('T').next().unwrap_or_default();
        let path = new_file(folder, &format!("{day}-{name}"), "json")?;
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

/// A path in `folder` that no file has yet: `<name>.<extension>`, or with a number behind the name.
///
/// # Errors
/// The folder can't be made.
pub(crate) fn new_file(folder: &Path, name: &str, extension: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let first = std::iter::once(name.to_owned());
    let names = first.chain((2..1_000).map(|number| format!("{name}-{number}")));
    let mut paths = names.map(|name| folder.join(format!("{name}.{extension}")));
    let path = paths.find(|path| !path.exists());
    path.context("a thousand runs on one day")
}

fn cells(row: &Row) -> [String; 7] {
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let what = if row.what.is_empty() {
        row.name.clone()
    } else {
        format!("{}  [{}]", row.what, row.name)
    };
    let met = match (row.met, &row.skipped) {
        (Some(true), _) => "yes",
        (Some(false), _) => "NO",
        (None, Some(_)) => "not measured",
        (None, None) => "",
    };
    [
        what,
        shown(row.ours),
        shown(row.reference),
        row.unit.to_owned(),
        row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x")),
        row.target.clone().unwrap_or_default(),
        met.to_owned(),
    ]
}

/// Text to the left, numbers to the right.
fn layout(cells: &[String; 7], widths: &[usize; 7]) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        match index {
            1 | 2 | 4 => line.extend([padding.as_str(), cell]),
            _ => line.extend([cell.as_str(), padding.as_str()]),
        }
        line.push_str("  ");
    }
    line.trim_end().to_owned()
}

/// A text as a part of a file's name.
pub(crate) fn slug(text: &str) -> String {
    let words = text.replace("(R)", "").replace("(TM)", "").to_ascii_lowercase();
    let words = words
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn file_names_are_plain() {
        assert_eq!(
            slug("Intel(R) Xeon(R) Processor (family 6 model 167)"),
            "intel-xeon-processor-family-6-model-167"
        );
    }
}

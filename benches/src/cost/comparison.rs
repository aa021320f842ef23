//! Figures of a run beside those of the last one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Load};
use super::measured::Measured;

/// A figure that gets worse by more than this needs a sentence in the commit that does it.
const WORSE: f64 = 1.10;
/// Stages below so many microseconds a receipt aren't compared.
const STAGE_US_MIN: f64 = 1.0;

/// A number of which less is better, and its reference, where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// The reference, measured beside it.
    pub reference: Option<f64>,
}

/// Figures by name.
pub type Figures = BTreeMap<String, Figure>;

/// An earlier run, as far as it is compared.
#[derive(Debug, Deserialize)]
pub struct Earlier {
    /// When it began.
    pub at: String,
    /// Machine of the run.
    pub machine: EarlierMachine,
    #[serde(default)]
    quick: bool,
    /// Numbers to compare.
    pub figures: Figures,
}

/// The machine of an earlier run.
#[derive(Debug, Deserialize)]
pub struct EarlierMachine {
    /// The processor's name.
    pub cpu: String,
}

/// A figure that is more than 10% worse.
#[derive(Debug, PartialEq, Serialize)]
pub struct Worse {
    /// Name of the figure.
    pub name: String,
    /// The number in the earlier run.
    pub before: f64,
    /// The number now.
    pub now: f64,
    /// Ratio of both numbers, each against its reference.
    pub times: f64,
}

/// Figures of a cell.
#[must_use]
pub fn figures(cell: &Cell, measured: &Measured) -> Figures {
    let name = cell.name();
    let mut figures = Figures::new();
    let mut add = |what: &str, value: f64, reference: Option<f64>| {
        figures.insert(format!("{name} {what}"), Figure { value, reference });
    };
    let yardstick = measured.references.get(&cell.reference()).copied();
    let bare_go = measured.references.get("bare-go").copied();
    add("CPU us", measured.cpu_us(), yardstick);
    for (stage, cost) in &measured.stages {
        if measured.stages.len() > 1 && cost.work.cpu() >= STAGE_US_MIN {
            let reference = if stage == "gateway" {
                bare_go.or(yardstick)
            } else {
                yardstick
            };
            add(&format!("{stage} CPU us"), cost.work.cpu(), reference);
        }
    }
    add("switches", measured.sum(|cost| cost.work.switches), None);
    add("written bytes", measured.sum(|cost| cost.written_bytes), None);
    add("stored bytes", measured.table_bytes(), None);
    add("peak MB", measured.sum(|cost| cost.memory_peak_mb), None);
    if cell.load == Load::Saturation {
        add("wall us", measured.seconds * 1e6 / measured.receipts, yardstick);
    }
    figures
}

/// The latest figures in a folder, of the same processor where there are some. A run of some cells
/// replaces their figures only.
///
/// # Errors
/// The folder or a run can't be read.
pub fn last(folder: &Path, cpu: &str) -> Result<Option<Earlier>> {
    let mut runs = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("cost-") && name.ends_with(".json") {
            let text = std::fs::read_to_string(&path)?;
            let run: Earlier = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
            runs.push(run);
        }
    }
    runs.retain(|run| !run.quick);
    if runs.iter().any(|run| run.machine.cpu == cpu) {
        runs.retain(|run| run.machine.cpu == cpu);
    }
    runs.sort_by(|left, right| left.at.cmp(&right.at));
    Ok(runs.into_iter().reduce(|mut earlier, later| {
        earlier.figures.extend(later.figures);
        Earlier {
            figures: earlier.figures,
            ..later
        }
    }))
}

/// Figures of both runs that got worse, the worst first.
#[must_use]
pub fn worse(before: &Figures, now: &Figures) -> Vec<Worse> {
    let mut worse: Vec<Worse> = now
        .iter()
        .filter_map(|(name, figure)| {
            let earlier = before.get(name)?;
            let speed = match (figure.reference, earlier.reference) {
                (Some(now), Some(before)) => now / before,
                _ => 1.0,
            };
            Some(Worse {
                name: name.clone(),
                before: earlier.value,
                now: figure.value,
                times: figure.value / earlier.value / speed,
            })
        })
        .filter(|figure| figure.times > WORSE)
        .collect();
    worse.sort_by(|a, b| b.times.total_cmp(&a.times));
    worse
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn figures(of: &[(&str, f64, Option<f64>)]) -> Figures {
        of.iter()
            .map(|(name, value, reference)| {
                let (value, reference) = (*value, *reference);
                ((*name).to_owned(), Figure { value, reference })
            })
            .collect()
    }

    #[test]
    fn a_figure_is_worse_against_its_reference() {
        let before = figures(&[
            ("slower machine", 100.0, Some(20.0)),
            ("slower", 100.0, Some(20.0)),
            ("more memory", 100.0, None),
            ("a little more", 100.0, None),
            ("gone", 1.0, None),
        ]);
        let now = figures(&[
            ("slower machine", 150.0, Some(30.0)),
            ("slower", 100.0, Some(16.0)),
            ("more memory", 200.0, None),
            ("a little more", 109.0, None),
            ("new", 1.0, None),
        ]);
        let worse = worse(&before, &now);
        let found: Vec<_> = worse
            .iter()
            .map(|figure| (figure.name.as_str(), figure.times))
            .collect();
        assert_eq!(found, [("more memory", 2.0), ("slower", 1.25)]);
    }

    #[test]
    fn the_last_figures_are_the_latest_of_the_same_processor() {
        let folder = tempfile::tempdir().unwrap();
        assert!(last(folder.path(), "a").unwrap().is_none());
        let runs = [
            ("cost-1.json", "2026-11-01", "a", false, ["one", "two"]),
            ("cost-2.json", "2026-11-02", "a", false, ["two", "two"]),
            ("cost-3.json", "2026-11-03", "b", false, ["one", "two"]),
            ("cost-4.json", "2026-11-04", "a", true, ["one", "two"]),
            ("2026-11-05-a.json", "2026-11-05", "a", false, ["one", "two"]),
        ];
        for (number, (file, at, cpu, quick, names)) in (1_u8..).zip(runs) {
            let figure = serde_json::json!({"value": number, "reference": null});
            let figures: BTreeMap<&str, _> = names.map(|name| (name, &figure)).into();
            let run = serde_json::json!({"at": at, "machine": {"cpu": cpu}, "quick": quick, "figures": figures});
            std::fs::write(folder.path().join(file), run.to_string()).unwrap();
        }
        let found = last(folder.path(), "a").unwrap().unwrap();
        assert_eq!(found.at, "2026-11-02");
        assert_eq!(found.figures, figures(&[("one", 1.0, None), ("two", 2.0, None)]));
        assert_eq!(last(folder.path(), "c").unwrap().unwrap().at, "2026-11-03");
    }
}

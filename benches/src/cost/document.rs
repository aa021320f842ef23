//! A run as a Markdown document, for a person and for `benches/runs`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Run;
use super::cell::Cell;
use super::measured::Measured;
use super::meter::Work;
use crate::row::number;

/// Thread groups below this part of a cell's CPU time are summed up.
const SHOWN_PART: f64 = 0.01;
/// Columns of a cell that are listed.
const COLUMNS: usize = 12;

/// The document.
#[must_use]
pub fn write(run: &Run) -> String {
    let machine = &run.machine;
    let mut text = format!(
        "# Cost of a receipt, {}\n\n| {} | {} | load {} before{} |\n|---|---|---|\n\n\
         [docs/design/cost.md](../../docs/design/cost.md) explains the numbers. They are for each\n\
         receipt where nothing else is said.\n\n",
        run.at.split('T').next().unwrap_or_default(),
        machine.cpu,
        machine.summary(),
        number(machine.load_before),
        if run.quick {
            ", **quick: not a measurement**"
        } else {
            ""
        },
    );
    table(
        &mut text,
        "cell | CPU us | reference | ratio | receipts/s | switches | written B | stored B | peak MB",
        run.cells.iter().map(|(name, measured)| summary(name, measured)),
    );
    match &run.compared_with {
        None => text.push_str("\nThere is no earlier run to compare with.\n"),
        Some(at) if run.worse.is_empty() => {
            let _ = writeln!(text, "\nNo figure is worse by more than 10% than in the run of {at}.");
        }
        Some(at) => {
            let _ = writeln!(
                text,
                "\nWorse by more than 10% than in the run of {at}, against the reference where there is one.\n\
                 Each of them needs a sentence in the commit that does it:\n"
            );
            let worse = run.worse.iter().map(|figure| {
                let times = format!("{:.2}", figure.times);
                vec![figure.name.clone(), number(figure.before), number(figure.now), times]
            });
            table(&mut text, "figure | before | now | times as much", worse);
        }
    }
    for (name, measured) in &run.cells {
        let _ = writeln!(text, "\n## {name}\n");
        cell(measured, &mut text);
    }
    for (name, why) in &run.skipped {
        let _ = writeln!(text, "\n## {name}\n\nNot measured: {why}");
    }
    text
}

fn table(text: &mut String, head: &str, lines: impl Iterator<Item = Vec<String>>) {
    let _ = writeln!(text, "| {head} |\n|{}", "---|".repeat(head.split('|').count()));
    for line in lines {
        let _ = writeln!(text, "| {} |", line.join(" | "));
    }
}

fn summary(name: &str, measured: &Measured) -> Vec<String> {
    let cell = Cell::all().into_iter().find(|cell| cell.name() == *name);
    let reference = cell.map(|cell| cell.reference()).unwrap_or_default();
    let us = measured.references.get(&reference).copied().unwrap_or(f64::NAN);
    let numbers = [
        measured.receipts / measured.seconds,
        measured.sum(|stage| stage.work.switches),
        measured.sum(|stage| stage.written_bytes),
        measured.table_bytes(),
        measured.sum(|stage| stage.memory_peak_mb),
    ];
    let mut line = vec![
        name.to_owned(),
        number(measured.cpu_us()),
        format!("{} {reference}", number(us)),
        format!("{:.2}x", measured.cpu_us() / us),
    ];
    line.extend(numbers.map(number));
    line
}

fn cell(measured: &Measured, text: &mut String) {
    let whole = measured.cpu_us();
    let line = |name: String, work: &Work, rest: [String; 2]| {
        let [cpu, user, system, switches] = [work.cpu(), work.user, work.system, work.switches].map(number);
        let [written, peak] = rest;
        let part = format!("{:.0}%", 100.0 * work.cpu() / whole);
        vec![name, cpu, user, system, switches, part, written, peak]
    };
    let mut lines = Vec::new();
    for (stage, cost) in &measured.stages {
        let rest = [cost.written_bytes, cost.memory_peak_mb].map(number);
        lines.push(line(format!("**{stage}**"), &cost.work, rest));
        let mut others = Work::default();
        for (name, work) in descending(&cost.threads, Work::cpu) {
            if work.cpu() < SHOWN_PART * whole {
                others.add(work, 1.0);
            } else {
                lines.push(line(format!("{stage}: {name}"), work, Default::default()));
            }
        }
        if others.cpu() > 0.0 {
            lines.push(line(format!("{stage}: others"), &others, Default::default()));
        }
    }
    let head = "stage: threads | CPU us | user | kernel | switches | part | written B | peak MB";
    table(text, head, lines.into_iter());
    let sampled: f64 = measured.functions.values().sum();
    let functions = descending(&measured.functions, |us| *us).into_iter();
    let functions = functions.map(|(name, us)| {
        let part = format!("{:.1}%", 100.0 * us / sampled);
        vec![name.clone(), part, number(*us)]
    });
    text.push('\n');
    table(text, "functions | part | CPU us", functions);
    let tables = measured.tables.iter().map(|(name, table)| {
        let mut line = vec![name.clone()];
        line.extend([table.rows, table.bytes].map(|value| number(value / measured.receipts_stored)));
        line.extend([table.inserts, table.parts, table.inactive_parts, table.level].map(number));
        line
    });
    text.push('\n');
    let head = "table | rows | B | inserted parts | active | inactive | most merges of a part";
    table(text, head, tables);
    let columns = descending(&measured.columns, |bytes| *bytes);
    let listed = [
        ("largest columns, B a row", columns.into_iter().take(COLUMNS).collect()),
        ("engine, in the whole load", measured.events.iter().collect()),
        ("references, CPU us", measured.references.iter().collect::<Vec<_>>()),
    ];
    let rows = listed.into_iter().map(|(what, values)| {
        let values = values.iter().map(|(name, value)| format!("{name} {}", number(**value)));
        vec![what.to_owned(), values.collect::<Vec<_>>().join(", ")]
    });
    text.push('\n');
    table(text, "more | values", rows);
    for note in &measured.notes {
        let _ = writeln!(text, "\n{note}.");
    }
}

fn descending<V>(values: &BTreeMap<String, V>, by: impl Fn(&V) -> f64) -> Vec<(&String, &V)> {
    let mut sorted: Vec<_> = values.iter().collect();
    sorted.sort_by(|left, right| by(right.1).total_cmp(&by(left.1)));
    sorted
}

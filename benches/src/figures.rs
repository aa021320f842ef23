//! The figures: one module for each subject, one row for each number.

mod acknowledgement;
mod canonical;
mod gateway;
mod kafka;
mod log;
mod outer;
mod service;
mod verify;
mod warehouse;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::arguments::RunArguments;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::report::Report;
use crate::rounds::Effort;
use crate::row::Row;
use crate::scratch::Scratch;

/// Setting of every figure.
pub struct Setting<'a> {
    /// Extent of the measurement.
    pub effort: Effort,
    /// Folder of logs.
    pub scratch: Scratch,
    /// The command line.
    pub arguments: &'a RunArguments,
    /// Progress of the measurement.
    pub progress: Progress,
}

struct Figure {
    name: &'static str,
    measure: fn(&Setting<'_>) -> Result<Vec<Row>>,
}

const FIGURES: &[Figure] = &[
    Figure {
        name: "canonical",
        measure: canonical::measure,
    },
    Figure {
        name: "verify-ed25519",
        measure: verify::ed25519,
    },
    Figure {
        name: "verify-rsa",
        measure: verify::rsa,
    },
    Figure {
        name: "verify-ecdsa",
        measure: verify::ecdsa,
    },
    Figure {
        name: "outer",
        measure: outer::measure,
    },
    Figure {
        name: "acknowledgement",
        measure: acknowledgement::measure,
    },
    Figure {
        name: "verify-threads",
        measure: verify::threads,
    },
    Figure {
        name: "log",
        measure: log::measure,
    },
    Figure {
        name: "warehouse",
        measure: warehouse::measure,
    },
    Figure {
        name: "gateway-singles",
        measure: gateway::singles,
    },
    Figure {
        name: "gateway-batches",
        measure: gateway::batches,
    },
    Figure {
        name: "gateway-memory",
        measure: gateway::memory,
    },
    Figure {
        name: "gateway-kafka",
        measure: kafka::measure,
    },
    Figure {
        name: "service-sustained",
        measure: service::sustained,
    },
    Figure {
        name: "service-freshness",
        measure: service::freshness,
    },
];

/// Measures, prints, writes.
///
/// # Errors
/// No such figure, or no folder for the run. A figure that can't be measured is a row that says
/// why.
pub fn run(arguments: &RunArguments) -> Result<()> {
    if arguments.list {
        for figure in FIGURES {
            anstream::println!("{}", figure.name);
        }
        return Ok(());
    }
    let wanted = |figure: &&Figure| {
        arguments.only.is_empty() || arguments.only.iter().any(|part| figure.name.contains(part.as_str()))
    };
    let figures: Vec<&Figure> = FIGURES.iter().filter(wanted).collect();
    if figures.is_empty() {
        bail!(
            "no figure's name contains {}; --list lists them",
            arguments.only.join(" or ")
        );
    }
    let at = ::service::instant::rfc3339_ms(::service::instant::now_ms());
    let began = Instant::now();
    let scratch = Scratch::new(arguments.scratch.as_deref())?;
    let machine = Machine::look(scratch.path());
    let progress = Progress::new(figures.len());
    let setting = Setting {
        effort: Effort::new(arguments.quick),
        scratch,
        arguments,
        progress,
    };
    let mut rows = Vec::new();
    for figure in figures {
        setting.progress.begin(figure.name);
        // A bug in what is measured costs its own row, not the run.
        match catch_unwind(AssertUnwindSafe(|| (figure.measure)(&setting))) {
            Ok(Ok(measured)) => rows.extend(measured),
            Ok(Err(error)) => rows.push(Row::skipped(figure.name, format!("{error:#}"))),
            Err(_) => rows.push(Row::skipped(figure.name, "it panicked; see above")),
        }
        setting.progress.end();
    }
    setting.progress.finish();
    let report = Report::new(
        at,
        began.elapsed().as_secs_f64(),
        machine,
        &setting.effort,
        arguments.quick,
        rows,
    );
    report.print();
    let path = report.write(&arguments.out)?;
    anstream::println!("Written to {}", path.display());
    Ok(())
}

//! Running drills, with progress and a summary.

use std::time::{Duration, Instant};

use anstream::{eprintln, println};
use anstyle::{AnsiColor, Style};
use anyhow::{Result, ensure};

use crate::fleet::Shape;

use super::disks::may_mount;
use super::logs::print_logs;
use super::{Body, DRILLS, Drill, Figures, Setting, Stage};

/// End of a drill.
struct Ended {
    drill: Drill,
    took: Duration,
    result: Option<Result<Figures>>,
}

/// The drills whose names hold one of `only`; all without any.
///
/// # Errors
/// A word fits none.
pub fn chosen(only: &[String]) -> Result<Vec<Drill>> {
    for word in only {
        ensure!(
            DRILLS.iter().any(|drill| drill.name.contains(word.as_str())),
            "no drill is called {word}: --list shows them"
        );
    }
    let wanted = |drill: &&Drill| only.is_empty() || only.iter().any(|word| drill.name.contains(word.as_str()));
    Ok(DRILLS.iter().filter(wanted).copied().collect())
}

/// Prints the drills.
pub fn list() {
    for drill in DRILLS {
        println!("{:<20} {}", drill.name, drill.what);
    }
}

/// Runs them, one after the other; whether all passed.
pub async fn run(drills: Vec<Drill>, setting: &Setting) -> bool {
    let faint = Style::new().dimmed();
    eprintln!("{faint}seed {}{faint:#}", setting.seed);
    let mut stage: Option<Stage> = None;
    let mut all = Vec::new();
    for (number, drill) in drills.iter().enumerate() {
        eprintln!("[{}/{}] {}: {}", number + 1, drills.len(), drill.name, drill.what);
        let began = Instant::now();
        let result = match drill.body {
            Body::Shared(run) => Some(on_stage(&mut stage, setting, run).await),
            Body::Own(_) if !may_mount() => None,
            Body::Own(run) => Some(run(setting.clone()).await),
        };
        let ended = Ended {
            drill: *drill,
            took: began.elapsed(),
            result,
        };
        eprintln!("  {}", ended.line());
        all.push(ended);
    }
    println!();
    for ended in &all {
        println!("{:<20} {}", ended.drill.name, ended.line());
    }
    all.iter().all(|ended| !matches!(ended.result, Some(Err(_))))
}

/// A drill on the shared fleet; one that failed leaves no fleet to the next.
async fn on_stage(
    stage: &mut Option<Stage>,
    setting: &Setting,
    run: for<'a> fn(&'a mut Stage) -> futures_util::future::BoxFuture<'a, Result<()>>,
) -> Result<Figures> {
    let mut set = match stage.take() {
        Some(set) => set,
        None => Stage::set(setting, &Shape::for_drills(&setting.programs)).await?,
    };
    match run(&mut set).await {
        Ok(()) => {
            let figures = set.take_figures();
            *stage = Some(set);
            Ok(figures)
        }
        Err(error) => {
            print_logs(&mut set.fleet);
            Err(error)
        }
    }
}

impl Ended {
    fn line(&self) -> String {
        let good = AnsiColor::Green.on_default().bold();
        let bad = AnsiColor::Red.on_default().bold();
        let took = self.took.as_secs_f64();
        match &self.result {
            None => format!("skipped  {took:>6.1} s  mounting a tmpfs needs root"),
            Some(Err(error)) => format!("{bad}FAILED{bad:#}   {took:>6.1} s  {error:#}"),
            Some(Ok(figures)) => {
                let figures: Vec<String> = figures.iter().map(|(name, value)| format!("{name} {value}")).collect();
                format!("{good}exact{good:#}    {took:>6.1} s  {}", figures.join(", "))
            }
        }
    }
}

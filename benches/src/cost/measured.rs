//! A measured cell: the load, and its cost for each receipt.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::cell::{Cell, Load, STEADY_PER_S};
use super::installation::Installation;
use super::meter::{Meter, Stage, Work};
use super::stored::{self, Table};
use super::{functions, reference};
use crate::traffic::{BATCH_PATH, Requests, SINGLE_PATH};
use crate::workload;

/// Part of the receipts that come before the measured ones: keys become known, tables get parts.
const WARM_UP: usize = 10;
/// Part of the receipts that come after them, under `perf`.
const PROFILED: usize = 3;
/// Time of merges behind the last insert that counts.
const SETTLE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Programs and extent of a measurement.
pub struct Effort<'a> {
    /// The folder with `receipts` and `receipts-load`.
    pub programs: &'a Path,
    /// A new folder for data.
    pub data: &'a Path,
    /// About the seconds that a load takes.
    pub seconds: usize,
}

/// Work of a stage for each receipt; CPU times in microseconds.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageCost {
    /// All threads.
    pub work: Work,
    /// Groups of threads.
    pub threads: BTreeMap<String, Work>,
    /// Bytes that were written to disks.
    pub written_bytes: f64,
    /// Most memory, in MB.
    pub memory_peak_mb: f64,
}

/// A cell's cost. Unless a name says otherwise, numbers are for each receipt.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Receipts of the counted load.
    pub receipts: f64,
    /// From the first request until every receipt was stored.
    pub seconds: f64,
    /// CPU time and switches of all stages by name.
    pub stages: BTreeMap<String, StageCost>,
    /// CPU time by group of functions, in microseconds: of the service's own processes.
    pub functions: BTreeMap<String, f64>,
    /// Tables by name: whole numbers of rows, parts and bytes.
    pub tables: BTreeMap<String, Table>,
    /// Stored bytes of a table's row by `table.column`.
    pub columns: BTreeMap<String, f64>,
    /// Growth of the engine's counters.
    pub events: BTreeMap<String, f64>,
    /// Receipts that are in the tables.
    pub receipts_stored: f64,
    /// References, in microseconds of CPU time.
    pub references: BTreeMap<String, f64>,
    /// Reasons of numbers that are missing.
    pub notes: Vec<String>,
}

impl Measured {
    /// A number's sum over all stages.
    #[must_use]
    pub fn sum(&self, of: impl Fn(&StageCost) -> f64) -> f64 {
        self.stages.values().map(of).sum()
    }

    /// CPU microseconds of all stages for each receipt.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        self.sum(|stage| stage.work.cpu())
    }

    /// Bytes of all tables for each receipt.
    #[must_use]
    pub fn table_bytes(&self) -> f64 {
        self.tables.values().map(|table| table.bytes).sum::<f64>() / self.receipts_stored
    }
}

/// An installation under a cell's load.
pub struct Loaded<'a> {
    cell: &'a Cell,
    effort: &'a Effort<'a>,
    installation: Installation,
    counted: Requests,
    profiled: Requests,
}

impl<'a> Loaded<'a> {
    /// Signs the requests, starts the service and warms it up.
    ///
    /// # Errors
    /// The service doesn't start, or refuses a request.
    pub async fn start(cell: &'a Cell, effort: &'a Effort<'a>) -> Result<Self> {
        let path = match cell.batch {
            1 => SINGLE_PATH,
            _ => BATCH_PATH,
        };
        let counted = cell.receipts(effort.seconds) / cell.batch;
        let [warm_up, profiled] = [WARM_UP, PROFILED].map(|part| counted.div_ceil(part));
        let receipts = (warm_up + counted + profiled) * cell.batch;
        let signed = workload::unique(cell.clients, cell.batch, receipts)?;
        let (warm_up, rest) = signed.split_at(warm_up);
        let (counted, profiled) = rest.split_at(counted);
        let loaded = Self {
            cell,
            effort,
            installation: Installation::start(cell.shape, effort.programs, effort.data).await?,
            counted: Requests::new(path, counted),
            profiled: Requests::new(path, profiled),
        };
        loaded.send(&Requests::new(path, warm_up), &mut || Ok(())).await?;
        Ok(loaded)
    }

    /// Sends requests until each receipt is stored; `look` runs meanwhile.
    async fn send(&self, requests: &Requests, look: &mut impl FnMut() -> Result<()>) -> Result<f64> {
        let before = self.installation.stored().await?;
        let rate = match self.cell.load {
            Load::Steady => Some(f64::from(STEADY_PER_S) / self.cell.batch as f64),
            Load::Saturation => None,
        };
        // Bodies of 1,000 receipts fill the gateway's buffers soon.
        let connections = if self.cell.batch < 1_000 { 64 } else { 8 };
        let began = Instant::now();
        let sending = requests.send(self.installation.gateway, connections, requests.count(), rate);
        tokio::pin!(sending);
        let answers = loop {
            tokio::select! {
                answers = &mut sending => break answers?,
                () = tokio::time::sleep(LOOK_EVERY) => look()?,
            }
        };
        ensure!(
            answers.others.is_empty(),
            "the gateway answered {:?}, not 202",
            answers.others
        );
        let receipts = requests.count() as f64 * self.cell.batch as f64;
        self.installation.wait_for(before + receipts, look).await?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Sends the counted load, and measures it.
    ///
    /// # Errors
    /// A request is refused, or a process ends.
    pub async fn measure(&self) -> Result<Measured> {
        let (socket, requests) = (&self.installation.socket, &self.counted);
        let events = stored::events(socket).await?;
        let warmed_up = self.installation.stored().await?;
        let mut meter = Meter::start(self.installation.processes.clone())?;
        let seconds = self.send(requests, &mut || meter.sample()).await?;
        tokio::time::sleep(SETTLE).await;
        let stages = meter.finish()?;
        let receipts = requests.count() as f64 * self.cell.batch as f64;
        let mut grown = stored::events(socket).await?;
        for (event, before) in &events {
            if let Some(now) = grown.get_mut(event) {
                *now -= before;
            }
        }
        let receipts_stored = warmed_up + receipts;
        let tables = stored::tables(socket).await?;
        let rows = tables.get("receipts").map_or(0.0, |table| table.rows);
        ensure!(
            rows == receipts_stored,
            "{receipts_stored} receipts have an outcome, but the table has {rows}"
        );
        Ok(Measured {
            receipts,
            seconds,
            stages: stages
                .iter()
                .map(|(name, stage)| (name.clone(), StageCost::new(stage, receipts)))
                .collect(),
            tables,
            columns: stored::columns(socket).await?,
            events: grown,
            receipts_stored,
            ..Measured::default()
        })
    }

    /// Sends some more under `perf`, then measures the references beside the service at rest.
    ///
    /// # Errors
    /// A request is refused, or a reference doesn't start.
    pub async fn explain(&self, measured: &mut Measured, bare_go: Option<&Path>) -> Result<()> {
        let file = self.effort.data.with_extension("perf");
        let processes: Vec<u32> = self.installation.processes.keys().copied().collect();
        match functions::record(&processes, &file).await? {
            None => measured.notes.push("function groups: perf isn't installed".to_owned()),
            Some(recording) => {
                self.send(&self.profiled, &mut || Ok(())).await?;
                match functions::report(recording, &file).await {
                    Ok(shares) => {
                        let own = |name: &&String| self.installation.processes.values().any(|own| own == *name);
                        let own = measured.stages.iter().filter(|(name, _)| own(name));
                        let us: f64 = own.map(|(_, stage)| stage.work.cpu()).sum();
                        let functions = shares.into_iter().map(|(group, share)| (group, share * us));
                        measured.functions = functions.collect();
                    }
                    Err(error) => measured.notes.push(format!("function groups: {error:#}")),
                }
            }
        }
        let (requests, batch) = (&self.counted, self.cell.batch);
        let mut add = |name: String, us: f64| measured.references.insert(name, us);
        let verify = reference::verify_us(self.cell.clients)?;
        add(format!("verify-{}", self.cell.mix), verify);
        add(
            "bare-hyper".to_owned(),
            reference::bare_hyper_us(requests, batch).await?,
        );
        match (self.installation.brokers(), bare_go) {
            (Some(brokers), Some(program)) => {
                let us = reference::bare_go_us(program, brokers, requests, batch).await?;
                add("bare-go".to_owned(), us);
            }
            (Some(_), None) => measured.notes.push("bare-go: Go isn't installed".to_owned()),
            (None, _) => {}
        }
        Ok(())
    }
}

impl StageCost {
    fn new(stage: &Stage, receipts: f64) -> Self {
        let each = |work: &Work| Work {
            user: work.user * 1e6 / receipts,
            system: work.system * 1e6 / receipts,
            switches: work.switches / receipts,
        };
        let threads = stage.threads.iter().map(|(name, work)| (name.clone(), each(work)));
        Self {
            work: each(&stage.work),
            threads: threads.filter(|(_, work)| work.cpu() > 0.0).collect(),
            written_bytes: stage.written_bytes / receipts,
            memory_peak_mb: stage.memory_peak_bytes / 1e6,
        }
    }
}

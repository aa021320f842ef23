//! A fleet under load, and what a drill can do with it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::fleet::ledger::Ledger;
use crate::fleet::{Fleet, Shape};
use crate::report::Report;
use crate::run::Run;

use super::{Figures, Setting};

/// Load before the first fault, so that it meets work in progress.
const WARM_UP: Duration = Duration::from_secs(2);
/// Tries of a request: nothing is given up in a drill.
const TRIES_MAX: &str = "1000000";

/// A fleet, the randomness of the drills on it, and what the present one measured.
pub struct Stage {
    /// The installation.
    pub fleet: Fleet,
    /// Setting of the drills.
    pub setting: Setting,
    /// Decides instants and victims.
    pub random: StdRng,
    figures: Figures,
    domains: u32,
    /// Further environment of the commands that make API keys.
    pub(super) key_environment: Vec<(String, String)>,
}

/// A load in progress, and the ledger before it.
pub struct Load {
    /// The generator.
    pub run: Run,
    ledger: Ledger,
}

impl Stage {
    /// Starts a fleet.
    ///
    /// # Errors
    /// See [`Fleet::start`].
    pub async fn set(setting: &Setting, shape: &Shape) -> Result<Self> {
        Ok(Self {
            fleet: Fleet::start(shape).await?,
            setting: setting.clone(),
            random: StdRng::seed_from_u64(setting.seed),
            figures: Figures::new(),
            domains: 0,
            key_environment: Vec::new(),
        })
    }

    /// So long in a whole run, and so long in a short one.
    #[must_use]
    pub fn seconds(&self, long: f64, short: f64) -> Duration {
        Duration::from_secs_f64(if self.setting.short { short } else { long })
    }

    /// So many in a whole run, and so many in a short one.
    #[must_use]
    pub fn times(&self, long: u32, short: u32) -> u32 {
        if self.setting.short { short } else { long }
    }

    /// Waits so long in a whole run, and so long in a short one.
    pub async fn wait(&self, long: f64, short: f64) {
        tokio::time::sleep(self.seconds(long, short)).await;
    }

    /// Waits for a random instant.
    pub async fn wait_at_random(&mut self, at_least: f64, at_most: f64) {
        let wait = self.random.random_range(at_least..at_most);
        tokio::time::sleep(Duration::from_secs_f64(wait)).await;
    }

    /// A random index below `count`.
    pub fn pick(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    /// Says what happens now.
    pub fn say(&self, what: &str) {
        if self.setting.verbose {
            anstream::eprintln!("    {what}");
        }
    }

    /// Notes a figure for the summary.
    pub fn figure(&mut self, name: &'static str, value: impl Into<String>) {
        self.figures.push((name, value.into()));
    }

    /// Takes the figures noted so far.
    pub fn take_figures(&mut self) -> Figures {
        std::mem::take(&mut self.figures)
    }

    /// Receipts a second that a load offers.
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.times(800, 100)
    }

    /// Starts a load for a publisher of its own, at all gateways.
    ///
    /// # Errors
    /// The first audit fails, or there is no key to be had.
    pub async fn load(&mut self) -> Result<Load> {
        self.load_with(&[], &[]).await
    }

    /// Starts a load with further arguments, and at other addresses than the gateways' own if there
    /// are any.
    ///
    /// # Errors
    /// As [`Stage::load`].
    pub async fn load_with(&mut self, more: &[&str], gateways: &[String]) -> Result<Load> {
        self.domains += 1;
        let domain = format!("drill-{}.example", self.domains);
        let mut installation = self.fleet.installation();
        let mut registering = installation.clone();
        registering.environment.extend(self.key_environment.iter().cloned());
        let key = registering.create_key(&domain).await?;
        if !gateways.is_empty() {
            installation.gateways = gateways.to_vec();
        }
        let (rate, seed) = (self.rate().to_string(), self.random.random::<u32>().to_string());
        let mut arguments = vec!["--rate", &rate, "--seed", &seed, "--duration", "3600", "--batch", "5"];
        arguments.extend(["--tries-max", TRIES_MAX, "--concurrency", "48", "--clients", "10"]);
        arguments.extend(["--sample-ms", "200", "--wait-max", "180"]);
        arguments.extend(more);
        let ledger = self.fleet.ledger().await?;
        let run = Run::start(installation.load(&key, &domain, &arguments)).await?;
        tokio::time::sleep(WARM_UP).await;
        ensure!(run.acknowledged() > 0, "nothing was acknowledged in {WARM_UP:?}");
        Ok(Load { run, ledger })
    }

    /// Ends the load, waits until everything acknowledged is counted, and checks every number, the
    /// books and the ledger. The lines that the ledger got meanwhile.
    ///
    /// # Errors
    /// The first things that are wrong.
    pub async fn settle(&mut self, load: Load) -> Result<(Report, Ledger)> {
        self.say("waiting for the last receipt, then auditing");
        load.run.stop();
        let stopped = Instant::now();
        let report = load.run.finish().await?;
        let faults = report.faults();
        ensure!(report.passed(), "{}", faults.join("\n"));
        let ledger = self.fleet.ledger().await?;
        ledger.check()?;
        let new = ledger.since(&load.ledger);
        self.figure("receipts", report.receipts.to_string());
        if report.repeated_tries > 0 {
            self.figure("tries repeated", report.repeated_tries.to_string());
        }
        if report.unavailable > 0 {
            let slowest = report.slowest_unavailable_ms;
            self.figure("503", format!("{} (slowest {slowest} ms)", report.unavailable));
        }
        self.figure("settled in", format!("{:.1} s", stopped.elapsed().as_secs_f64()));
        Ok((report, new))
    }

    /// Waits until receipts are acknowledged at nearly the offered rate over a second; how long
    /// that took.
    ///
    /// # Errors
    /// The load takes longer than two minutes.
    pub async fn until_at_rate(&self, run: &Run) -> Result<Duration> {
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs(120);
        let wanted = u64::from(self.rate()) * 8 / 10;
        loop {
            let (before, at) = (run.acknowledged(), Instant::now());
            tokio::time::sleep(Duration::from_millis(500)).await;
            let per_second = (run.acknowledged() - before) as f64 / at.elapsed().as_secs_f64();
            if per_second >= wanted as f64 {
                return Ok(at - begun);
            }
            ensure!(
                Instant::now() < deadline,
                "{per_second:.0} receipts/s instead of {wanted} after two minutes"
            );
        }
    }

    /// Waits until something more is acknowledged.
    ///
    /// # Errors
    /// No receipt is acknowledged for a minute.
    pub async fn until_acknowledged(&self, run: &Run) -> Result<()> {
        let before = run.acknowledged();
        let wait = async {
            while run.acknowledged() == before {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait)
            .await
            .context("nothing was acknowledged for a minute")
    }
}

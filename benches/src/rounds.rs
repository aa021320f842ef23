//! Two ways measured in turn: ours, the reference, ours, the reference. What disturbs the machine
//! for longer than a round disturbs both, so ratios stand where absolute numbers don't.

use std::time::{Duration, Instant};

use anyhow::Result;
use cpu_time::ThreadTime;
use serde::Serialize;

/// Numbers of each way, one a round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Samples {
    /// Ours.
    pub ours: Vec<f64>,
    /// The reference.
    pub reference: Vec<f64>,
}

impl Samples {
    /// Measures in turn, `rounds` times after one that is thrown away.
    ///
    /// # Errors
    /// Errors of the ways.
    pub fn take(
        rounds: usize,
        mut ours: impl FnMut() -> Result<f64>,
        mut reference: impl FnMut() -> Result<f64>,
    ) -> Result<Self> {
        let mut samples = Self::default();
        for round in 0..=rounds {
            let pair = (ours()?, reference()?);
            if round > 0 {
                samples.ours.push(pair.0);
                samples.reference.push(pair.1);
            }
        }
        Ok(samples)
    }

    /// The median of ours.
    #[must_use]
    pub fn ours(&self) -> Option<f64> {
        median(&self.ours)
    }

    /// The median of the reference.
    #[must_use]
    pub fn reference(&self) -> Option<f64> {
        median(&self.reference)
    }

    /// The median of the rounds' ratios, ours over the reference: each round's two numbers were
    /// measured side by side.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = self
            .ours
            .iter()
            .zip(&self.reference)
            .map(|(ours, reference)| ours / reference)
            .collect();
        median(&ratios)
    }
}

/// The median; of an even number the mean of the middle two.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Repeats `pass` for `time`; the units it did in a second of this thread's CPU time. Not wall
/// time: on a machine that does other things too the thread isn't always running.
pub fn units_per_cpu_second(time: Duration, mut pass: impl FnMut() -> u64) -> f64 {
    let began = Instant::now();
    let cpu = ThreadTime::now();
    let mut units = 0;
    while began.elapsed() < time {
        units += pass();
    }
    units as f64 / cpu.elapsed().as_secs_f64()
}

/// Repeats `pass` for `time`; the units it did in a second of wall time.
pub fn units_per_second(time: Duration, mut pass: impl FnMut() -> u64) -> f64 {
    let began = Instant::now();
    let mut units = 0;
    while began.elapsed() < time {
        units += pass();
    }
    units as f64 / began.elapsed().as_secs_f64()
}

/// Extent of the measurement.
#[derive(Debug, Clone)]
pub struct Effort {
    /// Rounds whose median counts; one more comes before them and is thrown away.
    pub rounds: usize,
    /// A round of pure computing.
    pub compute_time: Duration,
    /// Single receipts in a round over HTTP or to the log.
    pub singles: u64,
    /// Batches in a round over HTTP or to the log.
    pub batches: u64,
    /// Time for which the whole service is busy.
    pub service_time: Duration,
}

impl Effort {
    /// The effort of a run.
    #[must_use]
    pub fn new(quick: bool) -> Self {
        if quick {
            return Self {
                rounds: 3,
                compute_time: Duration::from_millis(30),
                singles: 20_000,
                batches: 100,
                service_time: Duration::from_secs(5),
            };
        }
        Self {
            rounds: 11,
            compute_time: Duration::from_millis(200),
            singles: 100_000,
            batches: 600,
            service_time: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn ratios_are_paired_and_the_first_round_is_thrown_away() {
        let (mut ours, mut reference) = ([100.0, 2.0, 40.0, 6.0].into_iter(), [1.0, 1.0, 10.0, 2.0].into_iter());
        let samples = Samples::take(
            3,
            || Ok(ours.next().unwrap_or_default()),
            || Ok(reference.next().unwrap_or_default()),
        );
        let samples = samples.unwrap_or_default();
        assert_eq!(samples.ours, [2.0, 40.0, 6.0]);
        assert_eq!(samples.ratio(), Some(3.0));
    }
}

//! Timings of the rendered chart for starting and ending a pod; `helm/timings` writes it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Of each service, by the name of its component.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Timings(BTreeMap<String, Service>);

/// Of one service.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Service {
    /// The pod continues for so long after it was signalled to end, and has left the endpoints.
    pub pre_stop_seconds: u64,
    /// From then on, preStop included, until it is killed.
    pub grace_seconds: u64,
    /// A new pod counts once it has been ready for so long.
    pub min_ready_seconds: u64,
    /// Pods beyond the replicas while it rolls; only 1 is replayed.
    pub max_surge: u64,
    /// Replicas that may be missing while it rolls; only 0 is replayed.
    pub max_unavailable: u64,
    /// Until the first of these succeeds, no other probe is sent.
    pub startup: Probe,
    /// Whether connections are led to it.
    pub readiness: Probe,
    /// Whether it is left alive.
    pub liveness: Probe,
}

/// A probe of the admin port.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probe {
    /// Path of the probe.
    pub path: String,
    /// Between two questions.
    pub period_seconds: u64,
    /// An answer that takes longer is none.
    pub timeout_seconds: u64,
    /// So many failures in a row count.
    pub failure_threshold: u32,
}

impl Timings {
    /// A service's.
    ///
    /// # Errors
    /// The chart has none, or rolls in a way that isn't replayed.
    pub fn of(&self, service: &str) -> Result<Service> {
        let found = self
            .0
            .get(service)
            .with_context(|| format!("the chart has no {service}"))?;
        ensure!(
            (found.max_surge, found.max_unavailable) == (1, 0),
            "the {service} rolls with maxSurge {} and maxUnavailable {}, and only 1 and 0 are replayed",
            found.max_surge,
            found.max_unavailable
        );
        Ok(found.clone())
    }
}

impl Service {
    pub(super) fn min_ready(&self) -> Duration {
        Duration::from_secs(self.min_ready_seconds)
    }
}

impl Probe {
    pub(super) fn period(&self) -> Duration {
        Duration::from_secs(self.period_seconds)
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}

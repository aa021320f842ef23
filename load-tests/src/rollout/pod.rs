//! A replica as the kubelet keeps it: started, probed, signalled to end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::endpoints::{Endpoint, Endpoints};
use super::timings::{Probe, Service};
use crate::fleet::replica::Replica;
use crate::http::{HttpClient, client, status_of};

/// Delay after which everybody has learnt that a pod leaves: the endpoints of a cluster of some
/// size follow within a second.
const ENDPOINTS_LATE: Duration = Duration::from_secs(1);

/// State of a pod by its probes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Not started yet.
    Starting,
    /// Connections are led to it.
    Ready,
    /// A probe failed as often as its threshold, and which.
    Failed(&'static str),
}

/// A running replica and its probes.
pub struct Pod {
    replica: Replica,
    endpoint: Option<Endpoint>,
    state: watch::Receiver<State>,
    probing: AbortOnDropHandle<()>,
}

impl Pod {
    /// Probes a replica that was started.
    #[must_use]
    pub fn watch(replica: Replica, timings: &Service, endpoints: Option<&Endpoints>) -> Self {
        let endpoint = endpoints.map(|endpoints| endpoints.endpoint(&replica.address));
        let (told, state) = watch::channel(State::Starting);
        let kubelet = Kubelet {
            http: client(1),
            admin: replica.admin.clone(),
            timings: timings.clone(),
            endpoint: endpoint.clone(),
            told: Arc::new(told),
        };
        Self {
            replica,
            endpoint,
            state,
            probing: AbortOnDropHandle::new(tokio::spawn(kubelet.probe())),
        }
    }

    /// The base address of its `/metrics`.
    #[must_use]
    pub fn admin(&self) -> &str {
        &self.replica.admin
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// The pod's probes failed; the text has the end of its log.
    pub async fn ready(&self) -> Result<()> {
        let mut state = self.state.clone();
        let decided = state.wait_for(|state| *state != State::Starting).await?.clone();
        if let State::Failed(probe) = decided {
            let (name, tail) = (self.replica.process.name(), self.replica.process.log_tail());
            bail!("{name}'s {probe} failed:\n{tail}");
        }
        Ok(())
    }

    /// Whether no probe has failed since it was ready.
    ///
    /// # Errors
    /// A pod has failed; the text has the end of its log.
    pub fn stayed_well(&self) -> Result<()> {
        let (process, state) = (&self.replica.process, self.state.borrow().clone());
        ensure!(
            state == State::Ready,
            "{} was {state:?} under load:\n{}",
            process.name(),
            process.log_tail()
        );
        Ok(())
    }

    /// Ends it: out of the endpoints, preStop, SIGTERM. How long it took from there.
    ///
    /// # Errors
    /// The pod wasn't well before, didn't end well, or not within its grace.
    pub async fn terminate(mut self, timings: &Service) -> Result<Duration> {
        self.stayed_well()?;
        // A pod that is ending isn't probed for readiness any more.
        drop(self.probing);
        let endpoint = self.endpoint.take();
        let leaving = async {
            tokio::time::sleep(ENDPOINTS_LATE).await;
            if let Some(endpoint) = endpoint {
                endpoint.remove();
            }
        };
        let process = &mut self.replica.process;
        let name = process.name().to_owned();
        let ending = async {
            tokio::time::sleep(Duration::from_secs(timings.pre_stop_seconds)).await;
            let signalled = Instant::now();
            let left = Duration::from_secs(timings.grace_seconds.saturating_sub(timings.pre_stop_seconds));
            match tokio::time::timeout(left, process.stop()).await {
                Ok(stopped) => stopped.map(|()| signalled.elapsed()),
                Err(_) => bail!("{name} didn't end within its grace: {left:?} after SIGTERM"),
            }
        };
        let ((), drained) = tokio::join!(leaving, ending);
        drained
    }
}

/// Kubelet that probes a pod.
struct Kubelet {
    http: HttpClient,
    admin: String,
    timings: Service,
    endpoint: Option<Endpoint>,
    told: Arc<watch::Sender<State>>,
}

impl Kubelet {
    async fn probe(self) {
        let mut failures = 0;
        while !self.asks(&self.timings.startup).await {
            failures += 1;
            if failures >= self.timings.startup.failure_threshold {
                self.told.send_replace(State::Failed("startup probe"));
                return;
            }
            tokio::time::sleep(self.timings.startup.period()).await;
        }
        tokio::join!(self.readiness(), self.liveness());
    }

    async fn readiness(&self) {
        let probe = &self.timings.readiness;
        let (mut failures, mut was_ready) = (0, false);
        loop {
            if self.asks(probe).await {
                failures = 0;
                was_ready = true;
                self.endpoint.iter().for_each(Endpoint::add);
                self.told.send_if_modified(|state| {
                    let first = *state == State::Starting;
                    if first {
                        *state = State::Ready;
                    }
                    first
                });
            } else {
                failures += 1;
                if failures == probe.failure_threshold && was_ready {
                    self.endpoint.iter().for_each(Endpoint::remove);
                    self.told.send_replace(State::Failed("readiness probe"));
                }
            }
            tokio::time::sleep(probe.period()).await;
        }
    }

    async fn liveness(&self) {
        let probe = &self.timings.liveness;
        let mut failures = 0;
        loop {
            failures = if self.asks(probe).await { 0 } else { failures + 1 };
            if failures >= probe.failure_threshold {
                self.told.send_replace(State::Failed("liveness probe"));
            }
            tokio::time::sleep(probe.period()).await;
        }
    }

    async fn asks(&self, probe: &Probe) -> bool {
        let address = format!("{}{}", self.admin, probe.path);
        let asked = tokio::time::timeout(probe.timeout(), status_of(&self.http, &address)).await;
        asked.is_ok_and(|status| status.is_some_and(|status| status.is_success()))
    }
}

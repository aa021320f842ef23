//! Health: liveness answers while the process answers at all; readiness is every component's word,
//! and none while draining.

mod parts;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;
use parking_lot::Mutex;
use serde::Serialize;

pub use parts::Parts;

/// The health of one process; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health {
    state: Arc<Mutex<HealthState>>,
}

#[derive(Debug, Default)]
struct HealthState {
    draining: bool,
    components: BTreeMap<String, ComponentHealth>,
}

/// Ready or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The component can do its work.
    Ready,
    /// The component has less than it should have; the reason says what is missing. As good as
    /// ready for load balancers.
    Degraded,
    /// The component can't do its work now; the reason says why.
    NotReady,
    /// The process takes no new work and finishes what it has.
    Draining,
}

/// Last state of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentHealth {
    /// Ready or not.
    pub status: Status,
    /// Why not, or what is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Everything at one instant; the body of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthSnapshot {
    /// `ready` only if every component is, or at least degraded, and the process isn't draining.
    pub status: Status,
    /// Each registered component.
    pub components: BTreeMap<String, ComponentHealth>,
}

impl Health {
    /// Without components: ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a component, not ready ("starting") until it says otherwise. Registering a name again
    /// replaces it.
    #[must_use]
    pub fn register(&self, name: impl Into<String>) -> Component {
        let component = Component {
            name: name.into(),
            health: self.clone(),
        };
        component.not_ready("starting");
        component
    }

    /// From now on readiness fails, whatever the components say, so that load balancers send no
    /// more.
    pub fn drain(&self) {
        self.state.lock().draining = true;
    }

    /// Whether [`Health::drain`] was called.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.state.lock().draining
    }

    /// Whether every component is ready and the process isn't draining.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.snapshot().status == Status::Ready
    }

    /// Everything at this instant.
    #[must_use]
    pub fn snapshot(&self) -> HealthSnapshot {
        let state = self.state.lock();
        let all_ready = state
            .components
            .values()
            .all(|component| component.status != Status::NotReady);
        let status = match (state.draining, all_ready) {
            (true, _) => Status::Draining,
            (false, true) => Status::Ready,
            (false, false) => Status::NotReady,
        };
        HealthSnapshot {
            status,
            components: state.components.clone(),
        }
    }

    /// The answer to `GET /healthz`: 200 while the process answers.
    #[must_use]
    pub fn liveness_response(&self) -> Response<Full<Bytes>> {
        json_response(StatusCode::OK, br#"{"status":"alive"}"#.to_vec())
    }

    /// The answer to `GET /readyz`: 200 if ready, else 503, with the [`HealthSnapshot`] as JSON.
    #[must_use]
    pub fn readiness_response(&self) -> Response<Full<Bytes>> {
        let snapshot = self.snapshot();
        let ready = snapshot.status == Status::Ready;
        let status = if ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        json_response(status, serde_json::to_vec(&snapshot).unwrap_or_default())
    }
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

/// The handle with which a component tells its state.
#[derive(Debug, Clone)]
pub struct Component {
    name: String,
    health: Health,
}

impl Component {
    /// Reports that the component can do its work.
    pub fn ready(&self) {
        self.set(ComponentHealth {
            status: Status::Ready,
            reason: None,
        });
    }

    /// Reports that the component has less than it should have: a sentence for the operator.
    pub fn degraded(&self, reason: impl Into<String>) {
        self.set(ComponentHealth {
            status: Status::Degraded,
            reason: Some(reason.into()),
        });
    }

    /// Reports that the component can't do its work, and why: a sentence for the operator.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(ComponentHealth {
            status: Status::NotReady,
            reason: Some(reason.into()),
        });
    }

    fn set(&self, new: ComponentHealth) {
        let mut state = self.health.state.lock();
        let old = state.components.insert(self.name.clone(), new.clone());
        drop(state);
        if old.as_ref() == Some(&new) {
            return;
        }
        let ready = if new.status == Status::NotReady { 0.0 } else { 1.0 };
        metrics::gauge!("receipts_component_ready", "component" => self.name.clone()).set(ready);
        match &new.reason {
            None => tracing::info!(component = %self.name, "ready"),
            Some(reason) if new.status == Status::Degraded => {
                tracing::warn!(component = %self.name, reason, "degraded");
            }
            Some(reason) if old.is_none() => tracing::debug!(component = %self.name, reason, "registered"),
            Some(reason) => tracing::warn!(component = %self.name, reason, "not ready"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn readiness_is_every_components_word() {
        let health = Health::new();
        assert!(health.is_ready());
        let log = health.register("log");
        let warehouse = health.register("warehouse");
        assert_eq!(health.snapshot().status, Status::NotReady);
        assert_eq!(health.snapshot().components["log"].reason.as_deref(), Some("starting"));
        log.ready();
        assert_eq!(health.readiness_response().status(), StatusCode::SERVICE_UNAVAILABLE);
        warehouse.ready();
        assert_eq!(health.readiness_response().status(), StatusCode::OK);
        log.not_ready("disk full");
        let json = serde_json::to_value(health.snapshot()).unwrap();
        let wanted = serde_json::json!({"status": "not_ready", "components": {
            "log": {"status": "not_ready", "reason": "disk full"}, "warehouse": {"status": "ready"}}});
        assert_eq!(json, wanted);
    }

    #[test]
    fn a_degraded_component_is_shown_and_does_not_fail_readiness() {
        let health = Health::new();
        let redis = health.register("redis");
        redis.degraded("it doesn't answer");
        assert_eq!(health.readiness_response().status(), StatusCode::OK);
        let json = serde_json::to_value(health.snapshot()).unwrap();
        let wanted = serde_json::json!({"status": "ready", "components": {
            "redis": {"status": "degraded", "reason": "it doesn't answer"}}});
        assert_eq!(json, wanted);
        health.register("log").not_ready("disk full");
        assert_eq!(health.snapshot().status, Status::NotReady);
    }

    #[test]
    fn draining_fails_readiness_and_keeps_liveness() {
        let health = Health::new();
        health.register("log").ready();
        health.drain();
        assert!(health.is_draining());
        assert_eq!(health.snapshot().status, Status::Draining);
        assert_eq!(health.readiness_response().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(health.liveness_response().status(), StatusCode::OK);
    }
}

//! A component whose parts fail and recover independently.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Component;

/// A component of `/readyz` that is ready only while none of its parts fails. Clones share it.
#[derive(Debug, Clone)]
pub struct Parts {
    component: Component,
    failing: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl Parts {
    /// Ready until a part fails.
    #[must_use]
    pub fn new(component: Component) -> Self {
        component.ready();
        Self {
            component,
            failing: Arc::default(),
        }
    }

    /// Reports that a part fails, and why.
    pub fn failed(&self, part: &'static str, reason: String) {
        let mut failing = self.failing.lock();
        failing.insert(part, reason);
        self.publish(&failing);
    }

    /// Reports that a part works.
    pub fn recovered(&self, part: &'static str) {
        let mut failing = self.failing.lock();
        if failing.remove(part).is_some() {
            self.publish(&failing);
        }
    }

    fn publish(&self, failing: &BTreeMap<&'static str, String>) {
        if failing.is_empty() {
            self.component.ready();
        } else {
            let reasons: Vec<&str> = failing.values().map(String::as_str).collect();
            self.component.not_ready(reasons.join("; "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Parts;
    use crate::health::Health;

    #[test]
    fn a_component_is_ready_only_while_no_part_fails() {
        let health = Health::new();
        let parts = Parts::new(health.register("verifier"));
        assert!(health.is_ready());
        parts.failed("log", "the log is away".to_owned());
        parts.failed("receipts", "the warehouse is away".to_owned());
        parts.recovered("log");
        assert!(!health.is_ready(), "one still fails");
        parts.recovered("receipts");
        parts.recovered("receipts");
        assert!(health.is_ready());
    }
}

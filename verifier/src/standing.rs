//! What keeps this verifier from getting on, part by part: it is ready only when nothing does.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use service::health::Component;

/// This verifier's word in `/readyz`. Its parts fail and recover side by side; clones share it.
#[derive(Debug, Clone)]
pub struct Standing {
    component: Component,
    failing: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl Standing {
    /// Ready until a part says otherwise.
    #[must_use]
    pub fn new(component: Component) -> Self {
        component.ready();
        Self {
            component,
            failing: Arc::default(),
        }
    }

    /// This part can't get on.
    pub fn failing(&self, part: &'static str, reason: String) {
        let mut failing = self.failing.lock();
        failing.insert(part, reason);
        self.tell(&failing);
    }

    /// This part gets on.
    pub fn well(&self, part: &'static str) {
        let mut failing = self.failing.lock();
        if failing.remove(part).is_some() {
            self.tell(&failing);
        }
    }

    fn tell(&self, failing: &BTreeMap<&'static str, String>) {
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
    use super::Standing;
    use service::health::Health;

    #[test]
    fn it_is_ready_only_when_no_part_fails() {
        let health = Health::new();
        let standing = Standing::new(health.register("verifier"));
        assert!(health.is_ready());
        standing.failing("log", "the log is away".to_owned());
        standing.failing("receipts", "the warehouse is away".to_owned());
        standing.well("log");
        assert!(!health.is_ready(), "one still fails");
        standing.well("receipts");
        standing.well("receipts");
        assert!(health.is_ready());
    }
}

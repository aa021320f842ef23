//! Queries to the account store, by name, in order.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;

/// A recorder that keeps nothing but the names of questions.
#[derive(Clone, Default)]
pub(super) struct Questions(Arc<Mutex<Vec<String>>>);

struct Question {
    name: String,
    asked: Questions,
}

impl Questions {
    /// Queries since the last time. The caller is read only where it isn't cached,
    /// before anything is known of what is requested; the others are the process's own.
    pub(super) fn take(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.0.lock());
        asked.retain(|name| !["authenticate", "ping", "claim_job"].contains(&name.as_str()));
        asked
    }
}

impl HistogramFn for Question {
    fn record(&self, _seconds: f64) {
        self.asked.0.lock().push(self.name.clone());
    }
}

impl Recorder for Questions {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        if key.name() != "receipts_accounts_query_seconds" {
            return Histogram::noop();
        }
        let name = key.labels().find(|label| label.key() == "query").unwrap().value();
        Histogram::from_arc(Arc::new(Question {
            name: name.to_owned(),
            asked: self.clone(),
        }))
    }
}

//! Tasks of this API that run from time to time: the time of their last success, for whoever
//! watches that it does.

/// `task` is about to be done for the first time. Until it has come to its end that is as long ago
/// as can be.
pub(crate) fn begin(task: &'static str) {
    gauge(task).set(0.0);
}

/// `task` came to its end now.
pub(crate) fn done(task: &'static str) {
    gauge(task).set(jiff::Timestamp::now().as_duration().as_secs_f64());
}

fn gauge(task: &'static str) -> metrics::Gauge {
    metrics::gauge!("receipts_publisher_task_good_timestamp_seconds", "task" => task)
}

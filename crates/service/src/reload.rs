//! SIGHUP: what a running process reads again. Connections and requests in progress are unaffected.

use parking_lot::Mutex;

/// A part of the process that can be read again.
struct Part {
    name: &'static str,
    read: Box<dyn Fn() -> Result<(), String> + Send>,
}

/// The process's parts: a signal is the process's, too.
static PARTS: Mutex<Vec<Part>> = Mutex::new(Vec::new());

/// Has SIGHUP call `read`, which replaces what the process has only if everything could be read.
/// `name` is for the log.
pub fn register(name: &'static str, read: impl Fn() -> Result<(), String> + Send + 'static) {
    let read = Box::new(read);
    PARTS.lock().push(Part { name, read });
}

/// Reads everything again on a thread of its own: files may block, and another signal mustn't wait.
pub(crate) fn start() {
    let started = std::thread::Builder::new().name("reload".to_owned()).spawn(run);
    if let Err(error) = started {
        tracing::error!(%error, "SIGHUP: nothing is read again, as no thread can be started");
    }
}

/// Reads everything again. A part that can't be read stays as it is, and the log
/// has the reason.
fn run() {
    let parts = PARTS.lock();
    for Part { name, read } in parts.iter() {
        match read() {
            Ok(()) => tracing::info!(part = name, "SIGHUP: read again"),
            Err(error) => tracing::error!(
                part = name,
                error,
                "SIGHUP: can't be read again, so what was read before remains in use; correct the file and send SIGHUP \
                 again"
            ),
        }
    }
    if parts.is_empty() {
        tracing::info!("SIGHUP: this process has nothing to read again");
    }
}

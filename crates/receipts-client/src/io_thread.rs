//! The thread that writes files and signs batches, so that no tokio worker waits for a disk.

use std::io;
use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Thread for blocking work. It ends when this is dropped. The number of jobs is bounded by
/// that of the tasks that wait for one.
#[derive(Debug)]
pub(crate) struct IoThread {
    jobs: Sender<Job>,
}

impl IoThread {
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        std::thread::Builder::new()
            .name("receipts-client".to_owned())
            .spawn(move || queue.into_iter().for_each(|job| job()))?;
        Ok(Self { jobs })
    }

    /// Runs `job` on the thread.
    ///
    /// # Errors
    /// The thread ended, because a job panicked.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (answer, wait) = oneshot::channel();
        let ended = || io::Error::other("the client's thread ended");
        let job = Box::new(move || drop(answer.send(job())));
        self.jobs.send(job).map_err(|_| ended())?;
        wait.await.map_err(|_| ended())
    }
}

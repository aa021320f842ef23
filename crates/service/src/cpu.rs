//! The one bridge from tokio to threads for computing: named, bounded and metered. Work above a few
//! microseconds goes through it, so that a tokio worker is never blocked from its sockets.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;
use metrics::{counter, gauge, histogram};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// A pool of threads for computing. Clones share it.
#[derive(Clone)]
pub struct CpuPool {
    name: &'static str,
    threads: Threads,
    permits: Arc<Semaphore>,
}

type CpuJob = Box<dyn FnOnce() + Send>;

/// Threads that run jobs.
#[derive(Clone)]
enum Threads {
    /// So many of them, which sleep while there is no job. A thread of rayon calls `sched_yield` 32
    /// times before it sleeps, which costs as much as the check of a receipt.
    Plain { jobs: Sender<CpuJob>, count: usize },
    /// Threads of rayon, for jobs with parallel iterators.
    Rayon(Arc<ThreadPool>),
}

/// Why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// As many jobs are running and waiting as allowed; nothing was run.
    #[error("all permits of the CPU queue are taken")]
    Busy,
    /// The job panicked, with this message. The pool continues.
    #[error("a CPU job panicked: {0}")]
    Panicked(String),
}

/// The threads couldn't be started.
#[derive(Debug, thiserror::Error)]
#[error("can't start the threads of CPU pool {name}: {source}")]
pub struct CpuPoolError {
    /// Name of the pool.
    pub name: &'static str,
    /// Why.
    #[source]
    pub source: io::Error,
}

impl CpuPool {
    /// Starts `threads` threads (0: one for each core) that run one job each and let `queue_max`
    /// further ones wait. `name` labels the metrics and the threads. Parallel iterators in a job
    /// run on rayon's global pool.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn new(name: &'static str, threads: usize, queue_max: usize) -> Result<Self, CpuPoolError> {
        let count = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            _ => threads,
        };
        // The pool's permits bound it.
        let (jobs, queue) = crossbeam_channel::unbounded::<CpuJob>();
        for number in 0..count {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name(format!("cpu-{name}-{number}"));
            let run = move || queue.iter().for_each(|job| job());
            thread.spawn(run).map_err(|source| CpuPoolError { name, source })?;
        }
        Ok(Self::of(name, Threads::Plain { jobs, count }, queue_max))
    }

    /// As [`CpuPool::new`], with threads of rayon: its parallel iterators inside a job use the same
    /// pool.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn parallel(name: &'static str, threads: usize, queue_max: usize) -> Result<Self, CpuPoolError> {
        let built = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(move |n| format!("cpu-{name}-{n}"))
            .build();
        let failed = |error| CpuPoolError {
            name,
            source: io::Error::other(error),
        };
        let threads = Threads::Rayon(Arc::new(built.map_err(failed)?));
        Ok(Self::of(name, threads, queue_max))
    }

    fn of(name: &'static str, threads: Threads, queue_max: usize) -> Self {
        let permits = (threads.count() + queue_max).min(Semaphore::MAX_PERMITS);
        // A counter that begins with its first event has no rate of it.
        counter!("receipts_cpu_panics_total", "pool" => name).increment(0);
        counter!("receipts_cpu_refused_total", "pool" => name).increment(0);
        Self {
            name,
            threads,
            permits: Arc::new(Semaphore::new(permits)),
        }
    }

    /// Number of its threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Runs `job` on a thread of the pool. A job whose caller has gone before it began is skipped.
    ///
    /// # Errors
    /// [`CpuError::Busy`] at once when the queue is full, [`CpuError::Panicked`] when `job` panics.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, CpuError> {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            counter!("receipts_cpu_refused_total", "pool" => self.name).increment(1);
            return Err(CpuError::Busy);
        };
        self.spawn(permit, job).await
    }

    /// As [`CpuPool::run`], but waits for a permit in the queue instead of refusing: for pipelines,
    /// whose own bounds are what limits how many wait here.
    ///
    /// # Errors
    /// [`CpuError::Panicked`] when `job` panics.
    pub async fn run_waiting<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CpuError> {
        // Never closed, so never an error; Busy is the honest answer if it were.
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| CpuError::Busy)?;
        self.spawn(permit, job).await
    }

    /// Runs `job` on the calling thread and catches its panic: for one of several jobs on a thread
    /// of the pool, or one that costs less than the way there.
    ///
    /// # Errors
    /// [`CpuError::Panicked`] when `job` panics.
    pub fn catch<T>(&self, job: impl FnOnce() -> T) -> Result<T, CpuError> {
        caught(self.name, job)
    }

    async fn spawn<T: Send + 'static>(
        &self,
        permit: OwnedSemaphorePermit,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CpuError> {
        let (answer, wait) = oneshot::channel();
        let name = self.name;
        let asked = Instant::now();
        gauge!("receipts_cpu_jobs", "pool" => name).increment(1.0);
        self.threads.spawn(Box::new(move || {
            let begun = Instant::now();
            histogram!("receipts_cpu_queue_wait_seconds", "pool" => name).record(begun - asked);
            let wanted = !answer.is_closed();
            let result = wanted.then(|| {
                let result = caught(name, job);
                histogram!("receipts_cpu_run_seconds", "pool" => name).record(begun.elapsed());
                result
            });
            gauge!("receipts_cpu_jobs", "pool" => name).decrement(1.0);
            // Before the answer: whoever waits for it may come again at once and must find the
            // permit free.
            drop(permit);
            if let Some(result) = result {
                let _ = answer.send(result);
            }
        }));
        wait.await
            .unwrap_or_else(|_| Err(CpuError::Panicked("the job was dropped".to_owned())))
    }
}

impl Threads {
    fn count(&self) -> usize {
        match self {
            Self::Plain { count, .. } => *count,
            Self::Rayon(pool) => pool.current_num_threads(),
        }
    }

    fn spawn(&self, job: CpuJob) {
        match self {
            // The threads have the other end for as long as this one lives.
            Self::Plain { jobs, .. } => drop(jobs.send(job)),
            Self::Rayon(pool) => pool.spawn(job),
        }
    }
}

fn caught<T>(pool: &'static str, job: impl FnOnce() -> T) -> Result<T, CpuError> {
    catch_unwind(AssertUnwindSafe(job)).map_err(|cause| {
        counter!("receipts_cpu_panics_total", "pool" => pool).increment(1);
        CpuError::Panicked(panic_message(cause.as_ref()))
    })
}

fn panic_message(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| cause.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

impl std::fmt::Debug for CpuPool {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("CpuPool")
            .field("name", &self.name)
            .field("threads", &self.threads())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::sync::mpsc;

    use rayon::prelude::*;

    use super::*;

    #[tokio::test]
    async fn a_job_runs_on_the_named_pool_and_parallel_iterators_stay_in_it() {
        let pool = CpuPool::parallel("test", 2, 4).unwrap();
        let names = pool
            .run(|| {
                (0..64)
                    .into_par_iter()
                    .map(|_| std::thread::current().name().unwrap().to_owned())
                    .collect::<Vec<_>>()
            })
            .await
            .unwrap();
        assert!(names.iter().all(|name| name.starts_with("cpu-test-")), "{names:?}");
    }

    #[tokio::test]
    async fn a_panic_is_returned_and_the_pool_goes_on() {
        for pool in [CpuPool::new("test", 1, 0), CpuPool::parallel("test", 1, 0)] {
            let pool = pool.unwrap();
            let none: Vec<u8> = Vec::new();
            let result = pool.run(move || assert!(!none.is_empty(), "nothing in {}", "it")).await;
            assert_eq!(result, Err(CpuError::Panicked("nothing in it".to_owned())));
            assert_eq!(pool.run(|| 5).await, Ok(5));
        }
    }

    #[tokio::test]
    async fn jobs_run_side_by_side_on_named_threads() {
        let pool = CpuPool::new("plain", 2, 0).unwrap();
        assert_eq!(pool.threads(), 2);
        let met = Arc::new(std::sync::Barrier::new(2));
        let jobs = [0, 1].map(|_| {
            let (pool, met) = (pool.clone(), Arc::clone(&met));
            tokio::spawn(async move {
                pool.run(move || {
                    met.wait();
                    std::thread::current().name().unwrap().to_owned()
                })
                .await
            })
        });
        let mut names = Vec::new();
        for job in jobs {
            names.push(job.await.unwrap().unwrap());
        }
        names.sort();
        assert_eq!(names, ["cpu-plain-0", "cpu-plain-1"]);
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_frees_its_permits() {
        let pool = CpuPool::new("test", 1, 1).unwrap();
        let (release, gate) = mpsc::channel::<()>();
        let blocked = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(move || gate.recv().unwrap()).await }
        });
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(|| 1).await }
        });
        while pool.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|| 2).await, Err(CpuError::Busy));
        let patient = pool.run_waiting(|| 3);
        release.send(()).unwrap();
        assert_eq!(patient.await, Ok(3));
        assert_eq!(blocked.await.unwrap(), Ok(()));
        assert_eq!(waiting.await.unwrap(), Ok(1));
    }
}

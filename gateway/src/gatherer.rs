//! Gathering: what waits for the CPU pool goes there together, because the way there and back costs
//! as much as the check of a receipt.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use service::cpu::{CpuError, CpuPool};
use tokio::sync::oneshot;
use tokio::task::yield_now;

type GatherItem<T, R> = (T, oneshot::Sender<R>);

/// Items that wait for the CPU. A group of them is one job of the pool; as few as cost less than
/// the way there are worked on in place.
pub(crate) struct Gatherer<T, R> {
    cpu: CpuPool,
    /// Returns a result for each item, in their order.
    work: Box<dyn Fn(Vec<T>) -> Vec<R> + Send + Sync>,
    in_place_max: usize,
    group_max: usize,
    queue: Mutex<GatherQueue<T, R>>,
}

struct GatherQueue<T, R> {
    waiting: VecDeque<GatherItem<T, R>>,
    /// Tasks that gather a group or wait for its results; at most one for each thread of the pool.
    tasks: usize,
    /// Whether one of them will take what waits.
    gathering: bool,
}

impl<T, R> GatherQueue<T, R> {
    /// Whether another group is to be gathered.
    fn begin(&mut self, tasks_max: usize) -> bool {
        let begins = !self.waiting.is_empty() && !self.gathering && self.tasks < tasks_max;
        if begins {
            self.gathering = true;
            self.tasks += 1;
        }
        begins
    }
}

impl<T: Send + 'static, R: Send + 'static> Gatherer<T, R> {
    /// Groups have at most `group_max` items, and those of at most `in_place_max` don't go to the
    /// pool.
    pub(crate) fn new(
        cpu: CpuPool,
        in_place_max: usize,
        group_max: usize,
        work: impl Fn(Vec<T>) -> Vec<R> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            cpu,
            work: Box::new(work),
            in_place_max,
            group_max,
            queue: Mutex::new(GatherQueue {
                waiting: VecDeque::new(),
                tasks: 0,
                gathering: false,
            }),
        })
    }

    /// Returns the item's result. As many items wait as there are callers. An item whose caller has
    /// gone before the work on its group began is skipped.
    ///
    /// # Errors
    /// [`CpuError::Panicked`] when the work on the group panics.
    pub(crate) async fn run(self: &Arc<Self>, item: T) -> Result<R, CpuError> {
        let (answer, result) = oneshot::channel();
        let begins = {
            let mut queue = self.queue.lock();
            queue.waiting.push_back((item, answer));
            queue.begin(self.cpu.threads())
        };
        if begins {
            self.spawn_gathering();
        }
        result
            .await
            .map_err(|_| CpuError::Panicked("the work on the item's group".to_owned()))
    }

    fn spawn_gathering(self: &Arc<Self>) {
        tokio::spawn(Arc::clone(self).gather());
    }

    /// Gathers groups until nothing waits.
    async fn gather(self: Arc<Self>) {
        loop {
            // Behind the tasks that are ready, because they may bring more.
            yield_now().await;
            let (group, begins) = self.take();
            if begins {
                self.spawn_gathering();
            }
            let worker = Arc::clone(&self);
            let is_small = group.len() <= self.in_place_max;
            let work = move || worker.work(group);
            // A panic has dropped the senders, so that the callers see it.
            let _ = if is_small {
                self.cpu.catch(work)
            } else {
                self.cpu.run_waiting(work).await
            };
            let mut queue = self.queue.lock();
            queue.tasks -= 1;
            if !queue.begin(self.cpu.threads()) {
                return;
            }
        }
    }

    /// The next group, and whether what is left waits for another task.
    fn take(&self) -> (Vec<GatherItem<T, R>>, bool) {
        let mut queue = self.queue.lock();
        let count = queue.waiting.len().min(self.group_max);
        let group = queue.waiting.drain(..count).collect();
        queue.gathering = false;
        (group, queue.begin(self.cpu.threads()))
    }

    fn work(&self, mut group: Vec<GatherItem<T, R>>) {
        group.retain(|(_, answer)| !answer.is_closed());
        let (items, answers): (Vec<T>, Vec<_>) = group.into_iter().unzip();
        // All at the end: the first answer alone would wake a thread that the next ones wake again.
        for (answer, result) in answers.into_iter().zip((self.work)(items)) {
            let _ = answer.send(result);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::thread::{ThreadId, current};
    use std::time::Duration;

    use futures_util::future::join_all;
    use futures_util::poll;

    use super::*;

    fn pool(threads: usize) -> CpuPool {
        CpuPool::new("test", threads, 16).unwrap()
    }

    /// Returns the size of each item's group, and the thread that worked on it.
    fn sizes(threads: usize, group_max: usize) -> Arc<Gatherer<(), (usize, ThreadId)>> {
        Gatherer::new(pool(threads), 1, group_max, |items: Vec<()>| {
            let result = (items.len(), current().id());
            items.into_iter().map(|()| result).collect()
        })
    }

    #[tokio::test]
    async fn what_waits_is_one_job_and_one_alone_none() {
        let gatherer = sizes(1, 4);
        let (size, thread) = gatherer.run(()).await.unwrap();
        assert_eq!((size, thread), (1, current().id()));
        let groups = join_all((0..10).map(|_| gatherer.run(()))).await;
        let groups: Vec<_> = groups.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            groups.iter().map(|(size, _)| size).sum::<usize>(),
            4 * 4 + 4 * 4 + 2 * 2
        );
        assert!(groups.iter().all(|(_, thread)| *thread != current().id()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_is_lost_or_mixed_up() {
        let gatherer = Gatherer::new(pool(2), 1, 3, |items: Vec<u32>| items);
        let callers = (0..1_000).map(|number| {
            let gatherer = Arc::clone(&gatherer);
            tokio::spawn(async move { (number, gatherer.run(number).await) })
        });
        for result in join_all(callers).await {
            let (number, result) = result.unwrap();
            assert_eq!(result, Ok(number));
        }
        // The last task may have answered and not ended yet.
        while gatherer.queue.lock().tasks > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_panic_is_its_groups_alone() {
        let gatherer = Gatherer::new(pool(1), 1, 2, |items: Vec<u32>| {
            assert!(!items.contains(&2), "two");
            items
        });
        let results = join_all((0..6).map(|number| gatherer.run(number))).await;
        let failed = Err(CpuError::Panicked("the work on the item's group".to_owned()));
        assert_eq!(results, [Ok(0), Ok(1), failed.clone(), failed.clone(), Ok(4), Ok(5)]);
        assert_eq!([gatherer.run(2).await, gatherer.run(7).await], [failed, Ok(7)]);
    }

    #[tokio::test]
    async fn callers_that_have_gone_are_skipped() {
        let gatherer = sizes(1, 8);
        let mut gone: Vec<_> = (0..3).map(|_| Box::pin(gatherer.run(()))).collect();
        for caller in &mut gone {
            assert!(poll!(caller).is_pending());
        }
        let waiting = gatherer.run(());
        tokio::pin!(waiting);
        assert!(poll!(&mut waiting).is_pending());
        // The one that began the group, too.
        drop(gone);
        assert_eq!(waiting.await.unwrap().0, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn as_many_groups_are_at_work_as_the_pool_has_threads() {
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let gatherer = Gatherer::new(pool(2), 1, 2, move |items: Vec<u32>| {
            if items.contains(&0) {
                gate.lock().recv().unwrap();
            }
            items
        });
        let mut blocked = Box::pin(join_all([0, 1].map(|number| gatherer.run(number))));
        assert!(poll!(&mut blocked).is_pending());
        while gatherer.queue.lock().gathering {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(
            join_all([2, 3, 4].map(|number| gatherer.run(number))).await,
            [Ok(2), Ok(3), Ok(4)]
        );
        release.send(()).unwrap();
        assert_eq!(blocked.await, [Ok(0), Ok(1)]);
    }
}

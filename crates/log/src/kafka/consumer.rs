//! The caller's side of a group's member: sends requests to the thread that owns it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::oneshot;

use super::member::GroupMember;
use crate::{
    record::Record,
    traits::{Commit, CommitError, ConsumeError, LogConsumer, PollLimits, Polled},
};

/// Questions that may wait: a caller has one at a time, and a poll that was given up.
const WAITING_MAX: usize = 4;

enum ConsumerRequest {
    Poll(PollLimits, oneshot::Sender<Result<Polled, ConsumeError>>),
    Seek(u32, u64, oneshot::Sender<Result<(), ConsumeError>>),
    Commit(Vec<Commit>, oneshot::Sender<Result<(), CommitError>>),
    Transact(
        Vec<(u32, Record)>,
        Vec<Commit>,
        oneshot::Sender<Result<(), CommitError>>,
    ),
}

/// A member of a consumer group on Kafka. Dropping it leaves the group, in the background: its
/// partitions are others' at once. [`super::KafkaLog::close`] waits for that.
pub struct KafkaConsumer {
    questions: Sender<ConsumerRequest>,
    polling: Polling,
    hurry: Arc<AtomicBool>,
}

/// The log's hold on a member, to close it.
pub(super) struct Membership {
    stop: Sender<()>,
    has_left: Receiver<()>,
    hurry: Arc<AtomicBool>,
}

impl Membership {
    pub(super) fn is_over(&self) -> bool {
        matches!(
            self.has_left.try_recv(),
            Err(crossbeam_channel::TryRecvError::Disconnected)
        )
    }

    /// Leaves the group, also if the consumer is still there; waits at most so long.
    pub(super) fn end(self, wait_max: Duration) {
        self.hurry.store(true, Ordering::Relaxed);
        drop(self.stop);
        if let Err(crossbeam_channel::RecvTimeoutError::Timeout) = self.has_left.recv_timeout(wait_max) {
            tracing::warn!("the group could not be left in time; its other members wait for the session to end");
        }
    }
}

/// A poll that was dropped before its answer came: the next one gets it, so that no record is
/// passed over.
enum Polling {
    Nothing,
    Asked(oneshot::Receiver<Result<Polled, ConsumeError>>),
    Answered(Result<Polled, ConsumeError>),
}

impl std::fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaConsumer").finish_non_exhaustive()
    }
}

impl KafkaConsumer {
    /// Puts `member` on a thread of its own.
    pub(super) fn start(member: GroupMember, hurry: Arc<AtomicBool>) -> std::io::Result<(Self, Membership)> {
        let (questions, asked) = bounded(WAITING_MAX);
        let (stop, stopped) = bounded(0);
        let (left, has_left) = bounded(0);
        let serving = move || {
            serve(member, &asked, &stopped);
            drop::<Sender<()>>(left);
            // Whatever the caller still asks is dropped, which answers it. A receiver that went
            // away with a question in the channel would leave its caller waiting for ever.
            asked.iter().for_each(drop);
        };
        thread::Builder::new()
            .name("log-kafka-member".to_owned())
            .spawn(serving)?;
        let membership = Membership {
            stop,
            has_left,
            hurry: Arc::clone(&hurry),
        };
        let consumer = Self {
            questions,
            polling: Polling::Nothing,
            hurry,
        };
        Ok((consumer, membership))
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> ConsumerRequest) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.hurry.store(true, Ordering::Relaxed);
        self.questions.try_send(question(answer)).ok()?;
        answered.await.ok()
    }

    pub(super) async fn transact(
        &mut self,
        records: Vec<(u32, Record)>,
        commits: Vec<Commit>,
    ) -> Result<(), CommitError> {
        let answer = self
            .ask(|answer| ConsumerRequest::Transact(records, commits, answer))
            .await;
        answer.ok_or_else(|| CommitError::Unavailable(DIED.to_owned()))?
    }

    async fn next(&mut self, limits: PollLimits) -> Result<Polled, ConsumeError> {
        if matches!(self.polling, Polling::Nothing) {
            let (answer, answered) = oneshot::channel();
            self.hurry.store(false, Ordering::Relaxed);
            self.questions
                .try_send(ConsumerRequest::Poll(limits, answer))
                .map_err(|_| died())?;
            self.polling = Polling::Asked(answered);
        }
        self.answered().await;
        match std::mem::replace(&mut self.polling, Polling::Nothing) {
            Polling::Answered(answer) => answer,
            Polling::Nothing | Polling::Asked(_) => Err(died()),
        }
    }

    /// Waits for the answer of a poll in progress.
    async fn answered(&mut self) {
        if let Polling::Asked(answered) = &mut self.polling {
            let answer = answered.await;
            self.polling = Polling::Answered(answer.unwrap_or_else(|_| Err(died())));
        }
    }
}

const DIED: &str = "the thread that reads from Kafka stopped";

fn died() -> ConsumeError {
    ConsumeError::Unavailable(DIED.to_owned())
}

fn serve(mut member: GroupMember, asked: &Receiver<ConsumerRequest>, stopped: &Receiver<()>) {
    loop {
        let question = select! {
            recv(asked) -> question => question,
            recv(stopped) -> _ => break,
        };
        // An answer to a poll that was dropped waits in its channel; any other that nobody waits
        // for is nobody's loss.
        match question {
            Ok(ConsumerRequest::Poll(limits, answer)) => drop(answer.send(member.poll(limits))),
            Ok(ConsumerRequest::Seek(partition, offset, answer)) => drop(answer.send(member.seek(partition, offset))),
            Ok(ConsumerRequest::Commit(commits, answer)) => drop(answer.send(member.commit(commits))),
            Ok(ConsumerRequest::Transact(records, commits, answer)) => {
                drop(answer.send(member.append_and_commit(&records, &commits)));
            }
            Err(_) => break,
        }
    }
    // Leaves the group.
    drop(member);
}

impl LogConsumer for KafkaConsumer {
    /// After a poll that was dropped before it ended, this one answers what that one asked.
    fn poll(&mut self, limits: PollLimits) -> BoxFuture<'_, Result<Polled, ConsumeError>> {
        self.next(limits).boxed()
    }

    fn seek(&mut self, partition: u32, offset: u64) -> BoxFuture<'_, Result<(), ConsumeError>> {
        async move {
            let answer = self
                .ask(|answer| ConsumerRequest::Seek(partition, offset, answer))
                .await;
            self.answered().await;
            if let Polling::Answered(Ok(polled)) = &mut self.polling {
                polled.records.retain(|logged| logged.position.partition != partition);
            }
            answer.ok_or_else(died)?
        }
        .boxed()
    }

    fn commit(&mut self, commits: Vec<Commit>) -> BoxFuture<'_, Result<(), CommitError>> {
        async move {
            let answer = self.ask(|answer| ConsumerRequest::Commit(commits, answer)).await;
            answer.ok_or_else(|| CommitError::Unavailable(DIED.to_owned()))?
        }
        .boxed()
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        self.hurry.store(true, Ordering::Relaxed);
    }
}

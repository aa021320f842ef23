//! The stages between polling and appending, one block at a time: judged, stamped, encoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use accounts::{ShardMap, ShardMapCache};
use blocks::BlockError;
use metrics::histogram;
use parking_lot::Mutex;
use receipt::Judge;
use service::cpu::CpuPool;
use service::retry::{Retry, Stopped};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::assignment::Settled;
use crate::config::VerifierConfig;
use crate::encoding::{self, EncodedBlock, EncodedPartition, EncodingSettings};
use crate::error::VerifierError;
use crate::gathering::PolledBlock;
use crate::judging::{self, JudgedBlock};
use crate::rejection_cap::RejectionCap;
use crate::stamping::{Policies, StampedBlock, stamp};

/// Dependencies of the stages. Clones share the number of source partitions and the stored
/// rejections.
#[derive(Clone)]
pub struct Stages {
    policies: Option<Policies>,
    shard_map: Option<ShardMapCache>,
    cpu: CpuPool,
    judge: Arc<Judge>,
    encoding: Arc<EncodingSettings>,
    source_partitions: Arc<AtomicU32>,
    cap: Arc<Mutex<RejectionCap>>,
    retry: Retry,
}

impl Stages {
    /// Stages of one process, whose name is made here.
    #[must_use]
    pub fn new(
        config: &VerifierConfig,
        policies: Option<Policies>,
        shard_map: Option<ShardMapCache>,
        cpu: CpuPool,
        judge: Arc<Judge>,
        retry: Retry,
    ) -> Self {
        let verifier = format!("{}-{:08x}", std::process::id(), rand::random::<u32>());
        Self {
            policies,
            shard_map,
            cpu,
            judge,
            encoding: Arc::new(EncodingSettings {
                verifier,
                record_bytes_max: config.record_bytes_max,
            }),
            source_partitions: Arc::default(),
            cap: Arc::new(Mutex::new(RejectionCap::new(
                config.rejected_stored_per_day_max,
                config.rejected_bytes_per_day_max,
            ))),
            retry,
        }
    }

    /// Sets the number of partitions of `receipts` that headers state. 0 means that it isn't known
    /// yet.
    pub fn set_source_partitions(&self, partitions: u32) {
        self.source_partitions.store(partitions, Ordering::Relaxed);
    }

    /// Takes polled blocks to encoded ones until either side ends.
    pub async fn run(
        self,
        mut polled: mpsc::Receiver<PolledBlock>,
        encoded: mpsc::Sender<EncodedBlock>,
    ) -> Result<(), VerifierError> {
        while let Some(block) = polled.recv().await {
            let judged = self.judged(block).await?;
            let Ok(stamped) = self.stamped(judged).await else {
                return Ok(());
            };
            let Ok(shard_map) = self.shard_map_at_least(0).await else {
                return Ok(());
            };
            let block = self.encoded(stamped, shard_map).await?;
            if encoded.send(block).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn judged(&self, block: PolledBlock) -> Result<JudgedBlock, VerifierError> {
        let judge = Arc::clone(&self.judge);
        let judged = self.on_cpu("judge", move || judging::judge(&judge, block));
        judged.await?.map_err(|error| VerifierError::Judging(error.to_string()))
    }

    async fn stamped(&self, mut block: JudgedBlock) -> Result<StampedBlock, Stopped> {
        let mut pauses = self.retry.pauses();
        loop {
            match stamp(self.policies.as_ref(), block).await {
                Ok(stamped) => {
                    self.retry.parts.recovered("policy");
                    return Ok(stamped);
                }
                Err((unchanged, unavailable)) => {
                    block = unchanged;
                    self.retry.pause("policy", &unavailable, &mut pauses).await?;
                }
            }
        }
    }

    /// The shard map, once it is confirmed and has the entry `version`. Without an account store
    /// there is one shard.
    pub async fn shard_map_at_least(&self, version: u32) -> Result<Arc<ShardMap>, Stopped> {
        let Some(cache) = &self.shard_map else {
            return Ok(Arc::default());
        };
        self.retry.until_done("shard map", || cache.at_least(version)).await
    }

    /// The shard map as it was last read; none before.
    #[must_use]
    pub fn last_shard_map(&self) -> Option<Arc<ShardMap>> {
        match &self.shard_map {
            Some(cache) => cache.last(),
            None => Some(Arc::default()),
        }
    }

    async fn encoded(&self, block: StampedBlock, shard_map: Arc<ShardMap>) -> Result<EncodedBlock, VerifierError> {
        let (encoding, partitions) = (
            Arc::clone(&self.encoding),
            self.source_partitions.load(Ordering::Relaxed),
        );
        let cap = Arc::clone(&self.cap);
        let encoded = self.on_cpu("encode", move || {
            encoding::encode(&encoding, &shard_map, block, partitions, &mut cap.lock())
        });
        encoded
            .await?
            .map_err(|error| VerifierError::Judging(error.to_string()))
    }

    /// Idle records of a partition, see [`encoding::idle`].
    pub fn idle(
        &self,
        shard_map: &ShardMap,
        settled: &Settled,
        complete_through_ms: i64,
    ) -> Result<EncodedPartition, BlockError> {
        let partitions = self.source_partitions.load(Ordering::Relaxed);
        encoding::idle(&self.encoding, shard_map, settled, partitions, complete_through_ms)
    }

    /// Runs a stage on the CPU pool. A panic ends the verifier: the same records would cause it
    /// again.
    async fn on_cpu<T: Send + 'static>(
        &self,
        stage: &'static str,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, VerifierError> {
        let started = Instant::now();
        let done = self.cpu.run_waiting(job).await;
        histogram!("receipts_verifier_stage_seconds", "stage" => stage).record(started.elapsed().as_secs_f64());
        done.map_err(|panicked| VerifierError::Judging(panicked.to_string()))
    }
}

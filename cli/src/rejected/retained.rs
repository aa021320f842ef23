//! The record that a rejected receipt arrived in, as far as the log still has it.

use std::collections::HashMap;
use std::sync::Arc;

use receipt::Judge;
use receipt_log::{InspectError, LogInspector, Position, ReceiptPosition};
use service::cpu::CpuPool;

use super::rejudging::RejudgedRecord;
use crate::failure::CommandFailure;

/// Records of the log, judged again. The last one is kept: rows of one batch follow each other.
pub struct Retained<'a> {
    log: &'a dyn LogInspector,
    /// Epoch by partition.
    epochs: HashMap<u32, u32>,
    last: Option<(Position, Option<Arc<RejudgedRecord>>)>,
}

impl<'a> Retained<'a> {
    /// Looks at which log there is.
    ///
    /// # Errors
    /// The log is unavailable.
    pub async fn of(log: &'a dyn LogInspector) -> Result<Self, CommandFailure> {
        let partitions = log
            .partitions(verifier::GROUP)
            .await
            .map_err(CommandFailure::unavailable)?;
        Ok(Self {
            log,
            epochs: partitions.iter().map(|state| (state.partition, state.epoch)).collect(),
            last: None,
        })
    }

    /// The record; `None` if retention has removed it, or the log was recreated since.
    ///
    /// # Errors
    /// The log is unavailable.
    pub async fn record(
        &mut self,
        at: ReceiptPosition,
        cpu: &CpuPool,
        judge: &Arc<Judge>,
    ) -> Result<Option<Arc<RejudgedRecord>>, CommandFailure> {
        let position = at.record;
        if let Some((last, record)) = &self.last
            && *last == position
        {
            return Ok(record.clone());
        }
        let judged = match self.read(position).await? {
            Some(record) => {
                let judge = Arc::clone(judge);
                let judged = cpu.run_waiting(move || RejudgedRecord::new(&judge, record)).await;
                Some(Arc::new(judged.map_err(CommandFailure::unavailable)?))
            }
            None => None,
        };
        self.last = Some((position, judged.clone()));
        Ok(judged)
    }

    async fn read(&self, position: Position) -> Result<Option<receipt_log::Record>, CommandFailure> {
        if self.epochs.get(&position.partition) != Some(&position.epoch) {
            return Ok(None);
        }
        match self.log.read(position.partition, position.offset, 1).await {
            Ok(records) => Ok(records
                .into_iter()
                .find(|logged| logged.position == position)
                .map(|logged| logged.record)),
            Err(InspectError::Gone { .. }) => Ok(None),
            Err(error) => Err(CommandFailure::unavailable(error)),
        }
    }
}

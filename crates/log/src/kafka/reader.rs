//! Reading records from outside any group: the audit and a repair. On a thread of its own.

use std::time::Instant;

use rdkafka::{consumer::Consumer, error::KafkaError};

use super::{
    actor::ActorState,
    client::{self, serve_events},
    inspected_topic::{
        InspectedTopic, InspectorClient, PolledEvent, assign_at, next_record, partitions_of, unavailable,
    },
    log_topic::Appends,
};
use crate::{record::LoggedRecord, traits::InspectError};

/// The newest record and the marker of its transaction.
const LAST_OFFSETS_MIN: u64 = 2;

pub(super) type ReadRecords = Result<Vec<LoggedRecord>, InspectError>;
pub(super) type NewestRecord = Result<Option<LoggedRecord>, InspectError>;

/// Reads records, from its last position on if requested.
pub(super) struct InspectorReader {
    view: InspectedTopic,
    client: InspectorClient,
    cursor: Option<ReadPosition>,
}

/// Position at which the client continues.
struct ReadPosition {
    partition: u32,
    /// The offset behind the last record. From here to `next_offset` there are no records.
    from_offset: u64,
    next_offset: u64,
    /// Offset behind the newest record, at the last request.
    end_offset: u64,
    /// A record that was too large for the last answer.
    left_over: Option<LoggedRecord>,
}

impl ActorState for InspectorReader {
    fn idle(&mut self) {
        self.rest();
    }
}

impl InspectorReader {
    pub(super) fn new(view: InspectedTopic, client: InspectorClient) -> Self {
        Self {
            view,
            client,
            cursor: None,
        }
    }

    /// Records of a partition from an offset on: at least one, unless the partition ends there, and
    /// no more bytes than `bytes_max` otherwise.
    pub(super) fn read(&mut self, partition: u32, offset: u64, bytes_max: usize) -> ReadRecords {
        let records = self.read_on(partition, offset, bytes_max);
        if records.is_err() {
            self.rest();
        }
        records
    }

    /// The newest record of a partition.
    pub(super) fn last(&mut self, partition: u32) -> NewestRecord {
        let newest = self.search_newest(partition);
        self.rest();
        newest
    }

    /// Drops what was fetched ahead.
    fn rest(&mut self) {
        if self.cursor.take().is_some()
            && let Err(error) = self.client.unassign()
        {
            tracing::debug!(%error, "the reader's assignment could not be cleared");
        }
        serve_events(&self.client);
    }

    fn explain(&self, error: &KafkaError) -> InspectError {
        unavailable(client::explain(&self.client, error))
    }

    /// The oldest offset of a partition that exists, and one past its newest one.
    fn extent(&self, partition: u32) -> Result<(u64, u64), InspectError> {
        let number = i32::try_from(partition).map_err(|_| no_such(partition))?;
        let partitions = partitions_of(&self.client, &self.view).map_err(|error| self.explain(&error))?;
        if !partitions.contains(&partition) {
            return Err(no_such(partition));
        }
        let marks = self
            .client
            .fetch_watermarks(self.view.topic(), number, self.view.wait_max());
        let (begin, end) = marks.map_err(|error| self.explain(&error))?;
        Ok((begin.unsigned_abs(), end.unsigned_abs()))
    }

    /// Starts reading at `offset`, after `end_offset` was read: an end that is met later is no
    /// earlier one.
    fn assign(&mut self, partition: u32, offset: u64, end_offset: u64) -> Result<(), InspectError> {
        assign_at(&self.client, self.view.topic(), [(partition, offset)]).map_err(|error| self.explain(&error))?;
        self.cursor = Some(ReadPosition {
            partition,
            from_offset: offset,
            next_offset: offset,
            end_offset,
            left_over: None,
        });
        Ok(())
    }

    fn read_on(&mut self, partition: u32, offset: u64, bytes_max: usize) -> ReadRecords {
        let follows = |cursor: &&mut ReadPosition| {
            cursor.partition == partition && (cursor.from_offset..=cursor.next_offset).contains(&offset)
        };
        let position = self.cursor.as_mut().filter(follows);
        let (next_offset, cached_end) =
            position.map_or((offset, None), |cursor| (cursor.next_offset, Some(cursor.end_offset)));
        if cached_end.is_none_or(|end_offset| next_offset >= end_offset) {
            let (begin, end_offset) = self.extent(partition)?;
            if offset < begin {
                return Err(InspectError::Gone {
                    partition,
                    offset,
                    begin,
                });
            }
            if next_offset >= end_offset {
                return Ok(Vec::new());
            }
            match &mut self.cursor {
                Some(cursor) if cached_end.is_some() && self.view.appends() == Appends::Single => {
                    cursor.end_offset = end_offset;
                }
                _ => self.assign(partition, next_offset, end_offset)?,
            }
        }
        let Some(cursor) = &mut self.cursor else {
            return Err(unavailable("no cursor"));
        };
        let deadline = Instant::now() + self.view.wait_max();
        let (mut records, mut bytes) = (Vec::new(), 0);
        while cursor.next_offset < cursor.end_offset {
            let next = match cursor.left_over.take() {
                Some(record) => Ok(PolledEvent::Record(record)),
                None => next_record(&self.client, self.view.epoch(), deadline),
            };
            let record = match next.map_err(|error| unavailable(client::explain(&self.client, &error)))? {
                PolledEvent::Record(record) => record,
                PolledEvent::End(ended) if ended == partition => {
                    cursor.next_offset = cursor.end_offset;
                    break;
                }
                PolledEvent::End(_) => continue,
                // Some records are an answer, none are not.
                PolledEvent::Nothing => break,
            };
            if record.position.partition != partition || record.position.offset < cursor.next_offset {
                continue;
            }
            let size = record.record.body.len();
            if !records.is_empty() && bytes + size > bytes_max {
                cursor.left_over = Some(record);
                break;
            }
            bytes += size;
            cursor.next_offset = record.position.offset + 1;
            cursor.from_offset = cursor.next_offset;
            records.push(record);
            if bytes >= bytes_max {
                break;
            }
        }
        if records.is_empty() && cursor.next_offset < cursor.end_offset {
            return Err(unavailable(format!(
                "no record came of partition {partition} from offset {offset} in time"
            )));
        }
        Ok(records)
    }

    /// The newest record, before whatever a partition ends with that isn't one: searched for a few
    /// offsets before the end, then further back.
    fn search_newest(&mut self, partition: u32) -> NewestRecord {
        let (begin, end_offset) = self.extent(partition)?;
        let mut offsets = LAST_OFFSETS_MIN;
        loop {
            let from = end_offset.saturating_sub(offsets).max(begin);
            if from >= end_offset {
                return Ok(None);
            }
            let newest = self.newest(partition, from, end_offset)?;
            if newest.is_some() || from == begin {
                return Ok(newest);
            }
            offsets = offsets.saturating_mul(8);
        }
    }

    fn newest(&mut self, partition: u32, from: u64, end_offset: u64) -> NewestRecord {
        self.assign(partition, from, end_offset)?;
        let deadline = Instant::now() + self.view.wait_max();
        let mut newest = None;
        loop {
            match next_record(&self.client, self.view.epoch(), deadline).map_err(|error| self.explain(&error))? {
                // Of a transaction that ended since the end was read, this one may not be the last.
                PolledEvent::Record(record)
                    if record.position.partition == partition && record.position.offset >= end_offset =>
                {
                    return Ok(newest);
                }
                PolledEvent::Record(record) if record.position.partition == partition => {
                    let next_offset = record.position.offset + 1;
                    newest = Some(record);
                    if next_offset >= end_offset {
                        return Ok(newest);
                    }
                }
                PolledEvent::End(ended) if ended == partition => return Ok(newest),
                PolledEvent::Record(_) | PolledEvent::End(_) => {}
                PolledEvent::Nothing => {
                    return Err(unavailable(format!(
                        "the newest record of partition {partition} could not be read in time"
                    )));
                }
            }
        }
    }
}

fn no_such(partition: u32) -> InspectError {
    unavailable(format!("the topic has no partition {partition}"))
}

//! Reading records from outside any group: the audit, a repair, a replay. On a thread of its own.

use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use rdkafka::{consumer::Consumer, error::KafkaError};

use super::{
    client::{self, serve_events},
    inspect::{Client, IDLE, Read, Records, View, assign_at, next_record, partitions_of, unavailable},
};
use crate::{record::LoggedRecord, traits::InspectError};

/// Reads records, on from where it stood if it is asked so.
pub(super) struct Reader {
    view: View,
    client: Client,
    cursor: Option<Cursor>,
}

/// Where the client reads on.
struct Cursor {
    partition: u32,
    next_offset: u64,
    /// One past the newest record, as last asked.
    end_offset: u64,
    /// A record that was too large for the last answer.
    left_over: Option<LoggedRecord>,
}

impl Reader {
    pub(super) fn new(view: View, client: Client) -> Self {
        Self {
            view,
            client,
            cursor: None,
        }
    }

    /// Answers until nobody can ask any more.
    pub(super) fn serve(mut self, asked: &Receiver<Read>) {
        loop {
            match asked.recv_timeout(IDLE) {
                Ok(read) => {
                    let records = self.read(read.partition, read.offset, read.bytes_max);
                    if records.is_err() {
                        self.rest();
                    }
                    drop(read.answer.send(records));
                }
                Err(RecvTimeoutError::Timeout) => self.rest(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Lets go of what was fetched ahead.
    fn rest(&mut self) {
        if self.cursor.take().is_some()
            && let Err(error) = self.client.unassign()
        {
            tracing::debug!(%error, "the reader's assignment could not be cleared");
        }
        serve_events(&self.client);
    }

    fn read(&mut self, partition: u32, offset: u64, bytes_max: usize) -> Records {
        let explain = |error: KafkaError, client: &Client| unavailable(client::explain(client, &error));
        let (topic, wait_max) = (self.view.topic().to_owned(), self.view.wait_max());
        let follows = |cursor: &Cursor| cursor.partition == partition && cursor.next_offset == offset;
        let known_end = self
            .cursor
            .as_ref()
            .filter(|cursor| follows(cursor))
            .map(|cursor| cursor.end_offset);
        if known_end.is_none_or(|end_offset| offset >= end_offset) {
            let number = i32::try_from(partition).map_err(|_| no_such(partition))?;
            if !partitions_of(&self.client, &self.view)
                .map_err(|error| explain(error, &self.client))?
                .contains(&partition)
            {
                return Err(no_such(partition));
            }
            let marks = self.client.fetch_watermarks(&topic, number, wait_max);
            let (begin, end) = marks.map_err(|error| explain(error, &self.client))?;
            let (begin, end_offset) = (begin.unsigned_abs(), end.unsigned_abs());
            if offset < begin {
                return Err(InspectError::Gone {
                    partition,
                    offset,
                    begin,
                });
            }
            if offset >= end_offset {
                return Ok(Vec::new());
            }
            match &mut self.cursor {
                Some(cursor) if follows(cursor) => cursor.end_offset = end_offset,
                other => {
                    assign_at(&self.client, &topic, [(partition, offset)])
                        .map_err(|error| explain(error, &self.client))?;
                    *other = Some(Cursor {
                        partition,
                        next_offset: offset,
                        end_offset,
                        left_over: None,
                    });
                }
            }
        }
        let Some(cursor) = &mut self.cursor else {
            return Err(unavailable("no cursor"));
        };
        let deadline = Instant::now() + wait_max;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while cursor.next_offset < cursor.end_offset {
            let record = match cursor.left_over.take() {
                Some(record) => Some(record),
                None => next_record(&self.client, self.view.epoch(), deadline)
                    .map_err(|error| explain(error, &self.client))?,
            };
            // What came in time is an answer; nothing at all is none.
            let Some(record) = record else { break };
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
            records.push(record);
            if bytes >= bytes_max {
                break;
            }
        }
        if records.is_empty() {
            return Err(unavailable(format!(
                "no record came of partition {partition} from offset {offset} in time"
            )));
        }
        Ok(records)
    }
}

fn no_such(partition: u32) -> InspectError {
    unavailable(format!("the topic has no partition {partition}"))
}

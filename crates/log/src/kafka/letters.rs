//! Rejected receipts as messages of the topic `kafka.rejected_topic`: the bytes as payload, the position as key, all else as
//! headers ([`DeadLetter::headers`]).

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, FutureExt};
use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, Producer as _},
};

use super::{
    LETTERS,
    client::Events,
    config::KafkaConfig,
    delivery::{Delivered, Delivery},
    error::KafkaOpenError,
    producer::{self, Heard, Producer},
};
use crate::{
    dead_letters::{DeadLetter, DeadLetters, PublishError},
    record::Position,
    traits::AppendError,
};

/// Between two tries at a full queue with nothing of ours in it.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Hands outcomes on.
struct Outcomes;

impl Heard for Outcomes {
    fn heard(&self, events: &Events, delivery: &Delivery, outcome: Result<(u32, u64), &KafkaError>) {
        delivery.end(match outcome {
            Ok((partition, offset)) => Ok(Position {
                epoch: 0,
                partition,
                offset,
            }),
            Err(error) => Err(AppendError::Unavailable(events.explain(error))),
        });
    }
}

/// The topic of rejected receipts.
pub(super) struct Letters {
    producer: Producer<Outcomes>,
    topic: String,
    delivery_wait_max: Duration,
}

impl Letters {
    pub(super) fn open(config: &KafkaConfig) -> Result<Self, KafkaOpenError> {
        let settings = producer::settings(config, LETTERS, config.letter_bytes_max());
        let producer = producer::connect(&settings, LETTERS, &Arc::new(Outcomes));
        Ok(Self {
            producer: producer.map_err(|error| KafkaOpenError::Client(error.to_string()))?,
            topic: config.rejected_topic.clone(),
            delivery_wait_max: Duration::from_millis(config.delivery_wait_ms_max),
        })
    }

    async fn publish(&self, letters: &[DeadLetter]) -> Result<(), PublishError> {
        let failed = |error: AppendError| PublishError(error.to_string());
        let mut under_way = VecDeque::new();
        // What is taken is delivered or given up within `delivery_wait_max`, so a queue stays full no longer.
        let full_wait_max = 2 * self.delivery_wait_max;
        for letter in letters {
            let delivery = Delivery::new(letter.body.len());
            let key = letter.position.to_string();
            let started = Instant::now();
            loop {
                let message = BaseRecord::with_opaque_to(&self.topic, Arc::clone(&delivery))
                    .key(&key)
                    .payload(&*letter.body)
                    .headers(headers_of(letter));
                let Err((error, _)) = self.producer.send(message) else {
                    break;
                };
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) || started.elapsed() > full_wait_max
                {
                    return Err(PublishError(error.to_string()));
                }
                match under_way.pop_front() {
                    Some(oldest) => Delivered(oldest).await.map(drop).map_err(failed)?,
                    // A place in the queue becomes free a moment after its delivery was told.
                    None => tokio::time::sleep(FULL_PAUSE).await,
                }
            }
            under_way.push_back(delivery);
        }
        for delivery in under_way {
            Delivered(delivery).await.map_err(failed)?;
        }
        Ok(())
    }
}

fn headers_of(letter: &DeadLetter) -> OwnedHeaders {
    let insert = |headers: OwnedHeaders, (key, text): (&str, String)| {
        headers.insert(Header {
            key,
            value: Some(&text),
        })
    };
    letter.headers().into_iter().fold(OwnedHeaders::new(), insert)
}

impl DeadLetters for Letters {
    fn publish<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), PublishError>> {
        self.publish(letters).boxed()
    }
}

impl Drop for Letters {
    fn drop(&mut self) {
        if let Err(error) = self.producer.flush(self.delivery_wait_max) {
            tracing::warn!(%error, "dead letters were still under way when the log was closed");
        }
    }
}

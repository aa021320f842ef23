//! The log on Kafka beside rdkafka's own producer with the same settings, on one real broker, in
//! turns: `cargo bench -p receipt-log --bench kafka [-- SECONDS [ROUNDS]]`.
//!
//! Ours: every append is awaited before its producer continues, as the gateway does before a 202.
//! rdkafka's: messages without headers are handed over as fast as its queue takes them, and only
//! counted when they are delivered. Each line has the median of the rounds' ratios.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use rand::RngExt;
use rdkafka::{
    ClientConfig, ClientContext,
    config::FromClientConfigAndContext,
    producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer},
};
use receipt_log::{KafkaConfig, KafkaLog, LogWriter, Record, RecordKind, kafka_config::KafkaCompression};
use test_engines::Kafka;

const RECEIPT_BYTES: usize = 1200;

#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    producers: usize,
    receipts: usize,
}

const LOADS: [Load; 3] = [
    Load {
        name: "64 producers, singles",
        producers: 64,
        receipts: 1,
    },
    Load {
        name: "512 producers, singles",
        producers: 512,
        receipts: 1,
    },
    Load {
        name: "16 producers, batches of 1,000",
        producers: 16,
        receipts: 1000,
    },
];

/// Text that compresses about as far as signed receipts do: half of it is the same everywhere.
fn body(receipts: usize) -> Bytes {
    let mut random = rand::rng();
    let mut text = Vec::with_capacity(receipts * RECEIPT_BYTES);
    for _ in 0..receipts {
        text.extend(
            b"{\"content\":{\"url\":\"https://publisher.example/articles/\"}}"
                .iter()
                .cycle()
                .take(RECEIPT_BYTES / 2),
        );
        text.extend((0..RECEIPT_BYTES / 2).map(|_| random.random_range(b'!'..b'~')));
    }
    text.into()
}

fn config(kafka: &Kafka, compression: KafkaCompression) -> KafkaConfig {
    KafkaConfig {
        brokers: kafka.bootstrap().to_owned(),
        topic: format!("bench-{}", compression as u8),
        partitions: 12,
        replication_factor: 1,
        min_insync_replicas: 1,
        retention_bytes_max: 64 << 20,
        delivery_wait_ms_max: 30_000,
        compression,
        ..KafkaConfig::default()
    }
}

/// Receipts a second.
async fn ours(log: &KafkaLog, load: Load, body: &Bytes, wait: Duration) -> f64 {
    let started = Instant::now();
    let producers: Vec<_> = (0..load.producers)
        .map(|_| {
            let (log, body) = (log.clone(), body.clone());
            tokio::spawn(async move {
                let mut appended = 0;
                while started.elapsed() < wait {
                    let record = Record {
                        kind: RecordKind::Batch,
                        body: body.clone(),
                        request_signature: Some("c2lnbmF0dXJl".repeat(7)),
                        request_id: "0192f0c4-7b6e-7c3a-9d53-3d1f6a1f0001".to_owned(),
                        received_at_ms: 1_700_000_000_000,
                        client_address: Some([127, 0, 0, 1].into()),
                        trace: None,
                    };
                    log.append(record).await.unwrap();
                    appended += 1;
                }
                appended
            })
        })
        .collect();
    let mut appended = 0_u64;
    for producer in producers {
        appended += producer.await.unwrap();
    }
    (appended * load.receipts as u64) as f64 / started.elapsed().as_secs_f64()
}

struct Count(AtomicU64);

impl ClientContext for Count {}

impl ProducerContext for Count {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        assert!(result.is_ok());
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn reference(config: &KafkaConfig) -> ThreadedProducer<Count> {
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", &config.brokers)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set(
            "compression.type",
            if config.compression == KafkaCompression::None {
                "none"
            } else {
                "lz4"
            },
        )
        .set("linger.ms", config.linger_ms.to_string())
        .set("message.max.bytes", "9000000")
        .set("queue.buffering.max.messages", config.queue_records_max.to_string())
        .set(
            "queue.buffering.max.kbytes",
            (config.queue_bytes_max / 1024).to_string(),
        );
    ThreadedProducer::from_config_and_context(&settings, Count(AtomicU64::new(0))).unwrap()
}

/// Receipts a second.
fn theirs(producer: &ThreadedProducer<Count>, topic: &str, load: Load, body: &Bytes, wait: Duration) -> f64 {
    let count = || producer.client().context().0.load(Ordering::Relaxed);
    let (started, before) = (Instant::now(), count());
    while started.elapsed() < wait {
        let message = BaseRecord::<(), [u8]>::to(topic).payload(body);
        if producer.send(message).is_err() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    // On a busy disk the queue takes its time; what was handed over counts only once it is
    // delivered.
    producer.flush(Duration::from_secs(300)).unwrap();
    ((count() - before) * load.receipts as u64) as f64 / started.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let wait = Duration::from_secs(arguments.next().map_or(3, |seconds| seconds.parse().unwrap()));
    let rounds: usize = arguments.next().map_or(5, |rounds| rounds.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let kafka = Arc::new(Kafka::start().unwrap());
    for compression in [KafkaCompression::None, KafkaCompression::Lz4] {
        let config = config(&kafka, compression);
        let log = KafkaLog::open(config.clone()).unwrap();
        let producer = reference(&config);
        for load in LOADS {
            let body = body(load.receipts);
            // Both once to warm up.
            runtime.block_on(ours(&log, load, &body, Duration::from_secs(1)));
            theirs(&producer, &config.topic, load, &body, Duration::from_secs(1));
            let (mut ratios, mut paces) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let ours = runtime.block_on(ours(&log, load, &body, wait));
                let theirs = theirs(&producer, &config.topic, load, &body, wait);
                ratios.push(ours / theirs);
                paces.push((ours, theirs));
            }
            let (ours, theirs) = (
                median(paces.iter().map(|pace| pace.0).collect()),
                median(paces.iter().map(|pace| pace.1).collect()),
            );
            println!(
                "{:32} {compression:?}: {ours:>9.0} receipts/s, rdkafka's own {theirs:>9.0}, ratio {:.2}",
                load.name,
                median(ratios)
            );
        }
        log.close();
    }
}

//! Mix of dashboard queries while receipts arrive: each reader opens a page, which requests its
//! parts at once, looks at it, and opens the next.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::join_all;
use load_tests::http::client;
use parking_lot::Mutex;
use rand::RngExt;
use tokio::task::JoinSet;

use super::fresh;
use super::get::{get, quantile};
use super::loading::{Load, publisher};
use super::service::Service;
use super::stream::{Stream, by_zipf};
use super::{Arguments, or_skipped};
use crate::row::{Row, Target, number};

/// Publishers that the readers have keys of; one page in [`BIGGEST_EVERY`] is of the biggest, the
/// others by Zipf's law.
const KEYS: u64 = 40;
const BIGGEST_EVERY: u32 = 4;
const MILLISECONDS_MAX: f64 = 250.0;

/// Answers of one address: how long each took, in milliseconds.
#[derive(Default)]
struct Taken {
    by_part: Mutex<BTreeMap<&'static str, Vec<f64>>>,
    /// Before it counts.
    warming: Mutex<Vec<f64>>,
    failed: Mutex<Vec<String>>,
    pages: std::sync::atomic::AtomicU64,
}

/// Ranges that the page offers, with the interval that it shows them in.
const RANGES: [(i64, &str, u32); 3] = [(30, "day", 5), (7, "hour", 3), (1, "hour", 2)];

const HALF_HOUR_MS: i64 = 30 * 60_000;
const HOUR_MS: i64 = 2 * HALF_HOUR_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Addresses that the page requests when it is opened, with its ranges: whole days or hours of its
/// zone, up to the end of this half hour. Lists have no end.
fn parts(days: i64, interval: &str) -> Vec<(&'static str, String)> {
    let now_ms = ::service::instant::now_ms();
    let text = ::service::instant::rfc3339_ms;
    let to_ms = (now_ms / HALF_HOUR_MS + 1) * HALF_HOUR_MS;
    let from_ms = match days {
        1 => ((to_ms - 1) / HOUR_MS - 23) * HOUR_MS,
        _ => ((to_ms - 1) / DAY_MS + 1 - days) * DAY_MS,
    };
    let from = format!("from={}&tz=UTC", text(from_ms));
    let range = format!("{from}&to={}", text(to_ms));
    let analytics = "/api/v1/analytics";
    vec![
        (
            "dashboard",
            format!("{analytics}/dashboard?{range}&compare=previous&limit=0"),
        ),
        (
            "timeseries",
            format!("{analytics}/timeseries?{range}&interval={interval}&groupBy=purpose"),
        ),
        ("content", format!("{analytics}/content?{from}&limit=8")),
        ("clients", format!("{analytics}/clients?{from}&limit=8")),
        ("models", format!("{analytics}/models?{from}&limit=8")),
        ("refusals", format!("{analytics}/refusals?{from}&limit=3")),
        ("receipts", format!("{analytics}/receipts?{from}&limit=8")),
    ]
}

/// Reads until `until`; queries before `counting` begins is for warming up, and what is asked
/// after it doesn't count.
async fn read(
    base: String,
    keys: Arc<Vec<String>>,
    look_ms: u64,
    counting: Range<Instant>,
    until: Instant,
    taken: Arc<Taken>,
) {
    let http = client(16);
    let wait = |most_ms: u64| Duration::from_millis(rand::rng().random_range(0..=most_ms));
    tokio::time::sleep(wait(look_ms)).await;
    while Instant::now() < until {
        let now = Instant::now();
        let (counts, warms) = (counting.contains(&now), now < counting.start);
        let (days, interval, key) = {
            let mut random = rand::rng();
            let mut pick = random.random_range(0..RANGES.iter().map(|(_, _, weight)| weight).sum());
            let range = RANGES.iter().find(|(_, _, weight)| {
                let here = pick < *weight;
                pick = pick.saturating_sub(*weight);
                here
            });
            let (days, interval, _) = range.copied().unwrap_or(RANGES[0]);
            let biggest = random.random_range(0..BIGGEST_EVERY) == 0;
            let other = usize::try_from(by_zipf(&mut random, keys.len() as u64)).unwrap_or(0);
            (days, interval, if biggest { 0 } else { other.min(keys.len() - 1) })
        };
        let asked = parts(days, interval).into_iter().map(|(part, path)| {
            let (http, address, key) = (&http, format!("{base}{path}"), &keys[key]);
            async move {
                let began = Instant::now();
                let answer = get(http, &address, key).await;
                (part, began.elapsed(), answer.map(|_| ()), path)
            }
        });
        for (part, elapsed, answer, path) in join_all(asked).await {
            match answer {
                Ok(()) => {
                    let ms = elapsed.as_secs_f64() * 1_000.0;
                    if counts {
                        taken.by_part.lock().entry(part).or_default().push(ms);
                    } else if warms {
                        taken.warming.lock().push(ms);
                    }
                }
                Err(error) => taken.failed.lock().push(format!("{path}: {error:#}")),
            }
        }
        taken
            .pages
            .fetch_add(u64::from(counts), std::sync::atomic::Ordering::Relaxed);
        tokio::time::sleep(wait(look_ms)).await;
    }
}

pub(super) async fn measure(arguments: &Arguments, service: &mut Service, load: &Load) -> Result<Vec<Row>> {
    let mut keys = Vec::new();
    for number in 0..KEYS.min(load.publishers()) {
        keys.push(service.create_key(&publisher(number)).await?);
    }
    let probe = service.create_key(fresh::PROBE).await?;
    let keys = Arc::new(keys);
    let stream = Stream::start(service.gateway(), load, arguments.rate)?;
    // The first seconds are the stream's own: connections, caches of keys.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let start = Instant::now() + Duration::from_secs(arguments.warm_seconds);
    let end = start + Duration::from_secs(arguments.seconds);
    // Then the live feed.
    let until = end + Duration::from_secs(arguments.seconds);
    let taken = Arc::new(Taken::default());
    let mut readers = JoinSet::new();
    for _ in 0..arguments.readers {
        let keys = Arc::clone(&keys);
        readers.spawn(read(
            service.analytics(),
            keys,
            arguments.look_ms,
            start..end,
            until,
            Arc::clone(&taken),
        ));
    }
    tokio::time::sleep_until(start.into()).await;
    let cpu = service.cpu_seconds()?;
    tokio::time::sleep_until(end.into()).await;
    let cpu = (service.cpu_seconds()? - cpu) / arguments.seconds as f64;
    let fresh = or_skipped("fresh-live", fresh::measure(service, probe, until).await);
    while readers.join_next().await.is_some() {}
    let acknowledged = stream.stop().await?;
    let by_part = std::mem::take(&mut *taken.by_part.lock());
    let all: Vec<f64> = by_part.values().flatten().copied().collect();
    let warming = std::mem::take(&mut *taken.warming.lock());
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let mut row = Row::alone(
        "analytics-mix",
        format!(
            "p99 of {} readers while {} receipts/s come in",
            arguments.readers, arguments.rate
        ),
        "ms",
        quantile(&all, 0.99),
    )
    .target(Target::Below(MILLISECONDS_MAX))
    .note(format!(
        "each reader opens a page, looks at it for 0 to {} ms, and opens the next; a page asks {} addresses at once, over 30 days \
         (5 of 10), 7 days (3) or 1 day (2); one page in {BIGGEST_EVERY} is of the biggest publisher, the others by Zipf's law",
        arguments.look_ms,
        by_part.len(),
    ))
    .note(format!(
        "{} pages, {} answers, {} failed; p50 {} ms, max {} ms; {} of all cores; peak memory {} MB",
        taken.pages.load(relaxed),
        number(all.len() as f64),
        taken.failed.lock().len(),
        number(quantile(&all, 0.5)),
        number(quantile(&all, 1.0)),
        number(cpu),
        number(service.memory_mb()?),
    ))
    .note(format!(
        "{} s of the same before that, whose answers don't count: {} of them, p50 {} ms, p99 {} ms, max {} ms",
        arguments.warm_seconds,
        number(warming.len() as f64),
        number(quantile(&warming, 0.5)),
        number(quantile(&warming, 0.99)),
        number(quantile(&warming, 1.0)),
    ))
    .note(format!(
        "then the live feed, beside the same readers and stream. The stream, with that: {} acknowledged, {} failed, at most {} ms behind its plan; one in {} late, up to two days by Zipf's law",
        number(acknowledged.receipts.load(relaxed) as f64),
        acknowledged.failed.load(relaxed),
        acknowledged.behind_ms.load(relaxed),
        super::stream::LATE_EVERY,
    ));
    for (part, values) in &by_part {
        row = row.note(format!(
            "{part}: {} answers, p50 {} ms, p99 {} ms, max {} ms",
            number(values.len() as f64),
            number(quantile(values, 0.5)),
            number(quantile(values, 0.99)),
            number(quantile(values, 1.0)),
        ));
    }
    if let Some(first) = taken.failed.lock().first() {
        row = row.note(format!("the first that failed: {first}"));
    }
    Ok(vec![row, fresh])
}

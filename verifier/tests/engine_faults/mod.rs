//! A warehouse that refuses rows, and one that is away, slow, or cut off in the middle: everything ends in one outcome,
//! and the audit is exact.

mod proxy;

use std::path::Path;
use std::time::{Duration, Instant};

use proxy::{Mode, Proxy};
use receipt::{Algorithm, SigningKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio_util::sync::CancellationToken;
use warehouse::{EmbeddedEngine, REFUSED_BY_WAREHOUSE, Target, WarehouseConfig};

use crate::world::{Fault, Published, World, batch, record, single};

const USER: &str = "verifier";
const PASSWORD: &str = "secret";

/// Refuses what `unsigned` says of the receipts 1, 7 and 11 of every twenty.
const POISON: &str = "toUInt32(reinterpretAsUInt32(reverse(substring(content_hash, 29, 4)))) % 20 NOT IN (1, 7, 11)";

pub(crate) async fn all(engine: &EmbeddedEngine, directory: &Path) {
    let socket = World::new(directory, "refused").await;
    refused_rows_are_rejected_alone(socket, directory).await;
    what_is_taken_the_second_time_is_no_longer_rejected(World::new(directory, "taken").await, directory).await;
    what_was_taken_the_first_time_counts(World::new(directory, "stood").await, directory).await;
    a_table_that_refuses_everything_stops_nothing(World::new(directory, "everything").await, directory).await;
    a_table_that_is_gone_is_waited_for(World::new(directory, "gone").await, directory).await;
    a_block_over_the_limits_goes_in_parts(directory).await;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::before(listener.local_addr().unwrap()).await;
    engine.serve_tcp(listener, USER, PASSWORD).unwrap();
    a_server_that_is_away_is_waited_for_within_bounds(over(directory, "away", &proxy).await, &proxy).await;
    a_slow_server_is_waited_for(over(directory, "slow", &proxy).await, &proxy).await;
    an_answer_that_is_lost_doubles_nothing(over(directory, "unanswered", &proxy).await, &proxy).await;
    a_verifier_without_a_warehouse_stops_in_time(over(directory, "stopping", &proxy).await, &proxy).await;
    a_wrong_password_is_named_and_loses_nothing(directory, &proxy).await;
}

fn server(name: &str, proxy: &Proxy) -> (Target, WarehouseConfig) {
    let url = format!("http://{}", proxy.address);
    let config = WarehouseConfig {
        url: Some(url.clone()),
        user: Some(USER.to_owned()),
        password: Some(PASSWORD.into()),
        database: format!("v_{name}"),
        insert_wait_ms_max: 3_000,
        ..WarehouseConfig::default()
    };
    (Target::Url(url), config)
}

async fn over(directory: &Path, name: &str, proxy: &Proxy) -> World {
    proxy.set(Mode::Open);
    let (target, config) = server(name, proxy);
    World::over(directory, name, &target, &config).await
}

/// Runs SQL as an operator would.
async fn sql(directory: &Path, world: &World, statement: &str) -> String {
    let mut stream = UnixStream::connect(directory.join("w.sock")).await.unwrap();
    let head = format!(
        "POST /?database={} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        world.warehouse.database(),
        statement.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(statement.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{statement}: {answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

async fn constrain(directory: &Path, world: &World, check: &str) {
    let statement = format!("ALTER TABLE receipts ADD CONSTRAINT poison CHECK {check}");
    sql(directory, world, &statement).await;
}

async fn unconstrain(directory: &Path, world: &World) {
    sql(directory, world, "ALTER TABLE receipts DROP CONSTRAINT poison").await;
}

async fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !reached() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Why the verifier isn't ready.
fn reason(world: &World) -> String {
    let snapshot = world.health.snapshot();
    let verifier = snapshot.components.get("verifier");
    verifier
        .and_then(|verifier| verifier.reason.clone())
        .unwrap_or_default()
}

/// Accepted occurrences, and rejected receipts of the one reason that these tests bring about.
async fn outcomes(world: &World) -> (u64, u64) {
    let totals = world.warehouse.totals().await.unwrap();
    let refused = totals
        .rejected_by_reason
        .iter()
        .filter(|(reason, _)| reason == REFUSED_BY_WAREHOUSE);
    let refused = refused.map(|(_, count)| *count).sum();
    assert_eq!(totals.rejected, refused, "{:?}", totals.rejected_by_reason);
    (totals.occurrences, refused)
}

async fn refused_rows_are_rejected_alone(mut world: World, directory: &Path) {
    let published = Published::failing(&world.warehouse, 0);
    world.dead_letters = Some(published.clone());
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    constrain(directory, &world, POISON).await;
    world.append(batch(&key, 0..40)).await;
    world.append(record(&single(&key, 47), Some(&key))).await;
    world.append(record(&single(&key, 48), Some(&key))).await;
    world.run_until_caught_up().await;
    assert_eq!(outcomes(&world).await, (35, 7));
    world.assert_audit(42).await;
    let letters = published.letters.lock().unwrap().len();
    assert_eq!(letters, 7, "each is a dead letter too");
    // With its bytes and the warehouse's words.
    let kept = sql(
        directory,
        &world,
        "SELECT count(), countIf(startsWith(raw, '{')), countIf(position(detail, 'poison') > 0), countIf(isNotNull(receipt_id)),
            countIf(isNotNull(payload_hash)), countIf(isNotNull(request_signature) = (kind = 'receipt')) FROM rejected FINAL",
    )
    .await;
    assert_eq!(kept, "7\t7\t7\t7\t7\t7\n");
    // A repair keeps to the verdict that the ledger has, whatever the table takes by now.
    unconstrain(directory, &world).await;
    let repaired =
        verifier::repair::repair(&world.log, &world.warehouse, &world.cpu, &world.judge, None, |_, _| {}).await;
    assert_eq!(repaired.unwrap().accepted, 35);
    assert_eq!(outcomes(&world).await, (35, 7));
    world.assert_audit(42).await;
}

async fn what_is_taken_the_second_time_is_no_longer_rejected(world: World, directory: &Path) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    constrain(directory, &world, POISON).await;
    world.append(batch(&key, 0..20)).await;
    world.run_faulty(Fault::HangBeforeCommit).await;
    assert_eq!(outcomes(&world).await, (17, 3), "written, not committed");
    unconstrain(directory, &world).await;
    world.append(batch(&key, 20..40)).await;
    world.run_until_caught_up().await;
    assert_eq!(outcomes(&world).await, (40, 0));
    world.assert_audit(40).await;
}

async fn what_was_taken_the_first_time_counts(world: World, directory: &Path) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(batch(&key, 0..20)).await;
    world.run_faulty(Fault::HangBeforeCommit).await;
    assert_eq!(outcomes(&world).await, (20, 0), "written, not committed");
    constrain(directory, &world, POISON).await;
    world.append(batch(&key, 20..40)).await;
    world.run_until_caught_up().await;
    assert_eq!(
        outcomes(&world).await,
        (37, 3),
        "of the first block all, of the second what is taken now"
    );
    world.assert_audit(40).await;
}

async fn a_table_that_refuses_everything_stops_nothing(world: World, directory: &Path) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    constrain(directory, &world, "receipt_id IS NULL").await;
    world.append(batch(&key, 0..60)).await;
    world.run_until_caught_up().await;
    assert_eq!(outcomes(&world).await, (0, 60));
    assert!(world.health.is_ready(), "{}", reason(&world));
    world.assert_audit(60).await;
}

async fn a_table_that_is_gone_is_waited_for(world: World, directory: &Path) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    sql(directory, &world, "RENAME TABLE receipts TO elsewhere").await;
    world.append(batch(&key, 0..10)).await;
    let stop = CancellationToken::new();
    let verifier = world.spawn(Box::new(world.consumer()), stop.clone());
    wait_until("it says what is missing", || {
        reason(&world).contains("receipts can't be written")
    })
    .await;
    sql(directory, &world, "RENAME TABLE elsewhere TO receipts").await;
    world.caught_up().await;
    wait_until("it is ready again", || world.health.is_ready()).await;
    stop.cancel();
    verifier.await.unwrap().unwrap();
    assert_eq!(outcomes(&world).await, (10, 0), "nothing was taken for a row's fault");
    world.assert_audit(10).await;
}

async fn a_block_over_the_limits_goes_in_parts(directory: &Path) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let config = WarehouseConfig {
        database: "v_limits".to_owned(),
        insert_rows_max: 7,
        insert_bytes_max: 4_000,
        ..WarehouseConfig::default()
    };
    let world = World::over(directory, "limits", &Target::Socket(directory.join("w.sock")), &config).await;
    world.append(batch(&key, 0..40)).await;
    for _ in 0..9 {
        world.append(record(b"poison", None)).await;
    }
    world.run_until_caught_up().await;
    let totals = world.warehouse.totals().await.unwrap();
    assert_eq!((totals.receipts, totals.rejected), (40, 9));
    world.assert_audit(49).await;
}

async fn a_server_that_is_away_is_waited_for_within_bounds(world: World, proxy: &Proxy) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let stop = CancellationToken::new();
    let verifier = world.spawn(Box::new(world.consumer()), stop.clone());
    let mut sent = 0;
    for _ in 0..3 {
        for mode in [Mode::Open, Mode::Down] {
            proxy.set(mode);
            for _ in 0..5 {
                world.append(batch(&key, sent..sent + 20)).await;
                sent += 20;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        wait_until("it says that it isn't ready", || !world.health.is_ready()).await;
        assert!(reason(&world).contains("can't be written"), "{}", reason(&world));
    }
    proxy.set(Mode::Open);
    world.caught_up().await;
    wait_until("it is ready again", || world.health.is_ready()).await;
    stop.cancel();
    verifier.await.unwrap().unwrap();
    assert_eq!(outcomes(&world).await, (sent as u64, 0));
    world.assert_audit(sent as u64).await;
}

async fn a_slow_server_is_waited_for(world: World, proxy: &Proxy) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    for round in 0..4 {
        world.append(batch(&key, round * 50..round * 50 + 50)).await;
    }
    proxy.set(Mode::Slow(Duration::from_millis(100)));
    world.run_until_caught_up().await;
    proxy.set(Mode::Open);
    assert_eq!(outcomes(&world).await, (200, 0));
    world.assert_audit(200).await;
}

async fn an_answer_that_is_lost_doubles_nothing(world: World, proxy: &Proxy) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(batch(&key, 0..50)).await;
    world.append(record(b"poison", None)).await;
    let stop = CancellationToken::new();
    let verifier = world.spawn(Box::new(world.consumer()), stop.clone());
    proxy.set(Mode::Unanswered);
    let before = proxy.answers_cut();
    wait_until("several answers are cut", || proxy.answers_cut() >= before + 6).await;
    proxy.set(Mode::Open);
    world.caught_up().await;
    stop.cancel();
    verifier.await.unwrap().unwrap();
    let totals = world.warehouse.totals().await.unwrap();
    assert_eq!((totals.receipts, totals.occurrences, totals.rejected), (50, 50, 1));
    world.assert_audit(51).await;
}

async fn a_verifier_without_a_warehouse_stops_in_time(world: World, proxy: &Proxy) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let stop = CancellationToken::new();
    let verifier = world.spawn(Box::new(world.consumer()), stop.clone());
    world.append(batch(&key, 0..10)).await;
    world.caught_up().await;
    proxy.set(Mode::Down);
    world.append(batch(&key, 10..20)).await;
    wait_until("it says that it isn't ready", || !world.health.is_ready()).await;
    stop.cancel();
    // The drain limit is 2 s; without an end of its own this would go on for ever.
    let ended = tokio::time::timeout(Duration::from_secs(30), verifier).await;
    ended.expect("it ends").unwrap().unwrap();
    proxy.set(Mode::Open);
    world.run_until_caught_up().await;
    world.assert_audit(20).await;
}

async fn a_wrong_password_is_named_and_loses_nothing(directory: &Path, proxy: &Proxy) {
    let mut world = over(directory, "password", proxy).await;
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(batch(&key, 0..10)).await;
    let (target, config) = server("password", proxy);
    let wrong = WarehouseConfig {
        password: Some("changed".into()),
        ..config
    };
    let right = std::mem::replace(
        &mut world.warehouse,
        warehouse::Warehouse::new(&target, &wrong).unwrap(),
    );
    let stop = CancellationToken::new();
    let verifier = world.spawn(Box::new(world.consumer()), stop.clone());
    wait_until("it says why", || reason(&world).contains("516")).await;
    assert!(!reason(&world).contains("changed"));
    stop.cancel();
    verifier.await.unwrap().unwrap();
    world.warehouse = right;
    world.run_until_caught_up().await;
    assert_eq!(outcomes(&world).await, (10, 0));
    world.assert_audit(10).await;
}

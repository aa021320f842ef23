//! Records that a healthy verifier appends.

use receipt::{Algorithm, SigningKey};
use receipt_log::EmbeddedConfig;

use crate::receipts::{batch, batch_of, generate, id, record, single, tampered};
use crate::world::World;

const POISON: [&[u8]; 5] = [b"\xff\xfe not json", b"", b"{}", b"[1,2", b"{\"receipts\":[]}"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_has_verdicts_with_the_right_reasons() {
    let world = World::new();
    let key = generate();
    let one = single(&key, 1);
    world.append(record(&one, Some(&key))).await;
    world.append(record(&one, Some(&key))).await; // a duplicate
    world.append(record(&one, None)).await; // without a request signature
    world
        .append(tampered(record(&single(&key, 2), Some(&key)), "a context", "b context"))
        .await;
    world
        .append(tampered(record(&single(&key, 4), None), "a context", "b context"))
        .await;
    let other = SigningKey::generate(Algorithm::EcdsaP256).unwrap();
    world.append(record(&single(&key, 3), Some(&other))).await; // another key signed the request
    world.append(batch(&key, 10..20)).await;
    world.append(tampered(batch(&key, 20..25), "batch_", "BATCH_")).await;
    for poison in POISON {
        world.append(record(poison, None)).await;
    }
    world.run_until_caught_up().await;
    let expected = [
        ("bad_batch_signature", 1),
        ("bad_request_signature", 2),
        ("bad_signature", 1),
        ("malformed", 5),
    ];
    world.contiguous().await.assert_outcomes(13, &expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_have_the_columns_of_their_receipts() {
    let world = World::new();
    let key = generate();
    let accepted = record(&single(&key, 1), Some(&key));
    let poison = b"\xff\xfe not json \x00";
    let broken = tampered(batch(&key, 2..4), "batch_", "BATCH_");
    for record in [accepted.clone(), record(poison, None), broken.clone()] {
        world.append(record).await;
    }
    world.run_until_caught_up().await;
    let mut rows = Vec::new();
    for block in world.contiguous().await.blocks {
        let columns = block.columns();
        for row in 0..usize::try_from(block.header.block.received).unwrap() {
            let text = |text: &str| text.to_owned();
            let texts = [
                text(columns.reason.value(row)),
                text(columns.publisher.value(row)),
                text(columns.url.value(row)),
                text(columns.client_name.value(row)),
                text(columns.purpose.value(row)),
                text(columns.kind.value(row)),
                text(columns.origin.value(row)),
                text(columns.request_id.value(row)),
                text(columns.client_address.value(row)),
                text(columns.request_signature.value(row)),
            ];
            rows.push((
                texts,
                columns.receipt_id.value(row).to_vec(),
                columns.raw.value(row).to_vec(),
            ));
        }
    }
    // Accepted rows come first in a block.
    rows.sort_by_key(|(texts, receipt_id, _)| (texts[0].clone(), receipt_id.clone()));
    let texts: Vec<_> = rows
        .iter()
        .map(|(texts, ..)| texts.each_ref().map(String::as_str))
        .collect();
    let signature = accepted.request_signature.as_deref().unwrap();
    let (request, address) = ("request", "192.0.2.1");
    let expected = [
        [
            "",
            "example.com",
            "https://example.com/a",
            "Reader",
            "training",
            "receipt",
            "record",
            request,
            address,
            signature,
        ],
        [
            "bad_batch_signature",
            "",
            "",
            "",
            "",
            "batch",
            "record",
            request,
            address,
            "",
        ],
        ["malformed", "", "", "", "", "receipt", "record", request, address, ""],
    ];
    assert_eq!(texts, expected);
    let ids: Vec<_> = rows.iter().map(|(_, id, _)| id.clone()).collect();
    assert_eq!(
        ids,
        [id(1), uuid::Uuid::nil(), uuid::Uuid::nil()].map(|id| id.as_bytes().to_vec())
    );
    assert_eq!(rows[0].2, accepted.body);
    assert_eq!(rows[1].2, broken.body);
    assert_eq!(rows[2].2, poison);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_records_in_small_blocks_have_a_verdict_each() {
    let mut world = World::new();
    world.config.block_records_max = 7;
    let key = generate();
    for number in 0..200 {
        world.append(record(&single(&key, number), Some(&key))).await;
    }
    world.run_until_caught_up().await;
    let found = world.contiguous().await;
    found.assert_outcomes(200, &[]);
    assert!(
        found
            .headers()
            .all(|header| header.source.end.offset - header.source.first.offset <= 7)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_verdicts_are_cut_between_records_of_receipts() {
    let mut world = World::new();
    world.config.record_bytes_max = 1;
    let key = generate();
    for number in 0..5 {
        world.append(batch(&key, 10 * number..10 * number + 3)).await;
        world.append(record(b"poison", None)).await;
    }
    world.run_until_caught_up().await;
    let found = world.contiguous().await;
    found.assert_outcomes(15, &[("malformed", 5)]);
    assert_eq!(found.blocks.len(), 10, "one for each source record");
    let instants: Vec<_> = found.headers().map(|header| header.complete_through_ms).collect();
    assert!(instants.is_sorted() && instants[0] > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_over_the_limit_of_bytes_are_closed() {
    let mut world = World::new();
    world.config.block_bytes_max = 1;
    let key = generate();
    for number in 0..5 {
        world.append(record(&single(&key, number), Some(&key))).await;
    }
    world.run_until_caught_up().await;
    let found = world.contiguous().await;
    found.assert_outcomes(5, &[]);
    assert_eq!(found.blocks.len(), 5);
}

/// Verdicts of such a batch are larger than the batch itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_batch_with_only_bad_signatures_is_appended() {
    let world = World::with_logs(EmbeddedConfig {
        segment_bytes: 64 << 20,
        ..EmbeddedConfig::verdicts()
    });
    let key = generate();
    let template = String::from_utf8(single(&key, 0)).unwrap();
    let receipt = |number: usize| template.replacen(&id(0).to_string(), &id(number).to_string(), 1);
    let fitting = ((8 << 20) - 1_000) / (template.len() + 1);
    let receipts: Vec<_> = (1..=fitting.min(10_000)).map(receipt).collect();
    world.append(batch_of(&key, &receipts)).await;
    world.run_until_caught_up().await;
    let found = world.contiguous().await;
    // Behind the first 512 it is abandoned.
    let abandoned = receipts.len() as u64 - 512;
    found.assert_outcomes(0, &[("bad_signature", 512), ("batch_abandoned", abandoned)]);
}

use crate::harness::*;
#[test]
fn bisect() {
    let steps = std::env::var("STEPS").unwrap_or_default();
    run(async {
        let warehouse = fresh().await;
        if steps.contains("stop") {
            sql(warehouse.database(), "SYSTEM STOP MERGES receipts").await;
        }
        let n = if steps.contains("big") { 20_000 } else { 10 };
        let rows: Vec<_> = (0..n)
            .map(|n| {
                (
                    Receipt {
                        timestamp_ms: NOON_MS - i64::from(n % 2 == 0 && steps.contains("two")) * 31 * 86_400_000,
                        ..Receipt::new(n)
                    },
                    position(0, n as u64, 0),
                )
            })
            .collect();
        if steps.contains("ins") {
            insert(&warehouse, &rows).await;
        }
        if steps.contains("parts") {
            sql(warehouse.database(), "SELECT count() FROM system.parts").await;
        }
        if steps.contains("cnt") {
            sql(warehouse.database(), "SELECT count() FROM receipts").await;
        }
        if steps.contains("sum") {
            sql(
                warehouse.database(),
                "SELECT count(), sum(length(positions)) FROM receipts FINAL",
            )
            .await;
        }
        if steps.contains("tot") {
            warehouse.totals().await.unwrap();
        }
        if steps.contains("uniq") {
            sql(warehouse.database(), "SELECT count() FROM (SELECT receipt_id FROM receipts GROUP BY receipt_id HAVING uniqExact(payload_hash) > 1)").await;
        }
    });
}

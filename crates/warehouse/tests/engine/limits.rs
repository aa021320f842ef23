//! Requests that are cut off, refused, too large or all at once.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Receipt, fresh, insert, official, position, request, run, socket, sql};

#[test]
fn an_insert_whose_client_goes_away_commits_nothing() {
    run(async {
        let warehouse = fresh().await;
        let database = warehouse.database();
        sql(
            database,
            "CREATE TABLE numbers (n UInt64) ENGINE = MergeTree ORDER BY n",
        )
        .await;
        let head = format!(
            "POST /?database={database}&query=INSERT%20INTO%20numbers%20FORMAT%20RowBinary HTTP/1.1\r\nHost: x\r\n"
        );
        let rows: Vec<u8> = (0..1000_u64).flat_map(u64::to_le_bytes).collect();
        // Whole rows, but fewer bytes than promised; and chunks without their end.
        let short = format!("{head}Content-Length: {}\r\n\r\n", rows.len() * 2);
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", rows.len());
        for head in [short, chunked] {
            let mut stream = UnixStream::connect(socket()).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&rows).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            assert!(!rest.starts_with(b"HTTP/1.1 200"));
        }
        let insert = official(database)
            .await
            .insert_formatted_with("INSERT INTO numbers FORMAT RowBinary");
        let mut insert = insert;
        insert.send(Bytes::from(rows.clone())).await.unwrap();
        drop(insert);
        // A later insert on the same lane comes after them.
        assert_eq!(
            request(
                &format!("POST /?database={database}&query=INSERT%20INTO%20numbers%20FORMAT%20RowBinary HTTP/1.1"),
                &rows[..8]
            )
            .await
            .status,
            200
        );
        assert_eq!(sql(database, "SELECT count() FROM numbers").await, "1\n");
    });
}

#[test]
fn a_refused_insert_commits_nothing_and_says_why() {
    run(async {
        let database = fresh().await.database().to_owned();
        sql(
            &database,
            "CREATE TABLE days (d Date, n UInt64) ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY n",
        )
        .await;
        let target = format!("POST /?database={database}&query=INSERT%20INTO%20days%20FORMAT%20RowBinary HTTP/1.1");
        // Found only when the block is written: more than 100 partitions.
        let rows: Vec<u8> = (0..200_u16)
            .flat_map(|n| [(n * 31).to_le_bytes().to_vec(), u64::from(n).to_le_bytes().to_vec()].concat())
            .collect();
        let answer = request(&target, &rows).await;
        assert_eq!(
            answer.header("x-clickhouse-exception-code"),
            Some("252"),
            "{}",
            answer.text()
        );
        // A row cut short.
        let answer = request(&target, &rows[..17]).await;
        assert_eq!(
            (answer.status, answer.header("x-clickhouse-exception-code")),
            (400, Some("33"))
        );
        assert_eq!(sql(&database, "SELECT count() FROM days").await, "0\n");
        let answer = request(&target, &rows[..10]).await;
        assert_eq!(
            (answer.status, answer.header("x-clickhouse-summary")),
            (200, Some("{\"written_rows\":\"1\"}"))
        );
    });
}

#[test]
fn oversized_bodies_and_results_are_refused() {
    run(async {
        let answer = request("POST / HTTP/1.1", &vec![b' '; (4 << 20) + 1]).await;
        assert_eq!(answer.status, 413, "a query over 4 MiB");
        let target = "POST /?query=INSERT%20INTO%20x%20FORMAT%20RowBinary HTTP/1.1";
        assert_eq!(
            request(target, &vec![0; (64 << 20) + 1]).await.status,
            413,
            "an insert over the configured limit"
        );
        // A frame that claims more than is left is refused before it is decompressed.
        let answer = request("POST / HTTP/1.1", b"SELECT number FROM numbers(1000001)").await;
        assert_eq!(
            answer.header("x-clickhouse-exception-code"),
            Some("396"),
            "more rows than a result may have"
        );
        let answer = request(
            "POST /?max_execution_time=0.2 HTTP/1.1",
            b"SELECT sleepEachRow(0.1) FROM numbers(100) SETTINGS max_block_size = 1",
        )
        .await;
        assert_eq!(
            (answer.status, answer.header("x-clickhouse-exception-code")),
            (408, Some("159"))
        );
        let answer = request("POST / HTTP/1.1", b"SELECT groupArray(number) FROM numbers(100000000)").await;
        assert_eq!(
            (answer.status, answer.header("x-clickhouse-exception-code")),
            (503, Some("241")),
            "{}",
            answer.text()
        );
        assert_eq!(sql("default", "SELECT 'alive'").await, "alive\n");
    });
}

#[test]
fn inserts_and_queries_run_side_by_side() {
    run(async {
        let warehouse = fresh().await;
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..12_u128 {
            let warehouse = warehouse.clone();
            tasks.spawn(async move {
                for round in 0..10_u128 {
                    let first = (task * 10 + round) * 50;
                    let rows: Vec<_> = (first..first + 50)
                        .map(|n| (Receipt::new(n), position(task as u32, (round * 50 + n % 50) as u64, 0)))
                        .collect();
                    insert(&warehouse, &rows).await;
                }
            });
        }
        for _ in 0..8 {
            let warehouse = warehouse.clone();
            tasks.spawn(async move {
                let mut before = 0;
                for _ in 0..25 {
                    let totals = warehouse.totals().await.unwrap();
                    assert!(
                        totals.receipts >= before && totals.receipts % 50 == 0,
                        "blocks are seen whole, and stay"
                    );
                    before = totals.receipts;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let totals = warehouse.totals().await.unwrap();
        assert_eq!((totals.receipts, totals.occurrences), (6_000, 6_000));
    });
}

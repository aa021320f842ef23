//! The endpoint speaks ClickHouse's protocol, keeps its limits, and keeps requests apart.

use std::os::unix::fs::PermissionsExt;

use tokio::net::TcpStream;
use warehouse::{Target, Warehouse, WarehouseConfig, WarehouseError};

use crate::harness::{
    PASSWORD, Receipt, USER, config, engine, exchange, fresh, insert, official, position, request, run, socket, sql,
    tcp,
};

#[test]
fn ping_paths_and_methods() {
    run(async {
        let ping = request("GET /ping HTTP/1.1", b"").await;
        assert_eq!((ping.status, ping.text().as_str()), (200, "Ok.\n"));
        assert_eq!(request("GET /elsewhere HTTP/1.1", b"").await.status, 404);
        assert_eq!(request("PUT / HTTP/1.1", b"SELECT 1").await.status, 405);
        assert_eq!(request("POST / HTTP/1.1", b"").await.status, 400, "an empty query");
        assert_eq!(request("GET /?query=SELECT%201 HTTP/1.1", b"").await.text(), "1\n");
        assert_eq!(
            request("POST /?default_format=JSONEachRow HTTP/1.1", b"SELECT 1 AS a")
                .await
                .text(),
            "{\"a\":1}\n"
        );
        assert_eq!(
            request("POST /?default_format=CSV HTTP/1.1", b"SELECT 1, 2 FORMAT TSV")
                .await
                .text(),
            "1\t2\n"
        );
    });
}

#[test]
fn the_socket_is_only_its_owners() {
    run(async {
        fresh().await;
        let mode = std::fs::metadata(socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    });
}

#[test]
fn tcp_wants_user_and_password() {
    run(async {
        let address = tcp().await;
        for (user, password) in [(USER, "wrong"), ("wrong", PASSWORD), (USER, ""), ("default", "")] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("POST / HTTP/1.1\r\nX-ClickHouse-User: {user}\r\nX-ClickHouse-Key: {password}");
            let answer = exchange(&mut stream, &head, b"SELECT 1").await;
            assert_eq!(
                (answer.status, answer.header("x-clickhouse-exception-code")),
                (403, Some("516"))
            );
        }
        let config = WarehouseConfig {
            user: Some(USER.to_owned()),
            ..config()
        };
        let target = Target::Url(format!("http://{address}"));
        let wrong = WarehouseConfig {
            password: Some("wrong".into()),
            ..config.clone()
        };
        let error = Warehouse::connect(&target, &wrong).await.unwrap_err();
        assert!(matches!(error, WarehouseError::Refused { code: 516, .. }), "{error}");
        let right = WarehouseConfig {
            password: Some(PASSWORD.into()),
            ..config
        };
        let warehouse = Warehouse::connect(&target, &right).await.unwrap();
        warehouse.migrate().await.unwrap();
        // The same client over TCP, with LZ4 both ways.
        let rows: Vec<_> = (0..5_000)
            .map(|n| (Receipt::new(n), position(0, n as u64, 0)))
            .collect();
        insert(&warehouse, &rows).await;
        assert_eq!(warehouse.totals().await.unwrap().receipts, 5_000);
    });
}

#[test]
fn tcp_is_refused_beyond_loopback_and_without_a_password() {
    run(async {
        let open = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        assert!(engine().serve_tcp(open, USER, PASSWORD).is_err());
        let loopback = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert!(engine().serve_tcp(loopback, USER, "").is_err());
    });
}

#[test]
fn the_official_client_runs_unchanged_with_parameters_of_any_text() {
    run(async {
        let client = official("default").await;
        for text in [
            "plain",
            "it's \"quoted\" `text`",
            "tab\tnewline\nreturn\rzero\0back\\slash",
            "ünïcödé 雪 🦀 \u{feff}",
            "' OR 1 = 1; DROP DATABASE default; --",
            "{other:String} ? ??",
            "\\N",
            "",
        ] {
            let query = client.query("SELECT {text:String}").param("text", text);
            assert_eq!(query.fetch_one::<String>().await.unwrap(), text);
            let several = vec!["before".to_owned(), text.to_owned()];
            let query = client
                .query("SELECT {several:Array(String)}")
                .param("several", several.clone());
            assert_eq!(query.fetch_one::<Vec<String>>().await.unwrap(), several);
        }
        let numbers: Vec<u64> = client
            .query("SELECT number FROM numbers(300000)")
            .fetch_all()
            .await
            .unwrap();
        assert_eq!(numbers.len(), 300_000);
        assert!(numbers.iter().enumerate().all(|(at, number)| at as u64 == *number));
        let error = client
            .query("SELECT throwIf(number = 7) FROM numbers(10)")
            .fetch_all::<u8>()
            .await
            .unwrap_err();
        assert!(error.to_string().contains("Code: 395"), "{error}");
    });
}

#[test]
fn compressed_bodies_go_both_ways() {
    run(async {
        let answer = request(
            "POST / HTTP/1.1\r\nAccept-Encoding: gzip, lz4",
            b"SELECT number FROM numbers(1000)",
        )
        .await;
        assert_eq!((answer.status, answer.header("content-encoding")), (200, Some("lz4")));
        let mut text = String::new();
        let mut decoder = lz4_flex::frame::FrameDecoder::new(answer.body.as_slice());
        std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
        assert!(text.starts_with("0\n1\n") && text.ends_with("\n999\n"));

        // `compress=1` is ClickHouse's own framing: 16 bytes of checksum, then the method.
        let framed = request("POST /?compress=1 HTTP/1.1", b"SELECT number FROM numbers(1000)").await;
        assert_eq!(framed.body[16], 0x82);

        // The same frames may come back in as an insert's body, cut anywhere, and only whole.
        let database = fresh().await.database().to_owned();
        sql(
            &database,
            "CREATE TABLE numbers (n UInt64) ENGINE = MergeTree ORDER BY n",
        )
        .await;
        let target =
            format!("POST /?database={database}&decompress=1&query=INSERT%20INTO%20numbers%20FORMAT%20TSV HTTP/1.1");
        assert_eq!(request(&target, &framed.body).await.status, 200);
        assert_eq!(
            sql(&database, "SELECT count(), sum(n) FROM numbers").await,
            "1000\t499500\n"
        );
        let mut broken = framed.body.clone();
        *broken.last_mut().unwrap() ^= 1;
        for body in [&broken[..], &framed.body[..framed.body.len() - 1]] {
            let answer = request(&target, body).await;
            assert_eq!(
                (answer.status, answer.header("x-clickhouse-exception-code")),
                (400, Some("271"))
            );
        }
        assert_eq!(
            sql(&database, "SELECT count() FROM numbers").await,
            "1000\n",
            "nothing of a broken body is stored"
        );
    });
}

#[test]
fn settings_last_for_their_request_only() {
    run(async {
        let threads =
            "SELECT getSetting('max_threads'), getSetting('max_execution_time'), getSetting('max_block_size')";
        let resting = sql("default", threads).await;
        for _ in 0..20 {
            let set = request(
                "POST /?max_threads=7&max_execution_time=123&max_block_size=17 HTTP/1.1",
                threads.as_bytes(),
            );
            assert_eq!(set.await.text(), "7\t123\t17\n");
            assert_eq!(sql("default", threads).await, resting);
        }
        for refused in [
            "readonly=0",
            "max_server_memory_usage=0",
            "max_threads=1%2C%20final%20%3D%201",
            "allow_ddl=1",
        ] {
            let answer = request(&format!("POST /?{refused} HTTP/1.1"), b"SELECT 1").await;
            assert_eq!(
                (answer.status, answer.header("x-clickhouse-exception-code")),
                (403, Some("452")),
                "{refused}"
            );
        }
    });
}

#[test]
fn databases_are_separate_and_unknown_ones_are_refused() {
    run(async {
        let (one, two) = (fresh().await, fresh().await);
        for _ in 0..10 {
            for warehouse in [&one, &two] {
                assert_eq!(
                    sql(warehouse.database(), "SELECT currentDatabase()").await.trim(),
                    warehouse.database()
                );
            }
        }
        let answer = request("POST /?database=nowhere HTTP/1.1", b"SELECT 1").await;
        assert_eq!(
            (answer.status, answer.header("x-clickhouse-exception-code")),
            (404, Some("81"))
        );
        assert_eq!(request("POST /?database=a%60b HTTP/1.1", b"SELECT 1").await.status, 400);
    });
}

#[test]
fn what_follows_an_error_is_right() {
    run(async {
        // A SELECT that fails after it has put out rows: its partial output must not come before a
        // later answer.
        let failing = b"SELECT number, throwIf(number = 200000) FROM numbers(300000) SETTINGS max_block_size = 1000";
        for _ in 0..12 {
            let answer = request("POST / HTTP/1.1", failing).await;
            assert_eq!(
                (answer.status, answer.header("x-clickhouse-exception-code")),
                (500, Some("395"))
            );
            assert!(answer.text().starts_with("Code: 395"), "only the error is in the body");
            for _ in 0..4 {
                assert_eq!(sql("default", "SELECT 'right'").await, "right\n");
            }
        }
        for (statement, status, code) in [
            (&b"SELEC 1"[..], 400, "62"),
            (b"SELECT * FROM nowhere", 404, "60"),
            (b"SELECT nothing", 404, "47"),
            (b"SELECT 1; SELECT 2", 400, "62"),
        ] {
            let answer = request("POST / HTTP/1.1", statement).await;
            let found = (answer.status, answer.header("x-clickhouse-exception-code"));
            assert!(
                found == (status, Some(code)) || found == (400, Some(code)),
                "{:?} {found:?}",
                answer.text()
            );
        }
    });
}

#[test]
fn files_and_networks_are_out_of_reach() {
    run(async {
        fresh().await;
        for statement in [
            "SELECT * FROM file('/etc/hostname', 'LineAsString')",
            "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
            "SELECT * FROM s3('http://127.0.0.1:1/bucket/key', 'LineAsString')",
            "SELECT * FROM remote('127.0.0.1:1', 'system', 'one')",
            "SELECT * FROM executable('x', 'TSV', 'a String')",
            "INSERT INTO FUNCTION file('written.tsv') SELECT 1",
            "CREATE TABLE default.f (a String) ENGINE = File(TSV)",
            "CREATE TABLE default.u (a String) ENGINE = URL('http://127.0.0.1:1/', TSV)",
            "SELECT * FROM `/etc/hostname`",
            "SELECT 1 INTO OUTFILE '/tmp/out.tsv'",
            "CREATE USER someone",
            "SYSTEM SHUTDOWN",
        ] {
            let answer = request("POST / HTTP/1.1", statement.as_bytes()).await;
            assert!(answer.status >= 400, "{statement}: {}", answer.text());
            let code = answer.header("x-clickhouse-exception-code").unwrap().to_owned();
            assert!(["497", "1"].contains(&code.as_str()), "{statement}: {}", answer.text());
        }
    });
}

#[test]
fn a_missing_library_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("nowhere.so");
    let out = crate::harness::child("missing_library", &[("LIBRARY", library.to_str().unwrap())]);
    assert!(
        out.contains("make chdb") && out.contains("RECEIPTS_WAREHOUSE_LIBRARY"),
        "{out}"
    );
    std::fs::write(&library, "no library").unwrap();
    let out = crate::harness::child("missing_library", &[("LIBRARY", library.to_str().unwrap())]);
    // The loader's own words: glibc's, or musl's.
    assert!(
        out.contains("file too short") || out.contains("invalid ELF header") || out.contains("Exec format"),
        "{out}"
    );
}

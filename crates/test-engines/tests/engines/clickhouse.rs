use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use test_engines::ClickHouse;

const SYNCED: &str = "fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, \
    min_compressed_bytes_to_fsync_after_merge = 1";

/// A shard's tables, and one row that is written twice.
fn fill(servers: &ClickHouse, server: usize, database: &str, value: u64) {
    let run = |sql: String| servers.query(server, &sql).unwrap();
    run(format!("CREATE DATABASE {database}"));
    run(format!(
        "CREATE TABLE {database}.numbers (value UInt64) ENGINE = ReplacingMergeTree ORDER BY value SETTINGS {SYNCED}"
    ));
    run(format!("INSERT INTO {database}.numbers VALUES ({value})"));
    run(format!("INSERT INTO {database}.numbers VALUES ({value})"));
}

/// A table over the shards of a cluster, in the database `front`.
fn create_front(servers: &ClickHouse, server: usize, cluster: &str) {
    let run = |sql: String| servers.query(server, &sql).unwrap();
    run("CREATE DATABASE IF NOT EXISTS front".to_owned());
    run(format!(
        "CREATE TABLE front.{cluster} (value UInt64) ENGINE = Distributed('{cluster}', '', 'numbers')"
    ));
}

/// A whole response of a server, with its head.
fn response(url: &str, sql: &str, timeout: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap())?;
    stream.set_read_timeout(Some(timeout))?;
    write!(stream, "POST / HTTP/1.0\r\nContent-Length: {}\r\n\r\n{sql}", sql.len())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Process and data folder of a server.
fn process(servers: &ClickHouse, server: usize) -> [PathBuf; 2] {
    let data = servers.query(server, "SELECT path FROM system.disks").unwrap();
    let data = Path::new(data.trim()).to_owned();
    let status = std::fs::read_to_string(data.join("status")).unwrap();
    let pid = status.lines().find_map(|line| line.strip_prefix("PID: ")).unwrap();
    [Path::new("/proc").join(pid), data]
}

const TOTAL: &str = "SELECT count(), sum(value) FROM front.main FINAL";

#[test]
fn a_cluster_grows_under_queries_that_do_not_fail() {
    let mut servers = ClickHouse::start(3).unwrap();
    // The databases of the shards don't exist yet.
    servers.set_cluster("main", &[(0, "first")]).unwrap();
    for server in 0..3 {
        create_front(&servers, server, "main");
    }
    fill(&servers, 0, "first", 1);
    fill(&servers, 1, "second", 20);
    fill(&servers, 2, "third", 300);
    fill(&servers, 0, "fourth", 4000);
    let steps = [
        (vec![(0, "first")], "1\t1\n"),
        (vec![(0, "first"), (1, "second")], "2\t21\n"),
        (vec![(0, "first"), (1, "second"), (2, "third")], "3\t321\n"),
        // Two shards on one server.
        (
            vec![(0, "first"), (1, "second"), (2, "third"), (0, "fourth")],
            "4\t4321\n",
        ),
    ];

    let grown = AtomicBool::new(false);
    let url = servers.url(1);
    let answers = std::thread::scope(|scope| {
        let queries = scope.spawn(|| {
            let mut answers: Vec<String> = Vec::new();
            while !grown.load(Ordering::Relaxed) {
                // Long enough that each change of the cluster finds one running.
                let slow = format!("SELECT sleep(0.1), * FROM ({TOTAL})");
                let answer = response(&url, &slow, Duration::from_secs(60)).unwrap();
                let answer = answer.split("\r\n\r\n0\t").nth(1).unwrap_or(&answer).to_owned();
                if answers.last() != Some(&answer) {
                    answers.push(answer);
                }
            }
            answers
        });
        // Dropped by a failed assertion too: the queries end, and the scope with them.
        let growing = Growing(&grown);
        for (shards, total) in &steps {
            servers.set_cluster("main", shards).unwrap();
            for server in 0..3 {
                assert_eq!(servers.query(server, TOTAL).unwrap(), *total, "server {server}");
            }
            pause(Duration::from_millis(300));
        }
        drop(growing);
        queries.join().unwrap()
    });
    let totals: Vec<&str> = steps.iter().map(|(_, total)| *total).collect();
    assert_eq!(answers, totals);
}

#[test]
fn its_rows_outlive_a_kill_and_nothing_outlives_its_handle() {
    let mut servers = ClickHouse::start(2).unwrap();
    servers.set_cluster("main", &[(0, "first"), (1, "second")]).unwrap();
    fill(&servers, 0, "first", 1);
    fill(&servers, 1, "second", 20);
    create_front(&servers, 0, "main");
    assert_eq!(servers.query(0, TOTAL).unwrap(), "2\t21\n");

    servers.kill(1).unwrap();
    assert!(TcpStream::connect(servers.url(1).strip_prefix("http://").unwrap()).is_err());
    let error = servers.query(0, TOTAL).unwrap_err().to_string();
    assert!(error.contains("ALL_CONNECTION_TRIES_FAILED"), "{error}");
    // A killed server stays killed, and reads the cluster when it starts.
    servers.set_cluster("main", &[(1, "second")]).unwrap();
    assert!(servers.query(1, "SELECT 1").is_err());
    servers.restart(1).unwrap();
    create_front(&servers, 1, "main");
    for server in 0..2 {
        assert_eq!(servers.query(server, TOTAL).unwrap(), "1\t20\n", "server {server}");
    }

    servers.freeze(1).unwrap();
    assert!(response(&servers.url(1), "SELECT 1", Duration::from_secs(1)).is_err());
    servers.thaw(1).unwrap();
    assert_eq!(servers.query(1, "SELECT 1").unwrap(), "1\n");
    // A client that names an unknown database doesn't end a server.
    servers.set_cluster("other", &[(1, "unknown")]).unwrap();
    let error = servers
        .query(0, "SELECT * FROM cluster('other', '', 'numbers')")
        .unwrap_err();
    assert!(error.to_string().contains("UNKNOWN_DATABASE"), "{error}");
    assert_eq!(servers.query(1, "SELECT 1").unwrap(), "1\n");

    let left: Vec<PathBuf> = (0..2).flat_map(|server| process(&servers, server)).collect();
    assert_eq!(left.iter().filter(|path| path.exists()).count(), 4);
    drop(servers);
    assert_eq!(left.iter().find(|path| path.exists()), None);
}

/// Sets the flag when dropped.
struct Growing<'a>(&'a AtomicBool);

impl Drop for Growing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[allow(clippy::disallowed_methods)] // Watching a real process.
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

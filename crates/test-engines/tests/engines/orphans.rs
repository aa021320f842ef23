//! Engines end with the process that started them, however it ends, and so do their folders.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use test_engines::{ClickHouse, Postgres, Redis};

const MARK: &str = "TEST_ENGINES_ORPHANS";

/// Not a test by itself: what the test below runs, and kills.
#[test]
fn a_process_with_engines() {
    let Some(file) = std::env::var_os(MARK) else { return };
    // Started by threads that end, as shared engines are.
    let started = std::thread::spawn(|| {
        let clickhouse = ClickHouse::start(1).unwrap();
        (Redis::start().unwrap(), Postgres::start().unwrap(), clickhouse)
    });
    let (redis, postgres, clickhouse) = started.join().unwrap();
    assert_eq!(redis.cli(&["PING"]).unwrap(), "PONG\n");
    assert_eq!(postgres.psql("postgres", "SELECT 1").unwrap(), "1\n");
    let folder = redis.cli(&["CONFIG", "GET", "dir"]).unwrap();
    let tables = postgres.psql("postgres", "SHOW data_directory").unwrap();
    let data = clickhouse.query(0, "SELECT path FROM system.disks").unwrap();
    let status = std::fs::read_to_string(Path::new(data.trim()).join("status")).unwrap();
    let pids = [
        redis
            .cli(&["INFO", "server"])
            .unwrap()
            .lines()
            .find_map(|line| line.strip_prefix("process_id:").map(str::to_owned))
            .unwrap(),
        std::fs::read_to_string(Path::new(tables.trim()).join("postmaster.pid"))
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .to_owned(),
        status
            .lines()
            .find_map(|line| line.strip_prefix("PID: ").map(str::to_owned))
            .unwrap(),
    ];
    let said = format!(
        "{}\n{}\n{}\n{}\n{}\n{}",
        folder.lines().nth(1).unwrap(),
        tables.trim(),
        data.trim(),
        pids[0].trim(),
        pids[1],
        pids[2]
    );
    let whole = PathBuf::from(file);
    std::fs::write(whole.with_extension("part"), said).unwrap();
    std::fs::rename(whole.with_extension("part"), whole).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn nothing_is_left_of_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("said");
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orphans::a_process_with_engines"])
        .env(MARK, &file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let appeared = until(|| file.exists());
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(appeared);
    let said = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let left: Vec<PathBuf> = [
        lines[0].into(),
        lines[1].into(),
        lines[2].into(),
        Path::new("/proc").join(lines[3]),
        Path::new("/proc").join(lines[4]),
        Path::new("/proc").join(lines[5]),
    ]
    .into();
    until(|| left.iter().all(|path| !path.exists()));
    assert_eq!(left.iter().find(|path| path.exists()), None);
}

/// Whether `holds` became true before patience ended.
#[allow(clippy::disallowed_methods)] // Watching a real process.
fn until(holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

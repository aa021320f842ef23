use std::process::Command;

use test_engines::Redis;

#[test]
fn it_answers_is_killed_restarted_and_frozen() {
    let redis = Redis::start().unwrap();
    assert_eq!(redis.cli(&["INCRBY", "n", "2"]).unwrap(), "2\n");
    redis.freeze().unwrap();
    let port = redis.url().rsplit(':').next().unwrap().to_owned();
    let waiting = Command::new("timeout")
        .args(["1", "redis-cli", "-p", &port, "PING"])
        .output()
        .unwrap();
    assert_eq!(waiting.stdout, b"", "its port is open, and nothing answers");
    redis.thaw().unwrap();
    assert_eq!(redis.cli(&["GET", "n"]).unwrap(), "2\n");
    redis.freeze().unwrap();
    redis.kill().unwrap();
    assert!(redis.cli(&["PING"]).is_err());
    redis.restart().unwrap();
    assert_eq!(redis.cli(&["GET", "n"]).unwrap(), "\n");
}

#[test]
fn a_secure_one_takes_its_login_and_no_other() {
    let redis = Redis::start_secure().unwrap();
    assert_eq!(redis.cli(&["PING"]).unwrap(), "PONG\n");
    let refused = redis.cli(&["--user", "default", "PING"]);
    assert!(!refused.is_ok_and(|answer| answer.contains("PONG")));
    assert!(redis.url().starts_with("rediss://receipts:"));
}

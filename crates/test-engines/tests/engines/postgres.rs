use std::process::Command;

use test_engines::Postgres;

#[test]
fn its_rows_outlive_a_kill_and_a_freeze() {
    let postgres = Postgres::start().unwrap();
    postgres.create_database("mine").unwrap();
    postgres
        .psql("mine", "CREATE TABLE t (n INT); INSERT INTO t VALUES (7)")
        .unwrap();
    postgres.freeze().unwrap();
    let waiting = Command::new("timeout")
        .args(["1", "psql", &postgres.url("mine"), "-tAc", "SELECT 1"])
        .output()
        .unwrap();
    assert_eq!(waiting.stdout, b"", "it answers nobody");
    postgres.thaw().unwrap();
    postgres.kill().unwrap();
    assert!(postgres.psql("mine", "SELECT n FROM t").is_err());
    postgres.restart().unwrap();
    assert_eq!(postgres.psql("mine", "SELECT n FROM t").unwrap(), "7\n");
}

#[test]
fn a_secure_one_takes_its_login_over_tls_and_no_other() {
    let postgres = Postgres::start_secure().unwrap();
    postgres.create_database("mine").unwrap();
    let psql = |url: &str| {
        let psql = Command::new("psql").args([url, "-tAc", "SELECT 1"]).output();
        psql.unwrap().status.success()
    };
    let url = postgres.url("mine");
    assert!(psql(&url));
    let password = &postgres.security().unwrap().login.password;
    assert!(!psql(&url.replace(password, "guessed")));
    assert!(!psql(&url.replace("sslmode=verify-full", "sslmode=disable")));
}

//! `receipts migrate` on a real PostgreSQL, and on servers that aren't there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::command;
use test_engines::Postgres;

fn migrate(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut run = command();
    run.arg("migrate").current_dir(folder.path());
    let output = run.envs(variables.iter().copied()).output().unwrap();
    assert!(!folder.path().join("data").exists(), "it made a data directory");
    let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code(), told)
}

#[test]
fn tables_are_made_once_and_found_again() {
    let postgres = Postgres::start().unwrap();
    postgres.create_database("receipts").unwrap();
    let url = postgres.url("receipts");
    for _ in 0..2 {
        let (code, told) = migrate(&[("RECEIPTS_ACCOUNTS_URL", &url)]);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("postgresql"), "{told}");
    }
}

#[test]
fn without_a_server_there_is_nothing_to_do() {
    let (code, told) = migrate(&[]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("accounts.url"), "{told}");
}

#[test]
fn servers_that_are_away_are_told() {
    let [port] = test_engines::free_ports().unwrap();
    let postgres = format!("postgres://receipts:secret@127.0.0.1:{port}/receipts");
    let clickhouse = format!("http://127.0.0.1:{port}");
    for (name, url) in [
        ("RECEIPTS_ACCOUNTS_URL", &postgres),
        ("RECEIPTS_WAREHOUSE_URL", &clickhouse),
    ] {
        let (code, told) = migrate(&[(name, url)]);
        assert_eq!(code, Some(3), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
}

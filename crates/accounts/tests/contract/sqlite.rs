//! SQLite: every case of the suite, and what is the file's own.

use std::os::unix::fs::PermissionsExt;

use accounts::{Accounts, AccountsConfig, AccountsError};
use sqlx::Row;

use crate::{Fixture, issue, suite};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds() {
    for case in suite::cases() {
        let data = tempfile::tempdir().unwrap();
        println!("sqlite: {case}");
        suite::run(case, Fixture::new(data.path(), None)).await;
    }
}

#[tokio::test]
async fn the_files_are_their_owners_alone() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("accounts.sqlite");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let fixture = Fixture::new(data.path(), None);
    let accounts = fixture.open().await;
    issue(&accounts, "example.com").await;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(data.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o777,
            0o600,
            "{:?}",
            entry.file_name()
        );
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["accounts.sqlite", "accounts.sqlite-shm", "accounts.sqlite-wal"]);
    let mode = sqlx::query("PRAGMA journal_mode")
        .fetch_one(&fixture.raw().await)
        .await
        .unwrap();
    assert_eq!(mode.get::<String, _>(0), "wal");
}

#[tokio::test]
async fn a_data_directory_may_have_any_name() {
    let outer = tempfile::tempdir().unwrap();
    let data = outer.path().join("a b?mode=ro#c%20d \u{fc}&e");
    let accounts = Accounts::open(&AccountsConfig::default(), &data).await.unwrap();
    assert_eq!(accounts.engine(), "sqlite");
    accounts.close().await;
    assert!(data.join("accounts.sqlite").is_file());
}

#[tokio::test]
async fn what_cant_be_opened_is_named() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("accounts.sqlite");
    std::fs::write(
        &file,
        "this is no database, but it is long enough to be read as one".repeat(100),
    )
    .unwrap();
    let error = Accounts::open(&AccountsConfig::default(), data.path())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, AccountsError::Damaged(what) if what.contains("accounts.sqlite") && what.contains("not a database")),
        "{error}"
    );
    let error = Accounts::open(&AccountsConfig::default(), &file).await.unwrap_err();
    assert!(matches!(error, AccountsError::Open(_)), "{error}");
}

#[tokio::test]
async fn damage_behind_the_header_is_named() {
    let data = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(data.path(), None);
    fixture.open().await.close().await;
    let file = data.path().join("accounts.sqlite");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100..].fill(0xA5);
    std::fs::write(&file, bytes).unwrap();
    let error = fixture.try_open().await.unwrap_err();
    assert!(matches!(error, AccountsError::Damaged(_)), "{error}");
    assert!(error.to_string().contains("restore the file"), "{error}");
}

#[tokio::test]
async fn a_reader_doesnt_keep_a_writer_waiting() {
    let data = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(data.path(), None);
    let accounts = fixture.open().await;
    issue(&accounts, "example.com").await;
    let raw = fixture.raw().await;
    let mut reading = raw.begin().await.unwrap();
    sqlx::query("SELECT COUNT(*) FROM api_keys")
        .fetch_one(&mut *reading)
        .await
        .unwrap();
    issue(&accounts, "example.org").await;
    let seen = sqlx::query("SELECT COUNT(*) FROM api_keys")
        .fetch_one(&mut *reading)
        .await
        .unwrap();
    assert_eq!(seen.get::<i64, _>(0), 1, "the reader keeps what it saw");
}

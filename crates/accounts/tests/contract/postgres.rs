//! PostgreSQL: the same suite on a private server.

use accounts::{Accounts, AccountsConfig, AccountsError};
use test_engines::Postgres;

use crate::{Place, issue, suite};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds() {
    let postgres = Postgres::start().unwrap();
    for (number, case) in suite::CASES.iter().enumerate() {
        println!("postgres: {case}");
        let database = format!("case_{number}");
        postgres.create_database(&database).unwrap();
        let data = tempfile::tempdir().unwrap();
        suite::run(case, Place::new(data.path(), Some(postgres.url(&database)))).await;
        assert!(
            std::fs::read_dir(data.path()).unwrap().next().is_none(),
            "nothing is written beside the database"
        );
    }
}

/// As `psql` sees it, which shares no code with us: every column of every row, as text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_outside_only_a_hash_is_seen() {
    let postgres = Postgres::start().unwrap();
    postgres.create_database("outside").unwrap();
    let data = tempfile::tempdir().unwrap();
    let place = Place::new(data.path(), Some(postgres.url("outside")));
    let accounts = place.open().await;
    let issued = issue(&accounts, "example.com").await;
    accounts.authenticate(&issued.api_key).await.unwrap();
    let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1";
    let tables = postgres.psql("outside", tables).unwrap();
    let tables: Vec<&str> = tables.lines().collect();
    assert_eq!(tables, ["accounts", "accounts_schema", "api_keys", "domains"]);
    let mut everything = String::new();
    for table in tables {
        everything += &postgres.psql("outside", &format!("SELECT * FROM {table}")).unwrap();
    }
    let secret = issued.api_key.split('_').nth(2).unwrap();
    assert!(secret.len() > 20 && !everything.contains(secret), "{everything}");
    let hash = "SELECT COUNT(*) FROM api_keys WHERE secret_hash ~ '^[0-9a-f]{64}$'";
    assert_eq!(postgres.psql("outside", hash).unwrap(), "1\n");
}

/// Each replica has its own pool, as in processes of their own; the first to get the lock makes the tables, the others find them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_start_together_on_an_empty_database() {
    let postgres = Postgres::start().unwrap();
    for turn in 0..5 {
        let database = format!("together_{turn}");
        postgres.create_database(&database).unwrap();
        let data = tempfile::tempdir().unwrap();
        let place = Place::new(data.path(), Some(postgres.url(&database)));
        let opening: Vec<_> = (0..8)
            .map(|_| place.clone())
            .map(|place| tokio::spawn(async move { place.try_open().await }))
            .collect();
        let mut replicas = Vec::new();
        for replica in opening {
            replicas.push(replica.await.unwrap().unwrap());
        }
        let issued = issue(&replicas[0], "example.com").await;
        for replica in &replicas {
            replica.authenticate(&issued.api_key).await.unwrap();
            replica.close().await;
        }
        let versions = "SELECT string_agg(version::text, ',') FROM accounts_schema";
        assert_eq!(postgres.psql(&database, versions).unwrap(), "1\n");
    }
}

#[tokio::test]
async fn a_server_that_isnt_there_is_an_error() {
    let nowhere = tempfile::tempdir().unwrap();
    let socket = nowhere.path().display().to_string().replace('/', "%2F");
    let url = format!("postgres://someone:secret@localhost/db?host={socket}");
    let config = AccountsConfig {
        url: Some(url),
        wait_ms_max: 200,
        ..AccountsConfig::default()
    };
    let error = Accounts::open(&config, nowhere.path()).await.unwrap_err();
    assert!(matches!(error, AccountsError::Open(_)), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

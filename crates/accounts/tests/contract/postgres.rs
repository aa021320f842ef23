//! PostgreSQL: the same suite on a private server.

use std::time::Duration;

use accounts::{
    Accounts, AccountsConfig, AccountsError, ClientKey, Fingerprint, KeyStatus, NewClientKey, RegistryCache,
    RegistryConfig,
};
use sqlx::Row;
use test_engines::{Certificates, Postgres};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Fixture, issue, suite};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds() {
    let postgres = Postgres::start().unwrap();
    for (number, case) in suite::cases().into_iter().enumerate() {
        println!("postgres: {case}");
        let database = format!("case_{number}");
        postgres.create_database(&database).unwrap();
        let data = tempfile::tempdir().unwrap();
        suite::run(case, Fixture::new(data.path(), Some(postgres.url(&database)))).await;
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
    let fixture = Fixture::new(data.path(), Some(postgres.url("outside")));
    let accounts = fixture.open().await;
    let issued = issue(&accounts, "example.com").await;
    accounts.authenticate(&issued.api_key).await.unwrap();
    let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1";
    let tables = postgres.psql("outside", tables).unwrap();
    let tables: Vec<&str> = tables.lines().collect();
    for table in ["accounts", "api_keys", "domains", "challenges"] {
        assert!(tables.contains(&table), "{tables:?}");
    }
    let mut everything = String::new();
    for table in tables {
        everything += &postgres.psql("outside", &format!("SELECT * FROM {table}")).unwrap();
    }
    let secret = issued.api_key.split('_').nth(2).unwrap();
    assert!(secret.len() > 20 && !everything.contains(secret), "{everything}");
    let hash = "SELECT COUNT(*) FROM api_keys WHERE secret_hash ~ '^[0-9a-f]{64}$'";
    assert_eq!(postgres.psql("outside", hash).unwrap(), "1\n");
}

/// Each replica has its own pool, as in processes of their own; the first to get the lock makes the
/// tables, the others find them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_start_together_on_an_empty_database() {
    let postgres = Postgres::start().unwrap();
    for turn in 0..5 {
        let database = format!("together_{turn}");
        postgres.create_database(&database).unwrap();
        let data = tempfile::tempdir().unwrap();
        let fixture = Fixture::new(data.path(), Some(postgres.url(&database)));
        let opening: Vec<_> = (0..8)
            .map(|_| fixture.clone())
            .map(|fixture| tokio::spawn(async move { fixture.try_open().await }))
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
        let once = "SELECT COUNT(*) = MAX(version) FROM _sqlx_migrations";
        assert_eq!(postgres.psql(&database, once).unwrap(), "t\n");
    }
}

#[tokio::test]
async fn a_server_that_isnt_there_is_reported_by_every_question() {
    let nowhere = tempfile::tempdir().unwrap();
    let socket = nowhere.path().display().to_string().replace('/', "%2F");
    let url = format!("postgres://someone:secret@localhost/db?host={socket}");
    let config = AccountsConfig {
        url: Some(url.into()),
        ..AccountsConfig::default()
    };
    let accounts = Accounts::open(&config, nowhere.path()).await.unwrap();
    assert_eq!(accounts.engine(), "postgres");
    // The second one comes within the pause, and gets the same error.
    for _ in 0..2 {
        let error = accounts.ping().await.unwrap_err();
        assert!(
            matches!(&error, AccountsError::Open(why) if why.contains("No such file")),
            "{error}"
        );
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let error = accounts.authenticate("rcpt_0123456789abcdef_x").await.unwrap_err();
    assert!(!matches!(error, accounts::AuthError::Expired), "{error}");
}

#[tokio::test]
async fn a_url_that_cant_work_is_reported_at_once() {
    let data = tempfile::tempdir().unwrap();
    for url in [
        "postgres://u:secret@h:99999/db",
        "postgres://u:secret@h/db?sslmode=maybe",
    ] {
        let config = AccountsConfig {
            url: Some(url.into()),
            ..AccountsConfig::default()
        };
        let error = Accounts::open(&config, data.path()).await.unwrap_err();
        assert!(matches!(error, AccountsError::Open(_)), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_later_is_found() {
    let postgres = Postgres::start().unwrap();
    postgres.kill().unwrap();
    let data = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(data.path(), Some(postgres.url("postgres")));
    let mut replicas = Vec::new();
    for _ in 0..4 {
        let accounts = fixture.open().await;
        assert!(matches!(accounts.ping().await, Err(AccountsError::Open(_))));
        replicas.push(accounts);
    }
    postgres.restart().unwrap();
    // Within the pause between two tries the answer is still the old one.
    let found = replicas.into_iter().map(|accounts| async move {
        for _ in 0..600 {
            if accounts.ping().await.is_ok() {
                return accounts;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?}", accounts.ping().await);
    });
    let mut tasks = tokio::task::JoinSet::new();
    found.for_each(|accounts| drop(tasks.spawn(accounts)));
    let replicas = tasks.join_all().await;
    let issued = issue(&replicas[0], "example.com").await;
    assert!(replicas[3].authenticate(&issued.api_key).await.is_ok());
}

/// Waits for a state that must come, however long the machine takes.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} never came");
}

/// While the store is unavailable, a cache answers from what it has cached, up to its age.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_keys_and_entries_outlive_the_store_for_a_while() {
    let postgres = Postgres::start().unwrap();
    postgres.create_database("registry").unwrap();
    let data = tempfile::tempdir().unwrap();
    // An outage is noticed after this time: a pool without a server tries again until then.
    let config = AccountsConfig {
        url: Some(postgres.url("registry").into()),
        wait_ms_max: 10_000,
        ..AccountsConfig::default()
    };
    let accounts = Accounts::open(&config, data.path()).await.unwrap();
    let key = |number| ClientKey {
        client_id: Uuid::from_u128(1),
        fingerprint: Fingerprint([number; 32]),
    };
    let new = NewClientKey {
        key: key(1),
        pem: String::new(),
        name: String::new(),
    };
    accounts.register_client_key(&new).await.unwrap();
    let shutdown = CancellationToken::new();
    let start = |stale_ms_max| {
        let config = RegistryConfig {
            refresh_ms: 20,
            stale_ms_max,
            ..RegistryConfig::default()
        };
        RegistryCache::start(accounts.clone(), config, shutdown.clone())
    };
    let (patient, strict) = (start(3_600_000), start(500));
    let (asked, id) = ([key(1), key(2)], Uuid::from_u128(7));
    for cache in [&patient, &strict] {
        let statuses = cache.client_keys(&asked).await.unwrap();
        assert_eq!(statuses, [KeyStatus::Registered, KeyStatus::Unregistered]);
        assert_eq!(cache.entries(&[id]).await.unwrap(), [false]);
        assert_eq!(cache.readiness(), Ok(()));
    }

    postgres.kill().unwrap();
    for cache in [&patient, &strict] {
        eventually("the outage", async || cache.readiness().is_err()).await;
        let error = cache.client_keys(&[key(3)]).await.unwrap_err();
        assert!(!error.reason.is_empty(), "it isn't cached: {error}");
        assert!(cache.entries(&[Uuid::from_u128(8)]).await.is_err());
    }
    eventually("the age", async || strict.client_keys(&asked).await.is_err()).await;
    assert!(strict.entries(&[id]).await.is_err());
    let statuses = patient.client_keys(&asked).await.unwrap();
    assert_eq!(statuses, [KeyStatus::Registered, KeyStatus::Unregistered]);
    assert_eq!(patient.entries(&[id]).await.unwrap(), [false]);
    let reason = patient.readiness().unwrap_err();
    assert!(reason.contains("up to 3600 s"), "{reason}");
    // One that starts now knows nothing.
    let late = start(3_600_000);
    assert!(late.client_keys(&asked).await.is_err());
    assert!(late.readiness().is_err());

    postgres.restart().unwrap();
    for cache in [&patient, &strict, &late] {
        eventually("the store", async || cache.readiness().is_ok()).await;
        let statuses = cache.client_keys(&[key(3), key(1)]).await.unwrap();
        assert_eq!(statuses, [KeyStatus::Unregistered, KeyStatus::Registered]);
    }
    // And changes are followed again.
    accounts.revoke_client_key(&key(1), 5).await.unwrap();
    for cache in [&patient, &strict, &late] {
        let revoked = async || cache.client_keys(&[key(1)]).await.unwrap() == [KeyStatus::RevokedFrom(5)];
        eventually("the change", revoked).await;
    }
    shutdown.cancel();
}

/// `sslmode` as libpq has it, with a certificate of a CA that only `sslrootcert` names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_verified() {
    let postgres = Postgres::start_secure().unwrap();
    let other = tempfile::tempdir().unwrap();
    let other = Certificates::make(other.path()).unwrap();
    postgres.create_database("encrypted").unwrap();
    let data = tempfile::tempdir().unwrap();
    let url = postgres.url("encrypted");
    let fixture = Fixture::new(data.path(), Some(url.clone()));
    fixture.open().await.ping().await.unwrap();
    let encrypted = sqlx::query("SELECT CAST(ssl AS TEXT) FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
    let row = encrypted.fetch_one(&fixture.raw().await).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "true");
    // Another CA than the certificate's; none of the public ones either.
    let (before, _) = url.split_once("sslrootcert=").unwrap();
    let root = other.ca.display().to_string().replace('/', "%2F");
    for url in [
        format!("{before}sslrootcert={root}"),
        before.trim_end_matches('&').to_owned(),
    ] {
        let fixture = Fixture::new(data.path(), Some(url));
        let error = fixture.open().await.ping().await.unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

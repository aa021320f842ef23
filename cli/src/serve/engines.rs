//! The engines, each opened by itself: a process opens only those that its services use.

use std::fmt::Display;
use std::sync::Arc;

use accounts::Accounts;
use receipt_log::Log;
use service::health::Health;
use service::rate_limit::{RateLimiter, limiter};
use service::reload;
use warehouse::{EmbeddedEngine, Target, Warehouse};

use crate::failure::CommandFailure;
use crate::settings::Settings;

/// Opens the log of receipts. Blocks on the brokers or the disk.
///
/// # Errors
/// The log can't be opened.
pub fn receipts(settings: &Settings) -> Result<Log, CommandFailure> {
    let opened = Log::open(&settings.kafka, &settings.log, &settings.data.log());
    opened.map_err(|error| not_open("the log receipts", &error))
}

/// Opens the log of verdicts. Blocks on the brokers or the disk.
///
/// # Errors
/// The log can't be opened.
pub fn verdicts(settings: &Settings) -> Result<Log, CommandFailure> {
    let opened = Log::open_verdicts(&settings.kafka, &settings.verdicts.0, &settings.data.verdicts());
    opened.map_err(|error| not_open("the log verdicts", &error))
}

/// Opens the account store with its migrations.
///
/// # Errors
/// The store can't be opened.
pub async fn accounts(settings: &Settings) -> Result<Accounts, CommandFailure> {
    let opened = Accounts::open(&settings.accounts, settings.data.root()).await;
    opened.map_err(|error| not_open("the account store", &error))
}

/// Connects to the ClickHouse that is configured, or starts the embedded engine, and brings the
/// tables to this version.
///
/// # Errors
/// The warehouse can't be opened.
pub async fn warehouse(settings: &Settings) -> Result<(Warehouse, Option<EmbeddedEngine>), CommandFailure> {
    let config = &settings.warehouse;
    let Some(url) = &config.url else {
        let engine = EmbeddedEngine::start(config, &settings.data.warehouse(), &settings.data.socket()).await;
        let engine = engine.map_err(|error| not_open("the warehouse", &error))?;
        return Ok((engine.warehouse(), Some(engine)));
    };
    let warehouse = Warehouse::connect(&Target::Url(url.clone()), config).await;
    let warehouse = warehouse.map_err(|error| not_open("the warehouse", &error))?;
    let migrated = warehouse.migrate().await;
    migrated.map_err(|error| not_open("the warehouse", &error))?;
    reload_tls_of(&warehouse, settings);
    Ok((warehouse, None))
}

/// A client of the warehouse that a writer migrates, whether or not it is running.
///
/// # Errors
/// A certificate file can't be used.
pub fn warehouse_client(settings: &Settings) -> Result<Warehouse, CommandFailure> {
    let target = Target::of(&settings.warehouse, settings.data.root());
    let warehouse = Warehouse::new(&target, &settings.warehouse).map_err(CommandFailure::input)?;
    reload_tls_of(&warehouse, settings);
    Ok(warehouse)
}

/// Has SIGHUP read the files of certificates and keys again.
fn reload_tls_of(warehouse: &Warehouse, settings: &Settings) {
    if !settings.warehouse.is_https() {
        return;
    }
    let warehouse = warehouse.clone();
    reload::register(
        "warehouse.tls_ca_file, tls_certificate_file and tls_key_file",
        move || warehouse.reload_tls().map_err(|error| error.to_string()),
    );
}

/// The counts of the rate limits.
///
/// # Errors
/// The configuration of Redis can't be used.
pub async fn rate_limiter(settings: &Settings, health: &Health) -> Result<Arc<dyn RateLimiter>, CommandFailure> {
    let limiter = limiter(&settings.redis, settings.quotas.accounts_max, health).await;
    limiter.map_err(CommandFailure::input)
}

fn not_open(engine: &str, error: &impl Display) -> CommandFailure {
    CommandFailure::Unavailable(format!("opening {engine}: {error}"))
}

//! The dependencies of each service, made from the settings and open engines: for `receipts serve`
//! and `receipts up`.

use std::sync::Arc;

use accounts::{Accounts, RegistryCache, ShardMapCache};
use gateway::{AcknowledgementKeys, Routes};
use outbound::OutboundClient;
use publisher_api::{Authority, IdentityProvider};
use receipt::Judge;
use receipt_log::{Log, LogOpenError};
use service::cpu::CpuPool;
use service::health::Health;
use service::metrics::start_at_zero;
use service::rate_limit::RateLimiter;
use tokio_util::sync::CancellationToken;
use verifier::Policies;
use warehouse::Warehouse;

use crate::failure::CommandFailure;
use crate::settings::Settings;

/// Jobs that may wait for the gateway's CPU threads: each holds a body that admission has counted
/// already.
const GATEWAY_QUEUE_MAX: usize = 1_024;
/// Home pages that wait to be read for a verification.
const PUBLISHER_QUEUE_MAX: usize = 64;
/// The verifier judges one block at a time.
const VERIFIER_QUEUE_MAX: usize = 4;
/// The writer decodes one batch of each shard at a time.
const WRITER_QUEUE_MAX: usize = 64;

/// Areas of the metrics that both APIs count.
const API_AREAS: &[&str] = &["accounts", "limiter", "rate", "warehouse"];

/// The cache of registered keys and operators, refreshed until `stop`.
pub fn registry(settings: &Settings, accounts: &Accounts, stop: &CancellationToken) -> RegistryCache {
    start_at_zero(&["registry"]);
    RegistryCache::start(accounts.clone(), settings.policy.registry(), stop.clone())
}

/// The gateway's, without entries and without a registry.
///
/// # Errors
/// Threads can't be started, the log gives no producer, or a key file can't be used.
pub fn gateway(
    settings: &Settings,
    receipts: &Log,
    routes: Routes,
    health: &Health,
) -> Result<gateway::Deps, CommandFailure> {
    start_at_zero(&["gateway"]);
    let keys = match routes {
        Routes::All => AcknowledgementKeys::open(&settings.gateway.acknowledgement_keys, settings.data.root()),
        // Its 200 has no acknowledgement: the sender knows the verdict.
        Routes::Webhook => AcknowledgementKeys::generate(),
    };
    Ok(gateway::Deps {
        limits: settings.limits.clone(),
        log: blocking(|| receipts.writer())?,
        cpu: pool("gateway", 0, GATEWAY_QUEUE_MAX)?,
        health: health.clone(),
        routes,
        entries: None,
        registry: None,
        acknowledgement_keys: Arc::new(keys.map_err(CommandFailure::input)?),
    })
}

/// The verifier's. Call this last: a member of the group that doesn't poll keeps its partitions
/// from the others.
///
/// # Errors
/// Threads can't be started, or the logs give no processor.
pub fn verifier(
    settings: &Settings,
    (receipts, verdicts): (&Log, &Log),
    accounts: &Accounts,
    registry: RegistryCache,
    stop: &CancellationToken,
    health: &Health,
) -> Result<verifier::Deps, CommandFailure> {
    start_at_zero(&["verifier"]);
    let policy = settings.policy.policy();
    let shard_map = receipts
        .is_shared()
        .then(|| ShardMapCache::start(accounts.clone(), stop.clone()));
    Ok(verifier::Deps {
        processor: blocking(|| receipts.processor(verifier::GROUP, verdicts))?,
        receipts: receipts.inspector(),
        verdicts: verdicts.inspector(),
        policies: Some(Policies { policy, registry }),
        shard_map,
        cpu: CpuPool::parallel("verifier", 0, VERIFIER_QUEUE_MAX).map_err(CommandFailure::unavailable)?,
        judge: Arc::new(Judge::new(
            settings.limits.clone(),
            settings.verifier.key_cache_entries_max,
        )),
        health: health.clone(),
    })
}

/// The writer's. Call this last, as for the verifier.
///
/// # Errors
/// Threads can't be started, or the log gives no consumer.
pub fn writer(
    settings: &Settings,
    verdicts: &Log,
    warehouse: &Warehouse,
    health: &Health,
) -> Result<writer::Deps, CommandFailure> {
    start_at_zero(&["writer", "warehouse"]);
    Ok(writer::Deps {
        consumer: blocking(|| verdicts.consumer(writer::GROUP))?,
        evidence: blocking(|| writer::evidence::consumer(verdicts, &settings.writer))?,
        warehouse: warehouse.clone(),
        deletes_after_ms: verdicts.deletes_after_ms(),
        cpu: pool("writer", 0, WRITER_QUEUE_MAX)?,
        health: health.clone(),
    })
}

/// The analytics API's.
pub fn analytics(
    settings: &Settings,
    warehouse: &Warehouse,
    accounts: &Accounts,
    limiter: Arc<dyn RateLimiter>,
    health: &Health,
) -> analytics_api::Deps {
    start_at_zero(API_AREAS);
    start_at_zero(&["analytics", "audit", "live", "usage"]);
    analytics_api::Deps {
        warehouse: warehouse.clone(),
        accounts: accounts.clone(),
        progress: Arc::new(warehouse.clone()),
        limiter,
        quotas: settings.quotas.clone(),
        health: health.clone(),
    }
}

/// The publisher API's.
///
/// # Errors
/// Threads can't be started, or sections don't fit together.
pub fn publisher(
    settings: &Settings,
    warehouse: &Warehouse,
    accounts: &Accounts,
    limiter: Arc<dyn RateLimiter>,
    health: &Health,
) -> Result<publisher_api::Deps, CommandFailure> {
    start_at_zero(API_AREAS);
    start_at_zero(&["publisher", "mails", "outbound"]);
    let outbound = OutboundClient::new(&settings.outbound).map_err(CommandFailure::input)?;
    let authority = Authority::new(&settings.auth, settings.data.root(), &outbound);
    let provider = IdentityProvider::new(&settings.auth, &outbound);
    Ok(publisher_api::Deps {
        authority: Arc::new(authority.map_err(CommandFailure::input)?),
        provider: provider.map_err(CommandFailure::input)?.map(Arc::new),
        outbound,
        smtp: settings.smtp.clone(),
        cpu: pool("publisher", 1, PUBLISHER_QUEUE_MAX)?,
        accounts: accounts.clone(),
        warehouse: warehouse.clone(),
        limiter,
        quotas: settings.quotas.clone(),
        health: health.clone(),
    })
}

/// Pools of the one kind of bridge, one for each service: a block of the verifier's must not keep a
/// request waiting.
fn pool(name: &'static str, threads: usize, queue_max: usize) -> Result<CpuPool, CommandFailure> {
    CpuPool::new(name, threads, queue_max).map_err(CommandFailure::unavailable)
}

/// Asks the log for what waits for the disk or the brokers.
fn blocking<T>(ask: impl FnOnce() -> Result<T, LogOpenError>) -> Result<T, CommandFailure> {
    tokio::task::block_in_place(ask).map_err(CommandFailure::unavailable)
}

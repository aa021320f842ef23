//! State: what handlers and background work share.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use usage::Usage;
use warehouse::{Warehouse, WarehouseError};

use crate::Deps;
use crate::audit_findings::AuditFindings;
use crate::cached_senders::CachedSenders;
use crate::completeness::Completeness;
use crate::config::AnalyticsConfig;
use crate::gate::Gate;
use crate::snapshot::Snapshot;
use crate::streams::StreamLimits;
use crate::waiting::WaitingRequests;
use crate::watermark::Watermark;
use web::Failure;

/// Shared by all requests.
pub(crate) struct AnalyticsState {
    pub(crate) config: AnalyticsConfig,
    pub(crate) deps: Deps,
    pub(crate) audit: AuditFindings,
    pub(crate) watermark: Watermark,
    pub(crate) streams: StreamLimits,
    pub(crate) waiting: WaitingRequests,
    pub(crate) cached_senders: Arc<CachedSenders>,
    usage: Usage,
    gate: Gate,
}

impl AnalyticsState {
    /// Waiting requests end with `closing`.
    pub(crate) fn new(config: AnalyticsConfig, deps: Deps, closing: CancellationToken) -> Self {
        let age_max = Duration::from_millis(config.watermark_age_ms_max);
        let wait_max = Duration::from_millis(config.query_wait_ms_max);
        Self {
            watermark: Watermark::new(Arc::clone(&deps.progress), age_max),
            usage: Usage::new(deps.warehouse.clone()),
            streams: StreamLimits::new(config.streams_max),
            waiting: WaitingRequests::new(config.waiting_receipts_max, closing),
            cached_senders: Arc::default(),
            gate: Gate::new(config.concurrent_queries_max, config.waiting_queries_max, wait_max),
            config,
            deps,
            audit: AuditFindings::default(),
        }
    }

    pub(crate) fn warehouse(&self) -> &Warehouse {
        &self.deps.warehouse
    }

    /// The present snapshot, of progress that was read now or a moment ago.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, Failure> {
        Ok(Snapshot::new(self.watermark.read().await?, self.usage.clone()))
    }

    /// Takes a snapshot, and then runs an account's `query`, in its turn and within its time. In
    /// this order the answer contains at least what the watermark promises.
    pub(crate) async fn ask<T>(
        &self,
        account_id: &str,
        query: impl AsyncFnOnce(Snapshot) -> Result<T, WarehouseError>,
    ) -> Result<(Completeness, T), Failure> {
        self.ask_within(&[account_id], query).await
    }

    /// As [`Self::ask`], for an account or a part of it.
    pub(crate) async fn ask_within<T>(
        &self,
        path: &[&str],
        query: impl AsyncFnOnce(Snapshot) -> Result<T, WarehouseError>,
    ) -> Result<(Completeness, T), Failure> {
        self.gate
            .run(path, async {
                let snapshot = self.snapshot().await?;
                let complete_ms = snapshot.reading.complete_ms;
                let answer = query(snapshot).await?;
                Ok((Completeness::new(complete_ms, self.audit.has_findings()), answer))
            })
            .await
    }
}

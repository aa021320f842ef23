//! Requests of rebuilds, which any service stores and the shard's writer executes.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Below, QueryScope, SqlStatement, WarehouseError, WriterEpoch};

use crate::Usage;
use crate::calendar::{DAY_S, day_of};

/// Receipts may have timestamps after their arrival: a client's clock may be ahead by some minutes.
const CLOCK_AHEAD_MS: i64 = 3_600_000;

/// A request to rebuild the usage of publishers on all days up to an instant's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildRequest {
    /// ID of the request.
    pub id: Uuid,
    /// Publishers.
    pub scope: QueryScope,
    /// Milliseconds since the Unix epoch.
    pub before_ms: i64,
}

/// A step of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebuildStep {
    /// A UTC day (its first second) of a publisher.
    Day(u32, String),
    /// Counted keys of a day that no publisher has.
    Keys(u32),
}

#[derive(Row, Deserialize)]
struct RequestRow {
    #[serde(with = "clickhouse::serde::uuid")]
    request: Uuid,
    publishers: Vec<String>,
    parents: Vec<String>,
    others_of: Vec<String>,
    others: Vec<String>,
    before_ms: i64,
}

impl From<RequestRow> for RebuildRequest {
    fn from(row: RequestRow) -> Self {
        let except = |parent: &str| {
            let others = row.others_of.iter().zip(&row.others);
            let others = others.filter(|(of, _)| *of == parent);
            others.map(|(_, other)| other.clone()).collect()
        };
        let below = row.parents.iter().map(|parent| Below {
            except: except(parent),
            parent: parent.clone(),
        });
        Self {
            id: row.request,
            scope: QueryScope {
                below: below.collect(),
                publishers: row.publishers.clone(),
            },
            before_ms: row.before_ms,
        }
    }
}

impl Usage {
    /// Requests that the writer rebuilds a scope's usage on all days up to that of `before_ms`.
    pub async fn request_rebuild(&self, scope: &QueryScope, before_ms: i64) -> Result<Uuid, WarehouseError> {
        let id = Uuid::new_v4();
        // Each shard's writer rebuilds what its shard has.
        for shard in self.warehouse.shards() {
            let call = SqlStatement::new(
                "INSERT INTO usage_rebuilds (request, publishers, parents, others_of, others, before_ms, is_finished)
                 SELECT {request:UUID}, {publishers:Array(String)}, {parents:Array(String)}, {others_of:Array(String)},
                    {others:Array(String)}, {before_ms:Int64}, false",
            );
            let call = scope
                .bind_members(call)
                .with("request", id.to_string())
                .with("before_ms", before_ms)
                .set("async_insert", "0");
            shard.execute("usage_request_rebuild", call).await?;
        }
        Ok(id)
    }

    /// Requests that aren't finished, the oldest first.
    pub async fn pending_rebuilds(&self) -> Result<Vec<RebuildRequest>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT request, publishers, parents, others_of, others, before_ms FROM usage_rebuilds FINAL
             WHERE NOT is_finished ORDER BY requested_at, request",
        );
        let rows: Vec<RequestRow> = self.warehouse.rows("usage_pending_rebuilds", call).await?;
        Ok(rows.into_iter().map(RebuildRequest::from).collect())
    }

    /// Marks a request as finished.
    pub async fn finish_rebuild(&self, id: Uuid) -> Result<(), WarehouseError> {
        let call = SqlStatement::new(
            "INSERT INTO usage_rebuilds
                (request, publishers, parents, others_of, others, before_ms, is_finished, requested_at)
             SELECT request, publishers, parents, others_of, others, before_ms, true, requested_at
             FROM usage_rebuilds FINAL WHERE request = {request:UUID}",
        )
        .with("request", id.to_string())
        .set("async_insert", "0");
        self.warehouse.execute("usage_finish_rebuild", call).await
    }

    /// Whether the writers of all shards have finished a request.
    pub async fn is_rebuilt(&self, id: Uuid) -> Result<bool, WarehouseError> {
        let call =
            SqlStatement::new("SELECT countIf(is_finished) FROM usage_rebuilds FINAL WHERE request = {request:UUID}")
                .with("request", id.to_string());
        let finished: u64 = self.warehouse.one("usage_is_rebuilt", call).await?;
        Ok(finished >= self.warehouse.shards().len() as u64)
    }

    /// Steps of a request: a day of each publisher with rows in `receipts` or `usage`, and behind a
    /// day's publishers its counted keys. The empty publisher means the counted keys alone.
    pub async fn rebuild_steps(&self, request: &RebuildRequest) -> Result<Vec<RebuildStep>, WarehouseError> {
        let condition = request.scope.condition();
        let call = SqlStatement::new(format!(
            "SELECT day, publisher FROM (
                SELECT DISTINCT toUInt32(time - time % {DAY_S}) AS day, publisher FROM usage
                WHERE time < {{end:UInt32}} AND {condition}
                UNION DISTINCT
                SELECT DISTINCT toUInt32(toUnixTimestamp(timestamp) - toUnixTimestamp(timestamp) % {DAY_S}) AS day,
                    publisher
                FROM receipts
                WHERE timestamp < toDateTime64({{end:UInt32}}, 3, 'UTC') AND {condition})
             ORDER BY day, publisher"
        ))
        .slow();
        let call = request.scope.bind(call);
        let call = call.with("end", end_of_days(request.before_ms));
        Ok(steps(self.warehouse.rows("usage_rebuild_days", call).await?))
    }

    /// Executes a request where no writer runs, and marks it as finished. Returns how many rows of
    /// `usage` were inserted.
    pub async fn execute_rebuild(
        &self,
        request: &RebuildRequest,
        epoch: Option<&WriterEpoch>,
    ) -> Result<u64, WarehouseError> {
        let mut inserted = 0;
        for step in self.rebuild_steps(request).await? {
            inserted += self.rebuild_step(&step, epoch).await?;
        }
        self.finish_rebuild(request.id).await?;
        Ok(inserted)
    }
}

/// The end of the last day that a request covers.
pub(crate) fn end_of_days(before_ms: i64) -> u32 {
    let second = before_ms.saturating_add(CLOCK_AHEAD_MS).div_euclid(1_000);
    let last = i64::from(u32::MAX) - i64::from(2 * DAY_S);
    let second = u32::try_from(second.clamp(0, last)).unwrap_or(0);
    day_of(second) + DAY_S
}

/// Days of publishers, ordered by day, and after each day its counted keys.
fn steps(days: Vec<(u32, String)>) -> Vec<RebuildStep> {
    let mut steps = Vec::with_capacity(days.len() + 1);
    let mut last = None;
    for (day, publisher) in days {
        if let Some(last) = last.filter(|&last| last != day) {
            steps.push(RebuildStep::Keys(last));
        }
        last = Some(day);
        steps.push(RebuildStep::Day(day, publisher));
    }
    steps.extend(last.map(RebuildStep::Keys));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_covers_the_day_of_a_clock_that_is_ahead() {
        let day = i64::from(DAY_S) * 1_000;
        assert_eq!(end_of_days(0), DAY_S);
        assert_eq!(end_of_days(day - CLOCK_AHEAD_MS - 1), DAY_S);
        assert_eq!(end_of_days(day - CLOCK_AHEAD_MS), 2 * DAY_S);
        assert_eq!(end_of_days(i64::MIN), DAY_S);
        assert_eq!(end_of_days(i64::MAX) % DAY_S, 0);
    }

    #[test]
    fn keys_of_a_day_come_after_its_publishers() {
        let days = [(0, "a"), (0, "b"), (86_400, "a")];
        let days = days.map(|(day, publisher)| (day, publisher.to_owned())).to_vec();
        let day = |day, publisher: &str| RebuildStep::Day(day, publisher.to_owned());
        assert_eq!(
            steps(days),
            [
                day(0, "a"),
                day(0, "b"),
                RebuildStep::Keys(0),
                day(86_400, "a"),
                RebuildStep::Keys(86_400)
            ]
        );
        assert!(steps(Vec::new()).is_empty());
    }
}

//! Numbers that an account's mails say. Each is read once for all members, behind the gate as any
//! query of the account.

use accounts::{PeriodReport, ReportedUse};
use tokio::sync::OnceCell;
use usage::{DashboardStats, RankingPage, Share, Usage};
use warehouse::{Filter, MemberFilter, QueryScope, Trust, WarehouseError};
use web::Failure;

use super::DAY_USES_MIN;
use super::periods::{DAY_MS, ReportPeriod};
use crate::access::Access;
use crate::answers::labelled;
use crate::snapshot::Snapshot;
use crate::state::AnalyticsState;

/// Names in a list.
const TOP: u32 = 5;
/// Operators of a period that are checked for whether they are new, those with the most uses.
const OPERATORS_MAX: u32 = 100;
/// An operator is new that wasn't seen for so long before.
const UNSEEN_MS: i64 = 90 * DAY_MS;
/// Longest name that a report has, in characters.
const NAME_CHARS_MAX: usize = 128;
/// Days in which a new operator is reported.
const NEW_MS: i64 = 7 * DAY_MS;
/// A silence is one only after uses in this time before.
const LAST_USE_MS: i64 = 30 * DAY_MS;

/// An account's numbers at a position of at least `complete_ms`.
pub(super) struct AccountNumbers<'a> {
    app: &'a AnalyticsState,
    access: Access,
    scope: QueryScope,
    /// Everything before is counted.
    pub(super) complete_ms: i64,
    week: OnceCell<PeriodReport>,
    month: OnceCell<PeriodReport>,
    days: OnceCell<[DayUse; 2]>,
    last_use: OnceCell<Option<i64>>,
    /// Operators that are new in the last days.
    lately_new: OnceCell<Vec<Share>>,
}

/// Uses of a day.
#[derive(Debug, Clone, Copy)]
pub(super) struct DayUse {
    pub(super) uses: u64,
    pub(super) unproven: u64,
}

impl DayUse {
    /// Whether more than `percent` are unproven, of enough uses.
    pub(super) fn is_above(self, percent: u8) -> bool {
        self.uses >= DAY_USES_MIN && u128::from(self.unproven) * 100 > u128::from(self.uses) * u128::from(percent)
    }
}

impl From<DashboardStats> for DayUse {
    fn from(stats: DashboardStats) -> Self {
        Self {
            uses: stats.total_receipts,
            unproven: stats.unproven.total_receipts,
        }
    }
}

impl<'a> AccountNumbers<'a> {
    pub(super) fn new(app: &'a AnalyticsState, access: Access, complete_ms: i64) -> Self {
        Self {
            app,
            scope: access.whole(),
            access,
            complete_ms,
            week: OnceCell::new(),
            month: OnceCell::new(),
            days: OnceCell::new(),
            last_use: OnceCell::new(),
            lately_new: OnceCell::new(),
        }
    }

    pub(super) fn account_id(&self) -> &str {
        self.access.account_id()
    }

    pub(super) async fn week(&self, week: ReportPeriod) -> Result<PeriodReport, Failure> {
        self.week.get_or_try_init(|| self.period(week)).await.cloned()
    }

    pub(super) async fn month(&self, month: ReportPeriod) -> Result<PeriodReport, Failure> {
        self.month.get_or_try_init(|| self.period(month)).await.cloned()
    }

    /// Uses of a day and of the one before it.
    pub(super) async fn days(&self, day: ReportPeriod) -> Result<[DayUse; 2], Failure> {
        let query = async || {
            let both = self.totals(day, 0).await?;
            Ok(both.map(DayUse::from))
        };
        self.days.get_or_try_init(query).await.copied()
    }

    /// Time of the newest use, if there was one lately. It is the time of access that the receipt
    /// states, as everywhere.
    pub(super) async fn last_use(&self) -> Result<Option<i64>, Failure> {
        let filter = self.filter(self.complete_ms - LAST_USE_MS, i64::MAX);
        let query = async || {
            let newest = self.app.ask(self.account_id(), async |_| {
                self.app.warehouse().receipts_page(&self.scope, &filter, None, 1).await
            });
            let (_, newest) = newest.await?;
            Ok(newest.first().map(|receipt| receipt.key.timestamp_ms))
        };
        self.last_use.get_or_try_init(query).await.copied()
    }

    /// Operators that are new since an instant, or in the last days, and from when on their uses
    /// are counted.
    pub(super) async fn operators_since(&self, since_ms: i64) -> Result<Vec<(i64, Share)>, Failure> {
        let lately_ms = self.complete_ms - NEW_MS;
        let from_ms = since_ms.max(lately_ms);
        // Who has had the alert for longer than that has the same ones.
        let operators = if from_ms == lately_ms {
            let lately_new = self.lately_new.get_or_try_init(|| self.new_operators(lately_ms));
            lately_new.await?.clone()
        } else {
            self.new_operators(from_ms).await?
        };
        Ok(operators.into_iter().map(|operator| (from_ms, operator)).collect())
    }

    async fn new_operators(&self, from_ms: i64) -> Result<Vec<Share>, Failure> {
        let filter = self.filter(from_ms, self.complete_ms);
        let query = async |snapshot: Snapshot| new_operators(snapshot.usage(), &self.scope, &filter).await;
        Ok(self.app.ask(self.account_id(), query).await?.1)
    }

    async fn period(&self, period: ReportPeriod) -> Result<PeriodReport, Failure> {
        let [stats, before] = self.totals(period, TOP).await?;
        let (filter, page) = (self.filter(period.from_ms, period.to_ms), RankingPage::top(TOP));
        let query = async |snapshot: Snapshot| {
            let usage = snapshot.usage();
            tokio::try_join!(
                usage.top_clients(&self.scope, &filter, &page, None),
                new_operators(usage, &self.scope, &filter)
            )
        };
        let (_, (services, operators)) = self.app.ask(self.account_id(), query).await?;
        let content = labelled(self.app, self.access.principal(), stats.top_content).await;
        let used = |name, by_trust: usage::ByTrust| ReportedUse {
            name,
            uses: by_trust.total(),
            is_proven: by_trust.unproven == 0,
        };
        Ok(PeriodReport {
            from_ms: period.from_ms,
            to_ms: period.to_ms,
            uses: stats.total_receipts,
            uses_before: before.total_receipts,
            unproven: stats.unproven.total_receipts,
            services: stats.unique_clients,
            services_before: before.unique_clients,
            new_operators_total: operators.len() as u64,
            new_operators: operators
                .into_iter()
                .take(TOP as usize)
                .map(|one| used(one.key, one.by_trust))
                .collect(),
            top_services: services
                .items
                .into_iter()
                .map(|one| used(shortened(&one.name), one.by_trust))
                .collect(),
            top_content: content
                .into_iter()
                .map(|one| ReportedUse {
                    name: shortened(&one.title),
                    uses: one.receipt_count,
                    is_proven: one.by_trust.unproven == 0,
                })
                .collect(),
        })
    }

    /// Totals of a period and of the one before it, by the query of the dashboard.
    async fn totals(&self, period: ReportPeriod, top_max: u32) -> Result<[DashboardStats; 2], Failure> {
        let filter = self.filter(period.from_ms, period.to_ms);
        let earlier = self.filter(period.before_ms, period.from_ms);
        let query = async |snapshot: Snapshot| {
            let usage = snapshot.usage();
            tokio::try_join!(
                usage.dashboard(&self.scope, &filter, top_max),
                usage.dashboard(&self.scope, &earlier, 0)
            )
        };
        let (_, (stats, before)) = self.app.ask(self.account_id(), query).await?;
        Ok([stats, before])
    }

    fn filter(&self, from_ms: i64, to_ms: i64) -> Filter {
        Filter {
            from_ms,
            to_ms,
            trusted: self.access.trusted().to_vec(),
            ..Filter::default()
        }
    }
}

/// Operators with proven receipts in a range, and none at all for long before it.
async fn new_operators(usage: &Usage, scope: &QueryScope, filter: &Filter) -> Result<Vec<Share>, WarehouseError> {
    let page = RankingPage::top(OPERATORS_MAX);
    let proven = Filter {
        trust: Some(Trust::Proven),
        ..filter.clone()
    };
    let mut operators = usage.by_operator(scope, &proven, &page).await?.items;
    if operators.is_empty() {
        return Ok(operators);
    }
    let earlier = Filter {
        from_ms: filter.from_ms - UNSEEN_MS,
        to_ms: filter.from_ms,
        operator: MemberFilter::among(operators.iter().map(|one| one.key.clone()).collect()),
        ..filter.clone()
    };
    let seen = usage.by_operator(scope, &earlier, &page).await?.items;
    operators.retain(|one| seen.iter().all(|seen| seen.key != one.key));
    Ok(operators)
}

/// A text that a report has room for.
fn shortened(text: &str) -> String {
    text.chars().take(NAME_CHARS_MAX).collect()
}

//! Rate limits: requests a minute and a day for each key, in fixed windows of UTC time, and the
//! headers that tell about them. A key names whom the quota belongs to: the APIs count by account,
//! whatever API key a request has, and by address where no key is needed.
//!
//! Fixed windows, because N replicas can share them in one atomic step of a store, and because
//! `X-RateLimit-Reset` then means exactly one instant. A refused request takes nothing.

mod in_process;
mod quota;
mod redis;
mod window;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

pub use in_process::InProcessLimiter;
pub use quota::{Quota, QuotasConfig};
pub use redis::{RedisConfig, RedisError, RedisLimiter};

use crate::health::Health;
use crate::problem::{Kind, Problem};

/// Beginning of a key that names the address of a client instead of an account.
pub const ADDRESS: &str = "address:";

/// Requests allowed in the window.
pub const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// Requests left in it.
pub const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When it ends, in Unix seconds.
pub const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Counts requests against quotas.
pub trait RateLimiter: Send + Sync {
    /// Takes `cost` requests from `key`'s quota, or nothing if that is more than is left. Never
    /// fails: a limiter whose store is away counts by itself.
    fn take<'a>(&'a self, key: &'a str, cost: u32, quota: &'a Quota) -> BoxFuture<'a, Decision>;
}

/// The limiter that `config` requests: shared over Redis if it names one, else this process's own.
/// A Redis that can't be reached is no error: it shows in `health` as degraded.
///
/// # Errors
/// `config` can't be used.
pub async fn limiter(
    config: &RedisConfig,
    accounts_max: usize,
    health: &Health,
) -> Result<Arc<dyn RateLimiter>, RedisError> {
    let local = InProcessLimiter::new(accounts_max);
    if config.url().is_none() {
        return Ok(Arc::new(local));
    }
    Ok(Arc::new(RedisLimiter::start(config, local, health).await?))
}

/// A limiter's answer. It reports the window that has the least left, or the one that refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// Whether the request may continue.
    pub allowed: bool,
    /// Requests allowed in the window.
    pub limit: u32,
    /// Requests left in it.
    pub remaining: u32,
    /// When it ends, in Unix seconds.
    pub reset_unix_s: i64,
    /// Seconds to wait before trying again: at least 1, and 0 if allowed.
    pub retry_after_s: u32,
}

impl Decision {
    /// Writes the quota's headers, which every response carries, and `Retry-After` if it was
    /// refused.
    pub fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.reset_unix_s));
        if !self.allowed {
            headers.insert(RETRY_AFTER, HeaderValue::from(self.retry_after_s));
        }
    }

    /// The 429 of a request of this cost that was refused, headers included; `None` if it is
    /// allowed.
    #[must_use]
    pub fn problem(&self, cost: u32) -> Option<Problem> {
        if self.allowed {
            return None;
        }
        let Self {
            limit,
            remaining,
            retry_after_s,
            ..
        } = self;
        let detail = if cost > 1 {
            format!(
                "this one counts for {cost}, and {remaining} of {limit} are left: try again in {retry_after_s} s, or ask for less"
            )
        } else {
            format!("{limit} requests are allowed; try again in {retry_after_s} s")
        };
        let mut problem = Problem::new(Kind::RateLimited, detail).retry_after_s(self.retry_after_s);
        self.write_headers(&mut problem.headers);
        Some(problem)
    }
}

//! The quota of a client's address, for requests that need no credential.

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::request::Parts;
use http_server::address::Network;
use service::rate_limit::{Decision, Quota, RateLimiter};

use crate::Failure;
use crate::access::COST;
use crate::client_address::quota_key;

/// Units that one request charges to the quota of its client's address.
pub struct Allowance<'a> {
    limiter: &'a dyn RateLimiter,
    quota: Quota,
    key: String,
    charged: u32,
    decision: Option<Decision>,
}

impl<'a> Allowance<'a> {
    /// The allowance of the client that sent `head`: the connection's peer, or whom one of
    /// `proxies` names. Clients on Unix sockets share one.
    pub fn new(limiter: &'a dyn RateLimiter, per_minute: u32, proxies: &[Network], head: &Parts) -> Self {
        let quota = Quota {
            per_minute,
            per_day: None,
        };
        Self {
            limiter,
            quota,
            key: quota_key(proxies, &head.headers, &head.extensions),
            charged: 0,
            decision: None,
        }
    }

    /// Key of the quota: one for each address, or for each /64 of IPv6.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Charges `units` more. A request is charged at most the whole quota, so that each one can be
    /// answered at the beginning of a minute.
    ///
    /// # Errors
    /// 429 if fewer are left; they stay.
    pub async fn charge(&mut self, units: u32) -> Result<(), Failure> {
        let units = units.min(self.quota.per_minute.saturating_sub(self.charged));
        if units == 0 {
            return Ok(());
        }
        let decision = self.limiter.take(&self.key, units, &self.quota).await;
        self.charged += units;
        self.decision = Some(decision);
        decision.problem(units).map_or(Ok(()), |problem| Err(problem.into()))
    }

    /// The answer, with the quota's headers.
    pub fn finish(self, result: Result<Response, Failure>) -> Response {
        let mut response = result.unwrap_or_else(IntoResponse::into_response);
        if let Some(decision) = self.decision {
            decision.write_headers(response.headers_mut());
            response.headers_mut().insert(COST, HeaderValue::from(self.charged));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Request;
    use service::rate_limit::InProcessLimiter;

    use super::*;

    #[tokio::test]
    async fn a_request_is_charged_in_parts_and_at_most_the_whole_quota() {
        let limiter = InProcessLimiter::with_clock(10, || 0);
        let (head, ()) = Request::new(()).into_parts();
        let allowance = || Allowance::new(&limiter, 10, &[], &head);
        let mut first = allowance();
        first.charge(1).await.unwrap();
        first.charge(5_000).await.unwrap();
        first.charge(1).await.unwrap();
        let headers = first.finish(Ok(Response::default())).headers().clone();
        assert_eq!(
            (&headers["x-ratelimit-cost"], &headers["x-ratelimit-remaining"]),
            (&HeaderValue::from(10), &HeaderValue::from(0))
        );
        let mut second = allowance();
        let refused = second.charge(1).await;
        assert!(refused.is_err());
        let response = second.finish(refused.map(|()| Response::default()));
        assert_eq!(response.headers()["retry-after"], "60");
        assert_eq!(response.status(), 429);
    }
}

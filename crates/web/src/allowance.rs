//! The quota of a client's address, for requests that need no credential.

use std::net::{IpAddr, Ipv6Addr};

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue};
use http_server::address::{self, Network};
use http_server::forwarded::{forwarded_for, is_trusted};
use service::rate_limit::{ADDRESS, Decision, Quota, RateLimiter};

use crate::Failure;
use crate::access::COST;
use crate::serve::PeerAddress;

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
            key: address_key(proxies, &head.headers, &head.extensions),
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

/// Key of the quotas of the client that sent a request with this head: one for each address, or for
/// each /64 of IPv6. The client is the connection's peer, or whom one of `proxies` names. Clients on
/// Unix sockets share one key.
#[must_use]
pub fn address_key(proxies: &[Network], headers: &HeaderMap, extensions: &Extensions) -> String {
    let client = client(proxies, headers, extensions);
    match client.map(|address| IpAddr::V6(Ipv6Addr::from_bits(address::address_key(address))).to_canonical()) {
        None => format!("{ADDRESS}local"),
        Some(IpAddr::V4(address)) => format!("{ADDRESS}{address}"),
        Some(IpAddr::V6(network)) => format!("{ADDRESS}{network}/64"),
    }
}

fn client(proxies: &[Network], headers: &HeaderMap, extensions: &Extensions) -> Option<IpAddr> {
    let peer = extensions.get::<PeerAddress>().and_then(|peer| peer.0)?;
    if !is_trusted(proxies, peer) {
        return Some(peer);
    }
    Some(forwarded_for(headers, proxies).unwrap_or(peer))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Request;
    use service::rate_limit::InProcessLimiter;

    use super::*;

    fn head(peer: Option<&str>, forwarded_for: &str) -> Parts {
        let request = Request::builder()
            .extension(PeerAddress(peer.map(|address| address.parse().unwrap())))
            .header("x-forwarded-for", forwarded_for);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn clients_are_counted_by_address_or_by_64_bits_of_it() {
        let proxies = ["10.0.0.0/8".parse().unwrap()];
        let key = |peer, forwarded_for| {
            let head = head(peer, forwarded_for);
            address_key(&proxies, &head.headers, &head.extensions)
        };
        for (peer, forwarded_for, expected) in [
            (Some("192.0.2.7"), "", "address:192.0.2.7"),
            (Some("::ffff:192.0.2.7"), "", "address:192.0.2.7"),
            (Some("2001:db8:1:2:3::4"), "", "address:2001:db8:1:2::/64"),
            // Nobody but a trusted proxy names another address.
            (Some("192.0.2.7"), "198.51.100.1", "address:192.0.2.7"),
            (Some("10.0.0.1"), "198.51.100.1", "address:198.51.100.1"),
            (Some("10.0.0.1"), "nonsense", "address:10.0.0.1"),
            (None, "198.51.100.1", "address:local"),
        ] {
            assert_eq!(key(peer, forwarded_for), expected);
        }
    }

    #[tokio::test]
    async fn a_request_is_charged_in_parts_and_at_most_the_whole_quota() {
        let limiter = InProcessLimiter::with_clock(10, || 0);
        let head = head(Some("192.0.2.7"), "");
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

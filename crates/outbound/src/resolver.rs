//! Names to addresses, and TXT records.
//!
//! No answer is cached here: a person who has just published a record tries again, and the resolver
//! that answers has a cache of its own. Neither the hosts file nor search domains are checked,
//! so a name means the same on every machine.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Name, RData, Record};
use hickory_resolver::{TokioResolver, system_conf};
use tokio::time::timeout;

use crate::error::{RequestStep, SetupError, Unresolved};
use crate::{Config, Error};

/// Tries after the first, of which a datagram may get lost.
const RETRIES: usize = 2;

/// Asks the system's resolver, or the one that a test gave.
pub(crate) struct Resolver {
    /// Resolver; `None` where the system names no DNS server: whatever else this process does
    /// doesn't need one.
    resolver: Option<TokioResolver>,
    wait_ms_max: u64,
    wait: Duration,
}

impl Resolver {
    pub(crate) fn new(config: &Config) -> Result<Self, SetupError> {
        let servers = match config.test_resolver {
            Some(address) => vec![server(address)],
            None => system_conf::read_system_conf()
                .map_or_else(|_| Vec::new(), |(system, _)| system.name_servers().to_vec()),
        };
        let mut options = ResolverOpts::default();
        options.timeout = config.dns_wait() / u32::try_from(RETRIES + 1).unwrap_or(1);
        options.attempts = RETRIES;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.use_hosts_file = ResolveHosts::Never;
        options.try_tcp_on_error = true;
        options.cache_size = 0;
        // The cache takes an entry for a moment even if it may hold none.
        options.positive_max_ttl = Some(Duration::ZERO);
        options.negative_max_ttl = Some(Duration::ZERO);
        let none = servers.is_empty();
        let resolver_config = ResolverConfig::from_name_servers(servers);
        let builder =
            TokioResolver::builder_with_config(resolver_config, TokioRuntimeProvider::default()).with_options(options);
        let resolver = builder
            .build()
            .map_err(|error| SetupError(format!("test_resolver: no resolver: {error}")))?;
        if none {
            tracing::warn!(
                "this system names no DNS server (/etc/resolv.conf): every request to a name outside will fail"
            );
        }
        Ok(Self {
            resolver: (!none).then_some(resolver),
            wait_ms_max: config.dns_ms_max,
            wait: config.dns_wait(),
        })
    }

    /// Every address that the DNS has for `name`, at least one.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        let asked = absolute(name)?;
        let found = self.within(name, self.resolver(name)?.lookup_ip(asked)).await?;
        let found = found.map_err(|error| unresolvable(name, "A or AAAA", error))?;
        let addresses: Vec<IpAddr> = found.iter().collect();
        if addresses.is_empty() {
            return Err(no_records(name, "A or AAAA"));
        }
        Ok(addresses)
    }

    /// Each TXT record of `name`, its strings joined (as RFC 7208, 3.3 does), also behind CNAMEs.
    pub(crate) async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, Error> {
        let asked = absolute(name)?;
        let found = self
            .within(name, self.resolver(name)?.txt_lookup(asked.clone()))
            .await?;
        let found = found.map_err(|error| unresolvable(name, "TXT", error))?;
        let names = chain(asked, found.answers());
        let texts: Vec<Vec<u8>> = found
            .answers()
            .iter()
            .filter(|record| names.contains(&record.name))
            .filter_map(|record| match &record.data {
                RData::TXT(text) => Some(text.txt_data.concat()),
                _ => None,
            })
            .collect();
        if texts.is_empty() {
            return Err(no_records(name, "TXT"));
        }
        Ok(texts)
    }

    fn resolver(&self, name: &str) -> Result<&TokioResolver, Error> {
        self.resolver.as_ref().ok_or_else(|| Error::Unresolvable {
            name: name.to_owned(),
            why: Unresolved::Failed("this system names no DNS server".to_owned()),
        })
    }

    async fn within<T>(&self, name: &str, question: impl Future<Output = T>) -> Result<T, Error> {
        timeout(self.wait, question).await.map_err(|_| Error::TimedOut {
            host: name.to_owned(),
            step: RequestStep::Name,
            wait_ms_max: self.wait_ms_max,
        })
    }
}

/// `name` and what CNAMEs among `answers` make of it.
fn chain(name: Name, answers: &[Record]) -> Vec<Name> {
    let mut names = vec![name];
    loop {
        let next = answers.iter().find_map(|record| match &record.data {
            RData::CNAME(target) if names.contains(&record.name) && !names.contains(&target.0) => {
                Some(target.0.clone())
            }
            _ => None,
        });
        match next {
            Some(next) => names.push(next),
            None => return names,
        }
    }
}

fn server(address: SocketAddr) -> NameServerConfig {
    let mut udp = ConnectionConfig::udp();
    let mut tcp = ConnectionConfig::tcp();
    udp.port = address.port();
    tcp.port = address.port();
    NameServerConfig::new(address.ip(), true, vec![udp, tcp])
}

/// The name as one that no search domain is added to.
fn absolute(name: &str) -> Result<Name, Error> {
    let mut name = Name::from_ascii(name).map_err(|_| Error::Refused(format!("{name} is no name of the DNS")))?;
    name.set_fqdn(true);
    Ok(name)
}

fn no_records(name: &str, kind: &'static str) -> Error {
    Error::Unresolvable {
        name: name.to_owned(),
        why: Unresolved::NoRecords(kind),
    }
}

fn unresolvable(name: &str, kind: &'static str, error: NetError) -> Error {
    let why = match error {
        error if error.is_nx_domain() => Unresolved::NoSuchName,
        error if error.is_no_records_found() => Unresolved::NoRecords(kind),
        NetError::Dns(DnsError::ResponseCode(code)) => Unresolved::Failed(format!("the resolver answered {code}")),
        other => Unresolved::Failed(other.to_string()),
    };
    Error::Unresolvable {
        name: name.to_owned(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_dns_server_a_question_says_so() {
        let resolver = Resolver {
            resolver: None,
            wait_ms_max: 1_000,
            wait: Duration::from_secs(1),
        };
        for error in [
            resolver.txt("a.test").await.unwrap_err(),
            resolver.addresses("a.test").await.unwrap_err(),
        ] {
            assert_eq!(
                error.to_string(),
                "a.test: the DNS couldn't be asked: this system names no DNS server"
            );
        }
    }
}

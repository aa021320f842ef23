//! A URL that may be asked.

use std::net::IpAddr;

use http::{Uri, uri};
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};

use crate::{Config, Error};

/// More than any server takes, and than the limit for an entry's URL.
const URL_BYTES_MAX: usize = 4_096;

/// Target of a connection, and of its request.
#[derive(Debug, Clone)]
pub(crate) struct RequestTarget {
    pub(crate) url: Url,
    pub(crate) host: HostName,
    /// Port to connect to; the request's may differ under `test_https_port`.
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// A name to resolve, in ASCII without a dot at its end, or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostName {
    Name(String),
    Address(IpAddr),
}

impl RequestTarget {
    /// Reads a URL as somebody wrote it.
    pub(crate) fn parse(text: &str, config: &Config) -> Result<Self, Error> {
        if text.len() > URL_BYTES_MAX {
            return refused(format!("the URL is longer than {URL_BYTES_MAX} bytes"));
        }
        let Ok(url) = Url::parse(text) else {
            return refused(if text.contains("://") {
                "this isn't a URL"
            } else {
                "this isn't a URL: it must begin with https://"
            });
        };
        let target = Self::of(url, config)?;
        if let HostName::Address(address) = target.host
            && !names_host(text, target.url.host_str().unwrap_or_default())
        {
            return refused(format!(
                "the host is the address {address} in an unusual form: write the address itself"
            ));
        }
        Ok(target)
    }

    /// Target of a redirect from here.
    pub(crate) fn join(&self, location: &str, config: &Config) -> Result<Self, Error> {
        if location.len() > URL_BYTES_MAX {
            return refused(format!(
                "{} redirects to a URL longer than {URL_BYTES_MAX} bytes",
                self.host()
            ));
        }
        let refused = |why: &str| Error::Refused(format!("{} redirects elsewhere: {why}", self.host()));
        let url = self.url.join(location).map_err(|_| refused("not to a URL"))?;
        Self::of(url, config).map_err(|error| refused(&error.to_string()))
    }

    fn of(mut url: Url, config: &Config) -> Result<Self, Error> {
        let tls = match url.scheme() {
            "https" => true,
            "http" if config.loopback => false,
            _ => return refused("only https:// is asked"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refused("a URL with a user or password in it isn't asked");
        }
        let host = match url.host() {
            Some(Host::Ipv4(address)) => HostName::Address(address.into()),
            Some(Host::Ipv6(address)) => HostName::Address(address.into()),
            Some(Host::Domain(name)) => HostName::Name(name.strip_suffix('.').unwrap_or(name).to_owned()),
            None => return refused("the URL has no host"),
        };
        if let HostName::Name(name) = &host
            && ServerName::try_from(name.as_str()).is_err()
        {
            return refused(format!("{} is no host name", shown(name)));
        }
        let port = match url.port() {
            None => match config.test_https_port {
                Some(port) if tls => port,
                _ => url.port_or_known_default().unwrap_or(443),
            },
            // Whether the address is this machine's is judged when it is known.
            Some(port) if config.ports.contains(&port) || config.loopback => port,
            Some(port) => return refused(format!("port {port} isn't asked: leave it away, or have it allowed")),
        };
        url.set_fragment(None);
        Ok(Self { url, host, port, tls })
    }

    /// Judges all of the addresses that the host has.
    pub(crate) fn judge(&self, addresses: &[IpAddr], config: &Config) -> Result<(), Error> {
        for address in addresses {
            if config.loopback && address.is_loopback() {
                continue;
            }
            if crate::address::within(&config.test_allow_addresses, *address) && self.tls {
                continue;
            }
            if let Some(what) = crate::address::not_public(*address) {
                return refused(match &self.host {
                    // Which, is nobody's business who doesn't know it: the names of an inner
                    // network could be listed so.
                    HostName::Name(name) => {
                        tracing::debug!(name, %address, what, "a name of an address that isn't public was refused");
                        format!("{} resolves to an address that isn't public", shown(name))
                    }
                    HostName::Address(_) => format!("{address} isn't public: {what}"),
                });
            }
            let allowed = self.url.port().is_none_or(|port| config.ports.contains(&port));
            if !self.tls || !allowed {
                return refused("plain HTTP, and ports that aren't allowed, are only asked on this machine");
            }
        }
        Ok(())
    }

    /// The host as people know it, for errors.
    pub(crate) fn host(&self) -> String {
        match &self.host {
            HostName::Name(name) => shown(name),
            HostName::Address(address) => address.to_string(),
        }
    }

    /// For the certificate's check.
    pub(crate) fn server_name(&self) -> Result<ServerName<'static>, Error> {
        match &self.host {
            HostName::Address(address) => Ok(ServerName::IpAddress((*address).into())),
            HostName::Name(name) => ServerName::try_from(name.clone())
                .map_err(|_| Error::Refused(format!("{} is no host name", shown(name)))),
        }
    }

    /// `Host`: as in the URL, with its port if that isn't the scheme's own.
    pub(crate) fn authority(&self) -> String {
        let host = match &self.host {
            HostName::Name(name) => name.clone(),
            HostName::Address(IpAddr::V6(address)) => format!("[{address}]"),
            HostName::Address(address) => address.to_string(),
        };
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// The request's target in origin form (RFC 9112, 3.2.1).
    pub(crate) fn path(&self) -> Result<Uri, Error> {
        let mut path = self.url.path().to_owned();
        if let Some(query) = self.url.query() {
            path.push('?');
            path.push_str(query);
        }
        let path = uri::PathAndQuery::try_from(path)
            .map_err(|_| Error::Refused("the URL's path holds what can't be asked for".to_owned()))?;
        Ok(Uri::from(path))
    }
}

/// Whether the URL that somebody wrote has `host` letter by letter, and not another spelling of it:
/// `0x7f.1`, `2130706433`, `[0::1]`.
fn names_host(text: &str, host: &str) -> bool {
    let after = text.trim().split_once("://").map_or("", |(_, rest)| rest);
    after
        .strip_prefix(host)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/', '?', '#']))
}

/// A name cut to what fits in a message.
fn shown(name: &str) -> String {
    name.chars().take(253).collect()
}

fn refused<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Refused(why.into()))
}

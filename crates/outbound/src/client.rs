//! Single requests, and queries of the DNS.

use std::sync::Arc;

use bytes::Bytes;
use config::Section;
use http::{HeaderMap, HeaderValue, Method, header};

use crate::connection::Deadline;
use crate::error::{RequestStep, SetupError};
use crate::fetched::Fetched;
use crate::resources::Resources;
use crate::session::Session;
use crate::target::RequestTarget;
use crate::{Config, Error};

/// Sends requests to the outside. Cheap to clone; clones share the limit on requests in progress.
#[derive(Clone)]
pub struct OutboundClient {
    resources: Arc<Resources>,
}

impl OutboundClient {
    /// Reads what the system knows of DNS servers and authorities, and warns of each setting that
    /// is only for tests. To be called on a tokio runtime.
    ///
    /// # Errors
    /// A setting that can't be used, by its key.
    pub fn new(config: &Config) -> Result<Self, SetupError> {
        config
            .checked("outbound")
            .map_err(|error| SetupError(error.to_string()))?;
        config.warn_of_test_settings();
        Ok(Self {
            resources: Arc::new(Resources::new(config)?),
        })
    }

    /// Whether `url` is one that may be asked, as far as can be decided without the DNS.
    pub fn check(&self, url: &str) -> Result<(), Error> {
        let target = RequestTarget::parse(url, &self.resources.config)?;
        match target.host {
            crate::target::HostName::Address(address) => target.judge(&[address], &self.resources.config),
            crate::target::HostName::Name(_) => Ok(()),
        }
    }

    /// `GET url`, up to `redirects_max` redirects on, each judged like the first. At most
    /// `bytes_max` bytes of body, or it is an error.
    ///
    /// # Errors
    /// Every [`Error`] but [`Error::BadStatus`]: see [`Fetched::success`].
    pub async fn get(&self, url: &str, bytes_max: usize) -> Result<Fetched, Error> {
        self.get_within(url, bytes_max, |_| true).await
    }

    /// [`OutboundClient::get`], whose redirects lead only to hosts that `may_follow` allows. A host
    /// is a lower-case name without a dot at its end, or an address.
    ///
    /// # Errors
    /// As [`OutboundClient::get`]; [`Error::Refused`] for a redirect to another host.
    pub async fn get_within(
        &self,
        url: &str,
        bytes_max: usize,
        may_follow: impl Fn(&str) -> bool,
    ) -> Result<Fetched, Error> {
        let result = self.follow(url, bytes_max, may_follow).await;
        self.resources.count("get", result.as_ref().err());
        result
    }

    /// `POST url` with these headers and this body, on a connection of its own; see
    /// [`Session::post`].
    ///
    /// # Errors
    /// As [`Session::post`].
    pub async fn post(&self, url: &str, headers: HeaderMap, body: Bytes, bytes_max: usize) -> Result<Fetched, Error> {
        self.session(url)?.post(headers, body, bytes_max).await
    }

    /// For many requests to one URL. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Refused`], as far as can be decided without the DNS.
    pub fn session(&self, url: &str) -> Result<Session, Error> {
        self.check(url)?;
        Ok(Session::new(
            Arc::clone(&self.resources),
            RequestTarget::parse(url, &self.resources.config)?,
        ))
    }

    /// The TXT records of `name`, each with its strings joined; CNAMEs are followed.
    ///
    /// # Errors
    /// [`Error::Unresolvable`], which tells a missing name or record from a resolver that fails;
    /// [`Error::TimedOut`]; [`Error::Refused`] for what is no name.
    pub async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, Error> {
        let query = async {
            let deadline = Deadline::of(&self.resources.config);
            let _permit = self.resources.permit(name, deadline).await?;
            deadline
                .all(name, RequestStep::Name, self.resources.resolver.txt(name))
                .await?
        };
        let result = query.await;
        // That a record isn't there is an answer.
        let failed = result.as_ref().err().filter(|error| {
            use crate::Unresolved::{NoRecords, NoSuchName};
            !matches!(
                error,
                Error::Unresolvable {
                    why: NoRecords(_) | NoSuchName,
                    ..
                }
            )
        });
        self.resources.count("txt", failed);
        result
    }

    async fn follow(&self, url: &str, bytes_max: usize, may_follow: impl Fn(&str) -> bool) -> Result<Fetched, Error> {
        let config = &self.resources.config;
        let deadline = Deadline::of(config);
        let mut target = RequestTarget::parse(url, config)?;
        let _permit = self.resources.permit(&target.host(), deadline).await?;
        for _ in 0..=config.redirects_max {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            let mut session = Session::new(Arc::clone(&self.resources), target.clone());
            let fetched = session
                .exchange(Method::GET, headers, Bytes::new(), bytes_max, deadline)
                .await?;
            match fetched.redirect() {
                None => return Ok(fetched),
                Some(location) => {
                    let next = target.join(location?, config)?;
                    if !may_follow(&next.host()) {
                        let (from, to) = (target.host(), next.host());
                        let why = format!("{from} redirects to {to}, which is no part of the same registrable domain");
                        return Err(Error::Refused(why));
                    }
                    target = next;
                }
            }
        }
        Err(Error::TooManyRedirects {
            host: target.host(),
            redirects_max: config.redirects_max,
        })
    }
}

//! Single requests and questions.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsConnector;

use crate::connection::{Answer, Deadline};
use crate::error::{SetupError, Step};
use crate::resolver::Resolver;
use crate::session::Session;
use crate::target::Target;
use crate::{Config, Error, tls};

/// Asks the outside. Cheap to clone; clones share the limit on requests in progress.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    resolver: Resolver,
    tls: TlsConnector,
    places: Arc<Semaphore>,
}

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Status.
    pub status: StatusCode,
    /// Header fields.
    pub headers: HeaderMap,
    /// Body, whole.
    pub body: Bytes,
    /// URL of the answer, after all redirects.
    pub final_url: String,
    host: String,
}

impl Fetched {
    pub(crate) fn new(answer: Answer, host: String, url: &str) -> Self {
        Self {
            status: answer.status,
            headers: answer.headers,
            body: answer.body,
            final_url: url.to_owned(),
            host,
        }
    }

    /// Itself, if the status is 2xx.
    ///
    /// # Errors
    /// [`Error::BadStatus`].
    pub fn success(self) -> Result<Self, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(Error::BadStatus {
            host: self.host,
            status: self.status,
        })
    }

    /// Location to which the answer redirects a GET: 301, 302, 303, 307, 308 (RFC 9110, 15.4).
    fn redirect(&self) -> Option<Result<&str, Error>> {
        if !matches!(self.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let mut locations = self.headers.get_all(header::LOCATION).iter();
        let location = match (locations.next(), locations.next()) {
            (Some(one), None) => one.to_str().ok(),
            _ => None,
        };
        Some(location.ok_or_else(|| Error::BadAnswer {
            host: self.host.clone(),
            what: format!("it answered {} without one Location that can be read", self.status),
        }))
    }
}

impl Client {
    /// Reads what the system knows of DNS servers and authorities, and warns of each setting that
    /// is only for tests. To be called on a tokio runtime.
    ///
    /// # Errors
    /// A setting that can't be used, by its key.
    pub fn new(config: &Config) -> Result<Self, SetupError> {
        if let Err(faults) = config.validate() {
            let told: Vec<String> = faults.iter().map(|(key, fault)| format!("{key} {fault}")).collect();
            return Err(SetupError(told.join("; outbound.")));
        }
        config.warn_of_test_settings();
        let inner = Inner {
            resolver: Resolver::new(config)?,
            tls: tls::connector(config)?,
            places: Arc::new(Semaphore::new(config.requests_max)),
            config: config.clone(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether `url` is one that may be asked, as far as can be told without the DNS.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn check(&self, url: &str) -> Result<(), Error> {
        let target = Target::parse(url, self.config())?;
        match target.host {
            crate::target::HostName::Address(address) => target.judge(&[address], self.config()),
            crate::target::HostName::Name(_) => Ok(()),
        }
    }

    /// `GET url`, up to `redirects_max` redirects on, each judged like the first. At most
    /// `bytes_max` bytes of body, or it is an error.
    ///
    /// # Errors
    /// Every [`Error`] but [`Error::BadStatus`]: ask [`Fetched::success`].
    pub async fn get(&self, url: &str, bytes_max: usize) -> Result<Fetched, Error> {
        self.get_within(url, bytes_max, |_| true).await
    }

    /// [`Client::get`], whose redirects lead only to hosts that `may_follow` allows. A host is a
    /// lower-case name without a dot at its end, or an address.
    ///
    /// # Errors
    /// As [`Client::get`]; [`Error::Refused`] for a redirect to another host.
    pub async fn get_within(
        &self,
        url: &str,
        bytes_max: usize,
        may_follow: impl Fn(&str) -> bool,
    ) -> Result<Fetched, Error> {
        let result = self.follow(url, bytes_max, may_follow).await;
        self.count("get", result.as_ref().err());
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
    /// [`Error::Refused`], as far as can be told without the DNS.
    pub fn session(&self, url: &str) -> Result<Session, Error> {
        self.check(url)?;
        Ok(Session::new(self.clone(), Target::parse(url, self.config())?))
    }

    /// The TXT records of `name`, each with its strings joined; CNAMEs are followed.
    ///
    /// # Errors
    /// [`Error::Unresolvable`], which tells a missing name or record from a resolver that fails;
    /// [`Error::TimedOut`]; [`Error::Refused`] for what is no name.
    pub async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, Error> {
        let asked = async {
            let deadline = Deadline::of(self.config());
            let _place = self.place(name, deadline).await?;
            deadline.all(name, Step::Name, self.inner.resolver.txt(name)).await?
        };
        let result = asked.await;
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
        self.count("txt", failed);
        result
    }

    async fn follow(&self, url: &str, bytes_max: usize, may_follow: impl Fn(&str) -> bool) -> Result<Fetched, Error> {
        let config = self.config();
        let deadline = Deadline::of(config);
        let mut target = Target::parse(url, config)?;
        let _place = self.place(&target.host(), deadline).await?;
        for _ in 0..=config.redirects_max {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            let mut session = Session::new(self.clone(), target.clone());
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

    /// Waits for a permit for a request.
    pub(crate) async fn place(&self, host: &str, deadline: Deadline) -> Result<OwnedSemaphorePermit, Error> {
        let place = Arc::clone(&self.inner.places).acquire_owned();
        let place = deadline.all(host, Step::Place, place).await?;
        place.map_err(|_| Error::Unreachable {
            host: host.to_owned(),
            what: "this process is ending".to_owned(),
        })
    }

    pub(crate) fn count(&self, kind: &'static str, failed: Option<&Error>) {
        let outcome = failed.map_or("answered", Error::label);
        metrics::counter!("receipts_outbound_requests_total", "kind" => kind, "outcome" => outcome).increment(1);
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    pub(crate) fn resolver(&self) -> &Resolver {
        &self.inner.resolver
    }

    pub(crate) fn tls(&self) -> &TlsConnector {
        &self.inner.tls
    }
}

//! Why a request to the outside gave nothing.

use std::fmt;

use http::StatusCode;

/// The client couldn't be made: which setting, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("outbound.{0}")]
pub struct SetupError(pub(crate) String);

/// Why a request or a question to the DNS failed, in words that can be shown to whoever named the
/// URL. Nothing of a fetched body, and no path or query, is ever in them: those may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The URL, or an address that its host resolves to, is none that may be asked. Asking again
    /// gives the same.
    #[error("{0}")]
    Refused(String),
    /// The DNS has no such name or record, or didn't say.
    #[error("{name}: {why}")]
    Unresolvable {
        /// The name requested.
        name: String,
        /// Reason of the DNS.
        why: Unresolved,
    },
    /// No answer in time.
    #[error("{host}: {step} took more than {wait_ms_max} ms")]
    TimedOut {
        /// The host or name requested.
        host: String,
        /// Step that took too long.
        step: RequestStep,
        /// The time it had.
        wait_ms_max: u64,
    },
    /// No connection to any of the host's addresses, or it was lost.
    #[error("{host} can't be reached: {what}")]
    Unreachable {
        /// The host.
        host: String,
        /// Error of the network.
        what: String,
    },
    /// No TLS with this host: its certificate isn't valid for it, or it speaks no TLS 1.2 or 1.3.
    #[error("{host}: TLS failed: {what}")]
    Tls {
        /// The host.
        host: String,
        /// Fault.
        what: String,
    },
    /// The answer is larger than allowed.
    #[error("{host} answered with a {part} of more than {bytes_max} bytes")]
    TooLarge {
        /// The host.
        host: String,
        /// `head` or `body`.
        part: &'static str,
        /// The limit.
        bytes_max: usize,
    },
    /// More redirects than allowed.
    #[error("{host}: more than {redirects_max} redirects")]
    TooManyRedirects {
        /// The host that redirected last.
        host: String,
        /// The limit.
        redirects_max: usize,
    },
    /// The answer isn't an HTTP answer that can be used.
    #[error("{host}: {what}")]
    BadAnswer {
        /// The host.
        host: String,
        /// Fault of the answer.
        what: String,
    },
    /// Another status than a success; see [`crate::Fetched::success`].
    #[error("{host} answered {status}")]
    BadStatus {
        /// The host.
        host: String,
        /// Status of the answer.
        status: StatusCode,
    },
}

impl Error {
    /// Whether the same request may succeed a little later without anybody changing anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Unreachable { .. } => true,
            Self::Unresolvable { why, .. } => matches!(why, Unresolved::Failed(_)),
            Self::BadStatus { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
    }

    /// For metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Unresolvable { .. } => "unresolvable",
            Self::TimedOut { .. } => "timed_out",
            Self::Unreachable { .. } => "unreachable",
            Self::Tls { .. } => "tls",
            Self::TooLarge { .. } => "too_large",
            Self::TooManyRedirects { .. } => "redirects",
            Self::BadAnswer { .. } | Self::BadStatus { .. } => "bad_answer",
        }
    }
}

/// Answer of the DNS about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// NXDOMAIN: there is no such name.
    NoSuchName,
    /// NODATA: the name is there, without a record of the type requested.
    NoRecords(&'static str),
    /// The resolver didn't answer the question: SERVFAIL, REFUSED, not reachable, a CNAME loop.
    Failed(String),
}

impl fmt::Display for Unresolved {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchName => out.write_str("the DNS has no such name"),
            Self::NoRecords(kind) => write!(out, "the DNS has this name, but no {kind} record for it"),
            Self::Failed(what) => write!(out, "the DNS couldn't be asked: {what}"),
        }
    }
}

/// The steps of a request, each with a time of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestStep {
    /// Waiting for one of the permits that `requests_max` allows.
    Place,
    /// Resolving the name.
    Name,
    /// Connecting, and the TLS handshake.
    Connect,
    /// The head of the answer.
    Head,
    /// The body of the answer, and with it everything.
    Body,
}

impl fmt::Display for RequestStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Place => "waiting for earlier requests",
            Self::Name => "resolving the name",
            Self::Connect => "connecting",
            Self::Head => "the head of the answer",
            Self::Body => "the whole answer",
        })
    }
}

//! Binding a port, with an error that says what to change.

use std::io;
use std::net::SocketAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};

/// Connections the kernel holds for a listener that hasn't accepted them yet; `net.core.somaxconn`
/// caps it.
const BACKLOG: u32 = 4_096;

/// Files that connections never take.
const OTHER_FILES_MIN: u64 = 192;

/// A port that couldn't be bound.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}: {reason}; change `{key}` (or {variable})")]
pub struct ListenError {
    /// The address that was requested.
    pub address: SocketAddr,
    /// Why not.
    pub reason: String,
    /// The configuration key that names the address.
    pub key: String,
    /// Environment variable.
    pub variable: String,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

/// Listens on `address`, which came from the configuration key `key` (`gateway.listen`). Port 0
/// takes a free one.
///
/// # Errors
/// The address is in use, not this machine's, or needs rights; the message names it and the key.
/// Must be called within a tokio runtime.
pub fn bind(key: &str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    listen(address).map_err(|source| {
        let reason = match source.kind() {
            io::ErrorKind::AddrInUse => "another process uses this address".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine doesn't have this address".to_owned(),
            io::ErrorKind::PermissionDenied => "ports below 1024 need rights".to_owned(),
            _ => source.to_string(),
        };
        let variable = format!("RECEIPTS_{}", key.replace('.', "_").to_uppercase());
        ListenError {
            address,
            reason,
            key: key.to_owned(),
            variable,
            source,
        }
    })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A restarted service binds at once, without waiting for its old connections' TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Lifts the soft limit of open files to the hard one, and returns what holds now (`None`: no
/// limit). Each connection is a file, and the usual soft limit of 1,024 would end accepting long
/// before the configured limit does.
pub fn lift_open_files() -> Option<u64> {
    let old = getrlimit(Resource::Nofile);
    if old.current == old.maximum {
        return old.current;
    }
    match setrlimit(
        Resource::Nofile,
        Rlimit {
            current: old.maximum,
            maximum: old.maximum,
        },
    ) {
        Ok(()) => old.maximum,
        Err(error) => {
            tracing::warn!(%error, open_files_max = ?old.current, "can't lift the limit of open files");
            old.current
        }
    }
}

/// Number of `wanted` connections that the limit of open files leaves room for; if that is fewer, a
/// warning names both numbers. A tenth of the files, and at least 192, are left to everything else:
/// a service whose connections have taken every file can't open the next segment of its log. Of the
/// rest `percent` is this service's, as several may share the process. At least one connection is
/// allowed. Call it after [`lift_open_files`].
#[must_use]
pub fn connections_within(service: &str, wanted: usize, percent: u64) -> usize {
    let Some(files) = getrlimit(Resource::Nofile).current else {
        return wanted;
    };
    let room = room_for_connections(files, percent);
    if wanted > room {
        tracing::warn!(
            service,
            connections_max = wanted,
            open_files_max = files,
            allowed = room,
            "the limit of open files (ulimit -n) allows fewer connections than configured"
        );
    }
    wanted.min(room)
}

fn room_for_connections(files: u64, percent: u64) -> usize {
    let reserved = (files / 10).max(OTHER_FILES_MIN);
    let room = u128::from(files.saturating_sub(reserved)) * u128::from(percent) / 100;
    usize::try_from(room).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[tokio::test]
    async fn an_address_in_use_is_named_with_its_key() {
        let first = bind("gateway.listen", "127.0.0.1:0".parse().unwrap()).unwrap();
        let taken = first.local_addr().unwrap();
        let error = bind("gateway.listen", taken).unwrap_err().to_string();
        let wanted = format!(
            "can't listen on {taken}: another process uses this address; change `gateway.listen` (or RECEIPTS_GATEWAY_LISTEN)"
        );
        assert_eq!(error, wanted);
    }

    #[tokio::test]
    async fn a_foreign_address_is_refused() {
        let error = bind("telemetry.metrics_listen", "192.0.2.1:0".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("doesn't have this address"), "{error}");
        assert_eq!(error.variable, "RECEIPTS_TELEMETRY_METRICS_LISTEN");
    }

    #[test]
    fn the_soft_limit_is_the_hard_one_afterwards() {
        let now = lift_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, now);
        assert_eq!(getrlimit(Resource::Nofile).maximum, now);
    }

    #[test]
    fn connections_leave_files_for_everything_else() {
        assert_eq!(room_for_connections(1_024, 75) + room_for_connections(1_024, 25), 832);
        assert_eq!(room_for_connections(20_000, 100), 18_000);
        assert_eq!(room_for_connections(100, 75), 1);
        assert_eq!(connections_within("test", 1, 75), 1);
        if let Some(files) = getrlimit(Resource::Nofile).current {
            assert!(connections_within("test", usize::MAX, 100) < usize::try_from(files).unwrap());
        }
    }
}

//! The Unix socket and the port of this machine.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener};

use crate::failure::CommandFailure;

/// Reads a socket's mode: octal, and nobody but owner and group.
///
/// # Errors
/// Advice: the allowed modes.
pub fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o660 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => Err("must be 600 or 660".to_owned()),
    }
}

/// Bound sockets. The file is removed at the end.
pub struct Sockets {
    socket: UnixListener,
    port: Option<TcpListener>,
    file: SocketFile,
}

/// A socket's file, removed when this is dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Sockets {
    /// Binds the socket, which a killed relay may have left, and the port.
    ///
    /// # Errors
    /// Another process answers on the socket, or it can't be bound; a port that isn't this
    /// machine's alone.
    pub fn bind(path: &Path, mode: u32, listen: Option<SocketAddr>) -> Result<Self, CommandFailure> {
        if let Some(address) = listen.filter(|address| !address.ip().is_loopback()) {
            return Err(CommandFailure::Input(format!(
                "--listen {address}: must be an address of this machine alone, such as 127.0.0.1:8787"
            )));
        }
        let failed = |error: io::Error| CommandFailure::Unavailable(format!("--socket {}: {error}", path.display()));
        let socket = bind_socket(path, mode).map_err(failed)?;
        let file = SocketFile(path.to_owned());
        let port = listen.map(bind_port).transpose()?;
        Ok(Self { socket, port, file })
    }

    /// Address of the port.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.port.as_ref()?.local_addr().ok()
    }

    /// Returns the listeners; the file lasts as long as the first.
    pub fn split(self) -> (RelaySocket, Option<TcpListener>) {
        let socket = RelaySocket {
            listener: self.socket,
            _file: self.file,
        };
        (socket, self.port)
    }
}

/// A Unix socket with its file.
pub struct RelaySocket {
    listener: UnixListener,
    _file: SocketFile,
}

impl http_server::Listener for RelaySocket {
    type Stream = tokio::net::UnixStream;

    async fn accept(&self) -> io::Result<(Self::Stream, Option<std::net::IpAddr>)> {
        Ok((self.listener.accept().await?.0, None))
    }

    fn refuse(stream: Self::Stream) {
        drop(stream);
    }
}

fn bind_socket(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process answers on it",
        ));
    }
    // Nobody connects before the mode is set.
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(format!(".new-{}", std::process::id()));
    let hidden = PathBuf::from(hidden);
    let _ = fs::remove_file(&hidden);
    let listener = UnixListener::bind(&hidden)?;
    fs::set_permissions(&hidden, Permissions::from_mode(mode))?;
    fs::rename(&hidden, path)?;
    Ok(listener)
}

fn bind_port(address: SocketAddr) -> Result<TcpListener, CommandFailure> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    bound.map_err(|error| CommandFailure::Unavailable(format!("--listen {address}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::parse_mode;

    #[test]
    fn a_socket_is_its_owners_and_groups_at_most() {
        assert_eq!((parse_mode("600"), parse_mode("0660")), (Ok(0o600), Ok(0o660)));
        for wrong in ["666", "777", "060", "400", "six", ""] {
            assert!(parse_mode(wrong).is_err(), "{wrong}");
        }
    }
}

//! The Unix socket and the port of this machine.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
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

/// A socket's file, removed when this is dropped, unless somebody replaced it.
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            inode: inode(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Sockets {
    /// Binds the socket, which a killed relay may have left, and the port.
    ///
    /// # Errors
    /// Another process answers on the socket, another file has its path, or it can't be bound; a
    /// port that isn't this machine's alone.
    pub fn bind(path: &Path, mode: u32, listen: Option<SocketAddr>) -> Result<Self, CommandFailure> {
        if let Some(address) = listen.filter(|address| !address.ip().is_loopback()) {
            return Err(CommandFailure::Input(format!(
                "--listen {address}: must be an address of this machine alone, such as 127.0.0.1:8787"
            )));
        }
        let failed = |error: io::Error| CommandFailure::Unavailable(format!("--socket {}: {error}", path.display()));
        let (socket, file) = bind_socket(path, mode).map_err(failed)?;
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

fn bind_socket(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    check_replaceable(path)?;
    // Nobody connects before the mode is set.
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(format!(".new-{}", std::process::id()));
    let hidden = PathBuf::from(hidden);
    check_replaceable(&hidden)?;
    let _ = fs::remove_file(&hidden);
    let listener = UnixListener::bind(&hidden)?;
    fs::set_permissions(&hidden, Permissions::from_mode(mode))?;
    fs::rename(&hidden, path)?;
    Ok((listener, SocketFile::new(path)?))
}

/// Refuses a path with anything but a socket on which nobody answers.
fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it is another file, not a socket: remove it, or name another path",
        )),
        Ok(_) if UnixStream::connect(path).is_ok() => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process answers on it",
        )),
        Ok(_) => Ok(()),
    }
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_socket_is_its_owners_and_groups_at_most() {
        assert_eq!((parse_mode("600"), parse_mode("0660")), (Ok(0o600), Ok(0o660)));
        for wrong in ["666", "777", "060", "400", "six", ""] {
            assert!(parse_mode(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn only_a_socket_that_nobody_uses_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay.sock");
        // As a killed relay leaves it.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let first = Sockets::bind(&path, 0o600, None).unwrap();
        assert!(Sockets::bind(&path, 0o600, None).is_err());
        // What came instead of it stays when the first one ends.
        fs::remove_file(&path).unwrap();
        let second = Sockets::bind(&path, 0o600, None).unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
        drop(second);
        assert!(!path.exists());

        let (file, link) = (dir.path().join("client.key"), dir.path().join("link"));
        fs::write(&file, "secret").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for other in [&file, &link, &dir.path().to_owned()] {
            let failed = Sockets::bind(other, 0o600, None).err().unwrap();
            assert!(failed.to_string().contains("not a socket"), "{failed}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "secret");
        assert!(link.is_symlink());
    }
}

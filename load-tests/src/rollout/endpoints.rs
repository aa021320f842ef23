//! Behaviour of a Kubernetes Service: a connection goes to one of the pods that are ready, and
//! stays there.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A service's address, and the pods behind it.
pub struct Endpoints {
    address: SocketAddr,
    ready: Arc<Mutex<Ready>>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Ready {
    pods: Vec<String>,
    turn: usize,
}

/// Connections of a pod.
#[derive(Clone)]
pub struct Endpoint {
    ready: Arc<Mutex<Ready>>,
    /// `127.0.0.1:8080`
    address: String,
}

impl Endpoints {
    /// Listens on a port of its own, with no pod yet.
    ///
    /// # Errors
    /// No free port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let ready = Arc::<Mutex<Ready>>::default();
        let task = tokio::spawn(serve(listener, Arc::clone(&ready)));
        Ok(Self {
            address,
            ready,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Base address.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// For a pod at a base address; connections are led to it from [`Endpoint::add`] on.
    #[must_use]
    pub fn endpoint(&self, base: &str) -> Endpoint {
        Endpoint {
            ready: Arc::clone(&self.ready),
            address: base.trim_start_matches("http://").to_owned(),
        }
    }
}

impl Endpoint {
    /// Leads connections to it.
    pub fn add(&self) {
        let mut ready = self.ready.lock();
        if !ready.pods.contains(&self.address) {
            ready.pods.push(self.address.clone());
        }
    }

    /// Leads no more connections to it; those that it has stay.
    pub fn remove(&self) {
        self.ready.lock().pods.retain(|pod| *pod != self.address);
    }
}

async fn serve(listener: TcpListener, ready: Arc<Mutex<Ready>>) {
    // Ends its connections when it ends.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let pod = {
            let mut ready = ready.lock();
            ready.turn += 1;
            ready.pods.get(ready.turn % ready.pods.len().max(1)).cloned()
        };
        // Without a pod the connection is refused, as near as a listener comes to that.
        if let Some(pod) = pod {
            connections.spawn(pass(client, pod));
        }
    }
}

async fn pass(mut client: TcpStream, pod: String) -> std::io::Result<()> {
    let mut server = TcpStream::connect(pod).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::Endpoints;

    /// A pod that says its name and ends the connection.
    async fn pod(name: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                client.write_all(name.as_bytes()).await.unwrap();
            }
        });
        format!("http://{address}")
    }

    async fn reached(endpoints: &Endpoints) -> String {
        let mut client = TcpStream::connect(endpoints.address).await.unwrap();
        let mut told = String::new();
        let _ = client.read_to_string(&mut told).await;
        told
    }

    #[tokio::test]
    async fn connections_go_to_those_that_are_ready() {
        let endpoints = Endpoints::start().await.unwrap();
        assert_eq!(reached(&endpoints).await, "");
        let (first, second) = (endpoints.endpoint(&pod("a").await), endpoints.endpoint(&pod("b").await));
        first.add();
        first.add();
        second.add();
        let mut both = [reached(&endpoints).await, reached(&endpoints).await];
        both.sort();
        assert_eq!(both, ["a", "b"]);
        first.remove();
        assert_eq!(reached(&endpoints).await, "b");
        second.remove();
        assert_eq!(reached(&endpoints).await, "");
    }
}

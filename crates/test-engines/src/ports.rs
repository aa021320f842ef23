//! Free ports.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, bail};

/// Below the range that the kernel takes for outgoing connections, so that none of those sits on a
/// port while its engine restarts.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;

/// `N` different ports of 127.0.0.1 on which nothing listens now. Drawn at random, since other
/// processes draw too.
///
/// # Errors
///
/// There are no such ports.
pub fn free<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut held: Vec<TcpListener> = Vec::new();
    for _ in 0..1_000 {
        if held.len() == N {
            break;
        }
        let drawn = getrandom::u32().context("randomness")? % u32::from(LAST - FIRST);
        let port = FIRST + u16::try_from(drawn)?;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push(listener);
        }
    }
    let mut ports = [0; N];
    if held.len() < N {
        bail!("no {N} free ports");
    }
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

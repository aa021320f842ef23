//! HTTP/1.0 requests to servers of this machine. A response ends with its connection and isn't
//! chunked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, bail};

/// Body of the response to `GET path`.
///
/// # Errors
///
/// No response, or a status other than 200: the error contains the body.
pub(crate) fn get(port: u16, path: &str) -> anyhow::Result<String> {
    exchange(port, &format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"))
}

/// Body of the response to `POST path` with `body`.
///
/// # Errors
///
/// No response, or a status other than 200: the error contains the body.
pub(crate) fn post(port: u16, path: &str, body: &str) -> anyhow::Result<String> {
    let length = body.len();
    exchange(
        port,
        &format!("POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n{body}"),
    )
}

/// Has `PUT path` make something without a body.
///
/// # Errors
///
/// No response, or a status other than 200: the error contains the body.
pub(crate) fn put(port: u16, path: &str) -> anyhow::Result<String> {
    exchange(
        port,
        &format!("PUT {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"),
    )
}

fn exchange(port: u16, request: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let response = String::from_utf8_lossy(&response);
    let (head, body) = response.split_once("\r\n\r\n").context("no response")?;
    if head.split(' ').nth(1) != Some("200") {
        bail!("{}: {}", head.lines().next().unwrap_or_default(), body.trim_end());
    }
    Ok(body.to_owned())
}

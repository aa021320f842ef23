//! Statements to the embedded engine, over the socket that the command line's tools use.

use std::path::Path;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Runs one statement; its output as tab-separated text.
///
/// # Errors
/// The statement failed, in the engine's words.
pub(crate) async fn run(socket: &Path, statement: &str) -> Result<String> {
    let mut stream = UnixStream::connect(socket)
        .await
        .with_context(|| socket.display().to_string())?;
    let head = format!(
        "POST /?database=receipts&max_execution_time=600 HTTP/1.0\r\nhost: engine\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        statement.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(statement.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the engine gave no answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        bail!("{}: {}", statement.lines().next().unwrap_or_default(), body.trim());
    }
    Ok(body.trim().to_owned())
}

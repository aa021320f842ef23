//! A server of a few lines, whose answers the tests choose.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// A request as it came.
pub(crate) struct Came {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Came {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// Answers the n-th request with `answer(n)`, an empty one by closing the connection, and hands the
/// requests on. Ends with the test's process.
pub(crate) fn answering(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> (String, Receiver<Came>) {
    answering_to(move |n, _| answer(n))
}

/// As [`answering`], with the request.
pub(crate) fn answering_to(
    answer: impl Fn(usize, &Came) -> String + Send + Sync + 'static,
) -> (String, Receiver<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    let shared = Arc::new((answer, AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, sender, shared) = (stream.unwrap(), sender.clone(), Arc::clone(&shared));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some(came) = read(&mut reader) {
                    let text = shared.0(shared.1.fetch_add(1, Ordering::Relaxed), &came);
                    let _ = sender.send(came);
                    if text.is_empty() || stream.write_all(text.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (url, receiver)
}

fn read(reader: &mut impl BufRead) -> Option<Came> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&n| n > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let length = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length?.1.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Came { path, headers, body })
}

pub(crate) fn response(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

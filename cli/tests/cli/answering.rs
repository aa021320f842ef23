//! A server of a few lines, whose answers the tests choose.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_signatures::{DirectoryKey, key_set};
use receipt::{Algorithm, SigningKey, canonicalize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Signs the acknowledgements of all servers here.
static ACKNOWLEDGEMENT_KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::Ed25519).unwrap());
const KEYS_PATH: &str = "/.well-known/receipts-keys.json";
/// Stands for a 202 to the request that is answered.
const ACCEPTED: &str = "accepted";

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

    /// The body before compression.
    pub(crate) fn decoded(&self) -> Vec<u8> {
        let mut decoded = Vec::new();
        match self.header("content-encoding") {
            Some("gzip") => drop(
                flate2::read::GzDecoder::new(self.body.as_slice())
                    .read_to_end(&mut decoded)
                    .unwrap(),
            ),
            Some("zstd") => decoded = zstd::decode_all(self.body.as_slice()).unwrap(),
            _ => decoded.clone_from(&self.body),
        }
        decoded
    }

    /// A 202 with a signed acknowledgement, as a gateway's.
    fn acknowledged(&self) -> String {
        let body = self.decoded();
        let sent: Value = serde_json::from_slice(&body).unwrap();
        let mut answer = match sent["receipts"].as_array() {
            Some(receipts) => json!({"batchId": sent["batchId"], "receiptCount": receipts.len()}),
            None => json!({"receiptId": sent["receiptId"]}),
        };
        let mut signed = answer.clone();
        signed["requestDigest"] = format!("sha256:{}", hex::encode(Sha256::digest(&body))).into();
        signed["keyId"] = published_key().thumbprint.into();
        let canonical = canonicalize(signed.to_string().as_bytes(), 8).unwrap();
        signed["signature"] = STANDARD.encode(ACKNOWLEDGEMENT_KEY.sign(&canonical).unwrap()).into();
        answer["status"] = "queued".into();
        answer["acknowledgement"] = signed;
        response("202 Accepted", "", &answer.to_string())
    }
}

fn published_key() -> DirectoryKey {
    DirectoryKey::from_pem(ACKNOWLEDGEMENT_KEY.public_key_pem()).unwrap()
}

/// The answer of a gateway that took the request.
pub(crate) fn accepted() -> String {
    ACCEPTED.to_owned()
}

/// Answers the n-th request with `answer(n)`, an empty one by closing the connection, and hands the
/// requests on. Ends with the test's process. Requests for the published keys aren't counted.
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
                    let text = if came.path.ends_with(KEYS_PATH) {
                        response("200 OK", "", &key_set([&published_key()]).unwrap())
                    } else {
                        let text = shared.0(shared.1.fetch_add(1, Ordering::Relaxed), &came);
                        let text = if text == ACCEPTED { came.acknowledged() } else { text };
                        let _ = sender.send(came);
                        text
                    };
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
    let mut body = vec![0; length.map_or(Some(0), |(_, length)| length.parse().ok())?];
    reader.read_exact(&mut body).ok()?;
    Some(Came { path, headers, body })
}

pub(crate) fn response(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

//! Runs the built `receipts` command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parking_lot::Mutex;
use serde_json::{Value, json};

/// Locked by a test that runs the embedded engine in this process, which can have only one.
pub(crate) static EMBEDDED_ENGINE: Mutex<()> = Mutex::new(());

/// Result of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Standard output as NDJSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }

    /// Standard output as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {} {}", self.stdout, self.stderr))
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

/// The command without the caller's own `RECEIPTS_` variables, except where the engine's library
/// lies.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_receipts"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("RECEIPTS_") && name != "RECEIPTS_WAREHOUSE_LIBRARY" {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn receipts(args: &[&str], input: &[u8]) -> Ran {
    receipts_with(&[], args, input)
}

/// As [`receipts`], with these variables of the environment.
pub(crate) fn receipts_with(variables: &[(&str, &str)], args: &[&str], input: &[u8]) -> Ran {
    let mut child = command()
        .envs(variables.iter().copied())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that doesn't read to the end closes its side: that is its right.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A data directory that lasts as long as the test.
pub(crate) struct Deployment {
    pub(crate) dir: tempfile::TempDir,
}

impl Deployment {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs `receipts NOUN` with these arguments, the first of which is its command.
    pub(crate) fn run(&self, noun: &str, args: &[&str]) -> Ran {
        let data = self.dir.path().join("data");
        let (command, rest) = args.split_first().unwrap();
        receipts(
            &[&[noun, command, "--data", data.to_str().unwrap()], rest].concat(),
            b"",
        )
    }
}

/// A key made in `dir`, and its public half.
pub(crate) fn key(dir: &Path, algorithm: &str) -> (PathBuf, String) {
    let path = dir.join(format!("{algorithm}.key"));
    receipts(
        &["keygen", "--algorithm", algorithm, "--out", path.to_str().unwrap()],
        b"",
    )
    .expect(0);
    let public = std::fs::read_to_string(path.with_extension("key.pub")).unwrap();
    (path, public)
}

/// An unsigned receipt of now.
pub(crate) fn receipt(public_pem: &str) -> Value {
    json!({
        "version": "1.0.0",
        "receiptId": uuid::Uuid::new_v4(),
        "timestamp": format!("{:.3}", jiff::Timestamp::now()),
        "content": {
            "entryId": "0b9a7f5e-4c1e-4b8e-9a66-3f3f9d3c1a01",
            "url": "https://news.example/lead",
            "contentHash": format!("sha256:{}", "ab".repeat(32)),
            "publisher": "news.example",
        },
        "client": {
            "id": "7d1f6f63-5d0c-4a63-9a5e-0c5c7f1a2b03",
            "name": "Model",
            "version": "1.0",
            "organization": "Lab",
            "publicKey": public_pem,
        },
        "usage": {"purpose": "training", "context": "test", "datasetId": "d", "modelId": "m"},
    })
}

/// Signed lines, of documents with faults, too.
pub(crate) fn sign(key: &Path, documents: &[Value]) -> Vec<Value> {
    let args = ["sign", "--force", "--key", key.to_str().unwrap()];
    receipts(&args, ndjson(documents).as_bytes()).expect(0).lines()
}

pub(crate) fn ndjson(documents: &[Value]) -> String {
    documents.iter().map(|document| format!("{document}\n")).collect()
}

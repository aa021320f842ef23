//! Examples of answers in an OpenAPI document: a file of real answers, and a check of the document
//! that has them.
//!
//! The file has, by method and path of the document, by status and by media type, the body of an
//! answer. `UPDATE_EXPECT=1` makes tests write the answers that they get, in which our identifiers
//! and secrets are replaced: they differ in every run.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use serde_json::Value;

use crate::http::Answer;

/// Validates every example of a document, and reports answers without one.
const CHECK: &str = include_str!("examples.py");
/// The longest example in bytes: documents are for people.
const BYTES_MAX: usize = 3_000;
/// Instead of what is random in identifiers and secrets.
const RANDOM: char = '0';

/// Bodies by operation (`GET /path`), status and media type.
type Examples = BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>;

/// The file of a document's examples.
#[derive(Debug)]
pub struct ExampleFile {
    path: PathBuf,
    /// Paths of the document, with names in braces.
    paths: Vec<String>,
    found: Mutex<Examples>,
}

impl ExampleFile {
    /// The file `examples.json` of the package in `folder`, for a document with these paths.
    #[must_use]
    pub fn new(folder: &str, paths: impl IntoIterator<Item = String>) -> Self {
        Self {
            path: Path::new(folder).join("examples.json"),
            paths: paths.into_iter().collect(),
            found: Mutex::default(),
        }
    }

    /// With `UPDATE_EXPECT`, writes the answer to the file if it is a success or a conflict, and no
    /// longer one of the same kind was found in this process.
    ///
    /// # Panics
    ///
    /// The file can't be read or written.
    #[allow(clippy::expect_used)]
    pub fn record(&self, method: &str, address: &str, answer: &Answer) {
        let path = address.split('?').next().unwrap_or_default();
        let is_shown = matches!(answer.status, 200..300 | 409) && !answer.body.is_empty();
        let (true, Some(path)) = (is_shown, self.paths.iter().find(|one| is_of(path, one))) else {
            return;
        };
        if std::env::var_os("UPDATE_EXPECT").is_none() || answer.body.len() > BYTES_MAX {
            return;
        }
        let Some((kind, body)) = body(answer) else { return };
        let mut found = self.found.lock();
        let at = found
            .entry(format!("{method} {path}"))
            .or_default()
            .entry(answer.status.to_string())
            .or_default();
        let length = |body: &Value| body.to_string().len();
        if at.get(&kind).is_some_and(|longer| length(longer) >= length(&body)) {
            return;
        }
        at.insert(kind, body);
        let text = std::fs::read_to_string(&self.path).unwrap_or_else(|_| "{}".to_owned());
        let mut all: Examples = serde_json::from_str(&text).expect("examples");
        for (operation, statuses) in &*found {
            for (status, bodies) in statuses {
                let all = all.entry(operation.clone()).or_default();
                all.entry(status.clone()).or_default().extend(bodies.clone());
            }
        }
        let text = serde_json::to_string_pretty(&all).expect("JSON");
        std::fs::write(&self.path, text + "\n").expect("a file that can be written");
    }
}

/// Checks that every success and every problem of a document has an example, and that each fits its
/// schema and has no member that the schema doesn't name.
///
/// # Errors
///
/// An answer lacks an example, or has one that doesn't fit; Python can't be run.
pub fn check(document: &str) -> anyhow::Result<()> {
    let mut child = Command::new(crate::python()?)
        .args(["-c", CHECK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The script reads everything before it prints.
    child.stdin.take().context("no pipe")?.write_all(document.as_bytes())?;
    let output = child.wait_with_output()?;
    let faults = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && faults.is_empty(),
        "examples of the document: {faults}\nUPDATE_EXPECT=1 writes the answers that tests get"
    );
    Ok(())
}

/// Whether an address is of a path with names in braces.
fn is_of(address: &str, path: &str) -> bool {
    let mut segments = path.split('/').zip(address.split('/'));
    let fits = |(name, segment): (&str, &str)| name == segment || name.starts_with('{') && !segment.is_empty();
    path.split('/').count() == address.split('/').count() && segments.all(fits)
}

/// Media type and body; `None` for pages, and for bytes that are no text.
fn body(answer: &Answer) -> Option<(String, Value)> {
    let kind = answer.header("content-type").split(';').next()?.to_owned();
    let text = std::str::from_utf8(&answer.body).ok()?;
    let body = match kind.as_str() {
        "application/json" | "application/problem+json" => serde_json::from_str(text).ok()?,
        "text/html" => return None,
        _ => Value::from(text),
    };
    Some((kind, settled(body)))
}

/// The body without our random identifiers and secrets.
fn settled(body: Value) -> Value {
    match body {
        Value::String(text) if text.contains('\n') => {
            let words: Vec<String> = text.split_inclusive([',', '"', '\n', ' ']).map(word).collect();
            words.concat().into()
        }
        Value::String(text) => word(&text).into(),
        Value::Array(items) => items.into_iter().map(settled).collect(),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, settled(value)));
            Value::Object(members.collect())
        }
        other => other,
    }
}

fn word(word: &str) -> String {
    let (text, end) = match word.char_indices().last() {
        Some((at, ',' | '"' | '\n' | ' ')) => word.split_at(at),
        _ => (word, ""),
    };
    // An identifier or a secret of ours: `key_...`, `rcpt_...`. A code such as `too_many_entries`
    // has no digits.
    let random = |text: &str| {
        text.len() >= 10
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && text.bytes().any(|byte| byte.is_ascii_digit())
    };
    match text.split_once('_') {
        Some((kind, rest)) if random(rest) && kind.len() <= 4 && kind.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            let rest: String = rest.chars().map(|c| if c == '_' { c } else { RANDOM }).collect();
            format!("{kind}_{rest}{end}")
        }
        _ => word.to_owned(),
    }
}

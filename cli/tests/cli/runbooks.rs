//! The commands and the statements of the runbooks, run on an installation.
//!
//! Commands that append to the embedded log, or replace it, run once `receipts up` has stopped.

use std::collections::BTreeSet;
use std::path::Path;

use crate::command::{Ran, key, ndjson, receipt, receipts, sign};
use crate::running::{Up, execute, new_api_key, on, until};

/// The client of the test's receipts.
const CLIENT: &str = "7d1f6f63-5d0c-4a63-9a5e-0c5c7f1a2b03";

/// Texts between backticks on any page, behind `start`, each in one line.
fn spans(start: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks");
    let pages = std::fs::read_dir(folder).unwrap();
    let texts = pages.map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap());
    let all: String = texts.collect();
    let between = all.split('`').skip(1).step_by(2);
    let found = between.filter_map(|span| span.trim().strip_prefix(start));
    found
        .map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// Every `receipts ...`, up to a pipe or a file.
fn commands() -> BTreeSet<String> {
    let ours = spans("receipts ").into_iter().map(|command| {
        let end = command.find(['|', '<']).unwrap_or(command.len());
        command[..end].trim().to_owned()
    });
    ours.filter(|command| command != "..." && command != "up").collect()
}

/// An installation with a rejected receipt.
struct Installation<'a> {
    dir: &'a Path,
    receipt_id: String,
    signed: Vec<u8>,
    public: String,
}

impl Installation<'_> {
    /// Runs a command of a page, with values instead of its words.
    fn run(&self, command: &str) -> Ran {
        let value = |word| match word {
            "ID" => CLIENT,
            "POSITION" => &self.receipt_id,
            "R" => "batch_abandoned",
            "DOMAIN" => "news.example",
            word => word,
        };
        let words: Vec<&str> = command.split(' ').map(value).collect();
        let data = self.dir.join("data");
        match words[0] {
            "verify" => receipts(&words, &self.signed),
            "clients" => {
                let args = [&words[..], &["--data", data.to_str().unwrap()]].concat();
                receipts(&args, self.public.as_bytes())
            }
            _ => on(&data, &words),
        }
    }

    fn run_all(&self, commands: &[&String]) {
        for command in commands {
            let ran = self.run(command);
            assert_eq!(ran.code, 0, "receipts {command}: {}", ran.stderr);
        }
    }
}

#[test]
fn every_command_and_statement_of_the_runbooks_runs() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    new_api_key(&data, "news.example", &[]);
    let (key_path, public) = key(dir.path(), "Ed25519");
    let up = Up::start(&data);
    let mut signed = sign(&key_path, &[receipt(&public)]);
    let good = ndjson(&signed).into_bytes();
    signed[0]["usage"]["context"] = "changed".into();
    let (gateway, key_text) = (up.url("gateway"), key_path.to_str().unwrap());
    let send = ["send", "--url", &*gateway, "--key", key_text, "--batch", "10"];
    receipts(&send, ndjson(&signed).as_bytes()).expect(0);
    let receipt_id = signed[0]["receiptId"].as_str().unwrap().to_owned();
    until("the rejected receipt", || {
        on(&data, &["rejected", "show", &receipt_id]).code == 0
    });
    let installation = Installation {
        dir: dir.path(),
        receipt_id,
        signed: good,
        public,
    };

    let all = commands();
    let is_offline = |command: &&String| {
        command.starts_with("rewind") || command.starts_with("rejected replay") && !command.contains("--dry-run")
    };
    let (offline, online): (Vec<&String>, Vec<&String>) = all.iter().partition(is_offline);
    assert!(offline.len() > 2 && online.len() > 8, "{all:?}");
    installation.run_all(&online);
    let statements = spans("SELECT ");
    assert!(statements.len() > 1, "{statements:?}");
    for statement in statements {
        execute(&data, &format!("SELECT {statement}"));
    }
    assert_eq!(up.stop(), 0);
    installation.run_all(&offline);
}

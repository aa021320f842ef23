//! The examples of the help: each works as pasted into a shell.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::answering::{accepted, answering, response};
use crate::command::{key, receipts};
use clap::CommandFactory;
use serde_json::{Value, json};

/// Lines that a terminal of 80 columns doesn't wrap: a wrapped command is two when it is pasted.
const COLUMNS_MAX: usize = 80;
/// Programs that examples run beside ours.
const OTHERS: [&str; 7] = ["curl", "jq", "kubectl", "kafka-topics.sh", "man", "source", "openssl"];

/// The examples of a command that has no subcommands, by its words.
struct Examples {
    command: String,
    lines: Vec<String>,
}

impl Examples {
    fn script(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Adds the examples of everything below `command`.
fn collect(command: &clap::Command, words: &str, all: &mut Vec<Examples>) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let words = format!("{words} {}", below.get_name());
        if below.has_subcommands() {
            collect(below, &words, all);
            continue;
        }
        let help = below.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help
            .lines()
            .skip_while(|line| *line != "Examples:")
            .skip(1)
            .take_while(|line| !line.is_empty())
            .map(|line| line.strip_prefix("  ").expect(line).to_owned())
            .collect();
        all.push(Examples { command: words, lines });
    }
}

fn examples() -> Vec<Examples> {
    let mut cli = receipts_cli::command::Cli::command();
    cli.build();
    let mut all = Vec::new();
    collect(&cli, "receipts", &mut all);
    assert!(all.len() > 40, "{} commands", all.len());
    all
}

/// A folder with a program of this name, which runs `script`.
fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a script in `folder` with the programs of `programs` first.
fn shell(script: &str, folder: &Path, programs: &Path) -> std::process::Output {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .env("CALLS", folder.join("calls"))
        .output()
        .unwrap()
}

/// Arguments of each call of `receipts` that an example makes, by a shell.
fn calls(examples: &Examples) -> Vec<Vec<String>> {
    let (home, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    program(
        programs.path(),
        "receipts",
        r#"[ -p /dev/stdin ] && cat > /dev/null; { printf '%s\0' receipts "$@"; printf '\n'; } >> "$CALLS"; echo 'a=1'"#,
    );
    for other in OTHERS {
        program(
            programs.path(),
            other,
            "[ -p /dev/stdin ] && cat > /dev/null; echo text",
        );
    }
    for folder in [
        ".local/share/bash-completion/completions",
        ".zfunc",
        ".config/fish/completions",
    ] {
        fs::create_dir_all(home.path().join(folder)).unwrap();
    }
    for file in ["checks.ndjson", "receipt.json"] {
        fs::write(home.path().join(file), "").unwrap();
    }
    let ran = shell(&examples.script(), home.path(), programs.path());
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && stderr.is_empty(),
        "{}: {stderr}\n{}",
        examples.command,
        examples.script()
    );
    let calls = fs::read_to_string(home.path().join("calls")).unwrap_or_default();
    calls
        .lines()
        .map(|call| call.split_terminator('\0').map(str::to_owned).collect())
        .collect()
}

#[test]
fn every_example_is_a_command_that_parses_and_fits_a_terminal() {
    let mut parsed = 0;
    for examples in examples() {
        for line in &examples.lines {
            let columns = line.chars().count() + 2;
            assert!(
                columns <= COLUMNS_MAX,
                "{}: {columns} columns: {line}",
                examples.command
            );
        }
        let calls = calls(&examples);
        let words: Vec<&str> = examples.command.split(' ').collect();
        assert!(
            calls
                .iter()
                .any(|call| call.starts_with(&words.iter().map(ToString::to_string).collect::<Vec<_>>())),
            "{}: no example of the command itself",
            examples.command
        );
        for mut call in calls {
            // Some examples set variables, which this process doesn't have.
            if call[1] == "new" && !call.contains(&"--client-name".to_owned()) {
                let options = ["--client-name=a", "--client-version=1", "--organization=b"];
                call.extend(options.map(str::to_owned));
            } else if call[1] == "tail" {
                call.push("--api-key=a".to_owned());
            }
            let matches = receipts_cli::command::Cli::command().try_get_matches_from(&call);
            assert!(matches.is_ok(), "{call:?}: {}", matches.unwrap_err());
            parsed += 1;
        }
    }
    assert!(parsed > 80, "{parsed} commands");
}

/// A folder with the files that examples name.
fn workshop() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_receipts"), programs.join("receipts")).unwrap();
    (folder, programs)
}

/// Runs the examples of one command, except those that need a network.
fn run(command: &str, folder: &Path, programs: &Path) {
    let examples = examples();
    let examples = examples.iter().find(|one| one.command == command).unwrap();
    // Continuation lines belong to the command before.
    let script = examples.script().replace("\\\n", " ").replace("|\n", "| ");
    for line in script
        .lines()
        .filter(|line| !line.contains("://") || line.contains("new https://"))
    {
        let ran = shell(
            &line.replace("curl -s https://news.example/lead", "cat article.html"),
            folder,
            programs,
        );
        assert!(
            ran.status.success(),
            "{line}: {}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}

#[test]
fn the_examples_of_senders_run_in_the_order_of_the_help() {
    let (folder, programs) = workshop();
    let folder = folder.path();
    run("receipts keygen", folder, &programs);
    fs::remove_file(folder.join("client.key")).unwrap();
    fs::remove_file(folder.join("client.key.pub")).unwrap();
    // Each line has a shell of its own here, so the variables are set for all of them.
    let new = examples()
        .into_iter()
        .find(|one| one.command == "receipts new")
        .unwrap();
    let script = new
        .script()
        .replace("curl -s https://news.example/lead", "cat article.html");
    let ran = shell(&script, folder, &programs);
    assert!(
        ran.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );

    let receipt = fs::read_to_string(folder.join("receipt.json")).unwrap();
    fs::write(folder.join("receipts.ndjson"), receipt.repeat(2)).unwrap();
    let batch = format!(r#"{{"version":"1.0.0","batchId":"b-1","receipts":[{receipt}]}}"#);
    fs::write(folder.join("batch.json"), batch).unwrap();
    run("receipts sign", folder, &programs);
    fs::rename(folder.join("signed.json"), folder.join("receipt.json")).unwrap();
    run("receipts canonicalize", folder, &programs);
}

#[test]
fn the_help_is_in_groups_and_the_version_names_the_engine() {
    let help = receipts(&["--help"], b"").expect(0).stdout;
    let headings: Vec<&str> = help
        .lines()
        .filter(|line| line.ends_with(':') && !line.starts_with(' '))
        .collect();
    assert_eq!(headings[0], "To try it out:", "{help}");
    assert!(headings.len() > 5, "{help}");
    let version = receipts(&["--version"], b"").expect(0).stdout;
    let lines: Vec<&str> = version.lines().collect();
    assert_eq!(lines[0], format!("receipts {}", env!("CARGO_PKG_VERSION")));
    assert!(
        lines[1].starts_with("commit  ") && lines[2].starts_with("engine  libchdb "),
        "{version}"
    );
    assert_eq!(receipts(&["-V"], b"").expect(0).stdout.lines().count(), 1);
}

#[test]
fn completions_and_man_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = receipts(&["completions", shell], b"").expect(0).stdout;
        for word in ["raw-signatures", "set-tier", "--client-name"] {
            assert!(
                script.contains(word.trim_start_matches('-')),
                "{shell} doesn't know {word}"
            );
        }
    }
    receipts(&["completions", "cmd"], b"").expect(2);
    let bash = receipts(&["completions", "bash"], b"").expect(0).stdout;
    // What bash offers behind `receipts ver`.
    let script = format!("{bash}\nCOMP_WORDS=(receipts ver) COMP_CWORD=1; _receipts receipts ver; echo \"$COMPREPLY\"");
    let folder = tempfile::tempdir().unwrap();
    // Longer than an argument may be.
    let file = folder.path().join("completed.bash");
    fs::write(&file, script).unwrap();
    let completed = Command::new("bash").arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "verify");

    let out = folder.path().join("man1");
    receipts(&["man", "--out", out.to_str().unwrap()], b"").expect(0);
    let pages = fs::read_dir(&out).unwrap().count();
    assert!(pages > examples().len(), "{pages} pages");
    let page = fs::read_to_string(out.join("receipts-keys-create.1")).unwrap();
    assert!(page.starts_with(".ie") && page.contains("Examples:"), "{page}");
    let first = receipts(&["man"], b"").expect(0).stdout;
    assert!(first.contains("receipts\\-verify(1)"), "{first}");
    receipts(&["man", "--out", "/proc/none"], b"").expect(2);
}

/// A receipt in Go: its canonical form is another program's, and so are its characters.
#[test]
fn the_sender_in_go_sends_what_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let (key, _) = key(folder.path(), "Ed25519");
    let (url, came) = answering(|n| match n {
        0 => response("404 Not Found", "", "<html>"),
        _ => accepted(),
    });
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/go/sender.go");
    let context = "\u{e9}\u{20ac}\u{1f600}\u{2028}\u{7f}\n\"\\/<>& \u{1} \\u2028";
    let content_use = |context: &str| json!({"url": "https://news.example/2026/11/lead", "purpose": "inference", "context": context, "content": "hello"});
    let uses = folder.path().join("uses.ndjson");
    fs::write(&uses, format!("{}\n{}\n", content_use(context), content_use("b"))).unwrap();
    let ran = Command::new("go")
        .args(["run", source, "-url", &url, "-key"])
        .arg(&key)
        .args(["-client-id", "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10", "-name", "Atlas"])
        .args(["-version", "3.1", "-organization", "Example Labs"])
        .stdin(fs::File::open(&uses).unwrap())
        .env("GOTOOLCHAIN", "local")
        .current_dir(folder.path())
        .output()
        .expect("scripts/install-deps installs Go");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(answer["receiptCount"], 2);
    let bodies: Vec<Vec<u8>> = came.try_iter().map(|request| request.body).collect();
    assert_eq!(
        (bodies.len(), &bodies[0]),
        (2, &bodies[1]),
        "a page of a proxy is no answer"
    );
    let verified = receipts(&["verify"], &bodies[0]).expect(0).lines();
    assert_eq!(verified.len(), 2);
    let batch: Value = serde_json::from_slice(&bodies[0]).unwrap();
    let receipt = &batch["receipts"][0];
    assert_eq!(receipt["usage"]["context"], context);
    assert_eq!(receipt["content"]["entryId"], "69f09ffd-d89e-5092-b485-1da5d197cce5");
}

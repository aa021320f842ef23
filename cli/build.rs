//! Sets `RECEIPTS_BUILD_SHORT_COMMIT` for the version that the command shows. `cargo run` passes
//! it on to the command, whose configuration ignores `RECEIPTS_BUILD_*`.
//!
//! `RECEIPTS_BUILD_COMMIT` has precedence, for builds without a checkout. Otherwise a release build
//! contains the commit of its checkout. A debug build contains `unknown`, so that a commit doesn't
//! compile this package again, and so does a build without Git.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Variable that names the commit.
const GIVEN: &str = "RECEIPTS_BUILD_COMMIT";
/// Hexadecimal digits that are shown.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={GIVEN}");
    let given = std::env::var(GIVEN).ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| {
        let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
        is_release.then(checked_out).flatten()
    });
    let commit = commit
        .filter(|commit| commit.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .unwrap_or_else(|| "unknown".to_owned());
    let shown = commit.get(..DIGITS).unwrap_or(&commit);
    println!("cargo::rustc-env=RECEIPTS_BUILD_SHORT_COMMIT={shown}");
}

/// The commit of this checkout. `None` without Git, and in sources that are unpacked below another
/// repository.
fn checked_out() -> Option<String> {
    let package = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    let root = Path::new(&package).parent()?.canonicalize().ok()?;
    let top = PathBuf::from(git(&root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root {
        return None;
    }
    // A line is added to this file at each commit and checkout. Cargo would take a file that is
    // absent for a changed one, and rebuild always.
    let history = root.join(git(&root, &["rev-parse", "--git-path", "logs/HEAD"])?);
    if history.exists() {
        println!("cargo::rerun-if-changed={}", history.display());
    }
    git(&root, &["rev-parse", "HEAD"])
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

//! Python with what tests use from PyPI.

use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

/// Path of the interpreter in the environment that scripts/fetch-python makes, which it does now
/// if it is missing.
///
/// # Errors
///
/// The packages can't be fetched.
pub fn python() -> anyhow::Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fetch-python");
    let output = Command::new(script).arg("--path").output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{script}: {errors}");
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

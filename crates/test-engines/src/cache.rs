//! Folder of the files that the scripts fetch.

use std::path::PathBuf;

use anyhow::Context;

/// Path of `name` in the cache, where the scripts put what they fetch.
pub(crate) fn cached(name: &str) -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("receipts").join(name))
}

//! The version that `-V` and `--version` show.

/// `-V`: the version of this package.
pub const SHORT: &str = env!("CARGO_PKG_VERSION");

/// Commit that this program was built from, or `unknown`.
pub const COMMIT: &str = env!("RECEIPTS_BUILD_SHORT_COMMIT");

/// `--version`: version, commit, and the engine that `receipts up` loads.
pub const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit  ",
    env!("RECEIPTS_BUILD_SHORT_COMMIT"),
    "\nengine  libchdb 26.7.3-stable.1 (ClickHouse)"
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_engine_is_the_one_that_is_fetched() {
        let script = include_str!("../../scripts/fetch-chdb");
        let version = script.lines().find_map(|line| line.strip_prefix("version="));
        let version = version.expect("scripts/fetch-chdb names a version");
        assert!(LONG.contains(&format!("libchdb {version} ")), "{LONG}");
    }
}

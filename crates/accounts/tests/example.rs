//! `receipts.example.toml` says of `[accounts]` what the code says: every key, with its default.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use accounts::AccountsConfig;

const EXAMPLE: &str = include_str!("../../../receipts.example.toml");

#[test]
fn the_example_shows_every_key_with_its_default() {
    let section = EXAMPLE.split_once("\n[accounts]\n").unwrap().1;
    let section = section.split("\n[").next().unwrap();
    let keys: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| is_key(line))
        .collect();
    let mut given: toml::Table = toml::from_str(&keys.join("\n")).unwrap();
    assert_eq!(given.remove("url"), Some("".into()), "empty stands for SQLite");
    let config: AccountsConfig = given.clone().try_into().unwrap();
    assert_eq!(config, AccountsConfig::default());
    for key in ["connections_max", "wait_ms_max", "cache_entries_max", "cache_ms_max"] {
        assert!(given.remove(key).is_some(), "{key} is missing");
    }
    assert!(given.is_empty(), "{given:?}");
}

fn is_key(line: &str) -> bool {
    let key = line.split_once(" = ").map(|(key, _)| key);
    key.is_some_and(|key| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

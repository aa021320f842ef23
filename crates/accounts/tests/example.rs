//! `receipts.example.toml` lists every key of `[accounts]` and `[policy]` with its default.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use accounts::{AccountsConfig, PolicyConfig};

const EXAMPLE: &str = include_str!("../../../receipts.example.toml");

/// The keys of a section, with the values that its comments show.
fn shown(section: &str) -> toml::Table {
    let section = EXAMPLE.split_once(&format!("\n[{section}]\n")).unwrap().1;
    let section = section.split("\n[").next().unwrap();
    let keys: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| is_key(line))
        .collect();
    toml::from_str(&keys.join("\n")).unwrap()
}

#[test]
fn the_example_shows_every_key_of_accounts_with_its_default() {
    let mut given = shown("accounts");
    assert_eq!(given.remove("url"), Some("".into()), "empty stands for SQLite");
    let config: AccountsConfig = given.clone().try_into().unwrap();
    assert_eq!(config, AccountsConfig::default());
    for key in [
        "allow_plaintext",
        "connections_max",
        "wait_ms_max",
        "cache_entries_max",
        "cache_ms_max",
        "free_keys_max",
        "pro_keys_max",
        "enterprise_keys_max",
        "session_idle_minutes_max",
        "session_hours_max",
    ] {
        assert!(given.remove(key).is_some(), "{key} is missing");
    }
    assert!(given.is_empty(), "{given:?}");
}

#[test]
fn the_example_shows_every_key_of_policy_with_its_default() {
    let given = shown("policy");
    let config: PolicyConfig = given.clone().try_into().unwrap();
    assert_eq!(config, PolicyConfig::default());
    assert_eq!(given, toml::Table::try_from(config).unwrap(), "every key is shown");
}

fn is_key(line: &str) -> bool {
    let key = line.split_once(" = ").map(|(key, _)| key);
    key.is_some_and(|key| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

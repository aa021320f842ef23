//! `receipts.example.toml` says of this crate's sections what the code says: every key, with its
//! default.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use service::config::{SECTIONS, Source, Validate, known_keys};
use service::rate_limit::QuotasConfig;
use service::telemetry::TelemetryConfig;

const EXAMPLE: &str = include_str!("../../../../receipts.example.toml");

/// The example with every `# key = value` line taken as given.
fn uncommented() -> String {
    let key_line = |line: &str| {
        let key = line.strip_prefix("# ")?.split_once(" = ")?.0;
        key.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            .then(|| line[2..].to_owned())
    };
    EXAMPLE
        .lines()
        .map(|line| key_line(line).unwrap_or_else(|| line.to_owned()) + "\n")
        .collect()
}

fn check<T: DeserializeOwned + Default + Validate + PartialEq + std::fmt::Debug>(section: &str) {
    let table: toml::Table = toml::from_str(&uncommented()).unwrap();
    let shown: BTreeSet<&str> = table[section].as_table().unwrap().keys().map(String::as_str).collect();
    assert_eq!(shown, known_keys::<T>().iter().copied().collect(), "[{section}]");
    let mut source = Source::from_parts::<&str, &str>(&uncommented(), []).unwrap();
    assert_eq!(source.section::<T>(section), T::default(), "[{section}]");
    source.finish().unwrap();
}

#[test]
fn the_example_shows_every_key_with_its_default() {
    check::<TelemetryConfig>("telemetry");
    check::<QuotasConfig>("quotas");
}

#[test]
fn the_example_as_it_stands_sets_nothing_and_knows_only_sections() {
    let table: toml::Table = toml::from_str(EXAMPLE).unwrap();
    for (section, keys) in table {
        assert!(SECTIONS.contains(&section.as_str()), "[{section}]");
        assert!(keys.as_table().unwrap().is_empty(), "[{section}]");
    }
}

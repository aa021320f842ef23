//! The list of metrics against the code of all crates: nothing recorded that isn't listed, nothing
//! listed that isn't recorded, and each as the kind it is recorded as.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use service::metrics::{METRICS, MetricKind};

use crate::rust_files::rust_files;

const KINDS: &[(&str, MetricKind)] = &[
    ("counter!(", MetricKind::Counter),
    ("gauge!(", MetricKind::Gauge),
    ("histogram!(", MetricKind::Histogram),
];

/// The Rust files under `src` of every crate.
fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = [
        "gateway",
        "webhook",
        "verifier",
        "writer",
        "analytics-api",
        "publisher-api",
        "cli",
    ]
    .map(|name| root.join(name));
    let leaves = std::fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = crates.into_iter().chain(leaves).map(|path| path.join("src")).collect();
    rust_files(folders)
}

/// Metrics that a file records: the text in quotes that follows a recording macro.
fn recorded(text: &str) -> Vec<(String, MetricKind)> {
    let of_kind = |(call, kind): &(&str, MetricKind)| {
        let names = text.split(call).skip(1).filter_map(|rest| {
            let name = rest.trim_start().strip_prefix('"')?.split_once('"')?.0;
            // What tests record for themselves is nobody's interface.
            (!name.starts_with("receipts_test_")).then(|| name.to_owned())
        });
        names.map(|name| (name, *kind)).collect::<Vec<_>>()
    };
    KINDS.iter().flat_map(of_kind).collect()
}

#[test]
fn the_list_is_what_the_code_records() {
    let mut found = BTreeMap::new();
    for file in sources() {
        for (name, kind) in recorded(&std::fs::read_to_string(&file).unwrap()) {
            found.insert(name, (kind, file.clone()));
        }
    }
    assert!(found.len() > 10, "the search itself found too little: {found:?}");
    for (name, (kind, file)) in &found {
        let listed = METRICS.iter().find(|row| row.name == name);
        let Some(listed) = listed else {
            panic!(
                "{name} of {} isn't in service::metrics::METRICS: add its row",
                file.display()
            );
        };
        assert_eq!(listed.kind, *kind, "{name}");
    }
    for row in METRICS {
        assert!(
            found.contains_key(row.name),
            "{} is listed and nothing records it",
            row.name
        );
    }
}

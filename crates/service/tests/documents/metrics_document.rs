//! docs/metrics.md against the list of metrics: what stands between the two marks is written from
//! it.

use std::fmt::Write as _;
use std::path::Path;

use service::metrics::labels::{Values, values_of};
use service::metrics::{METRICS, MetricDoc, MetricKind};

const BEGIN: &str = "<!-- service::metrics::METRICS: UPDATE_EXPECT=1 cargo test -p service --test documents -->\n";
const END: &str = "<!-- end -->\n";

/// Areas by the name's second word, in the order of the document.
const AREAS: &[(&str, &[&str])] = &[
    ("Gateway", &["gateway"]),
    ("Log", &["log", "kafka"]),
    ("Verifier", &["verifier", "registry", "shard"]),
    ("Writer", &["writer"]),
    ("Warehouse", &["warehouse"]),
    ("Completeness and the books", &["watermark", "audit", "usage"]),
    (
        "APIs",
        &[
            "api",
            "analytics",
            "live",
            "publisher",
            "mails",
            "outbound",
            "accounts",
            "registry",
        ],
    ),
    ("Limits", &["limiter", "rate"]),
    (
        "Every process",
        &["build", "certificate", "component", "cpu", "telemetry"],
    ),
];

fn area(row: &MetricDoc) -> Option<&'static str> {
    let word = row.area();
    AREAS
        .iter()
        .find(|(_, words)| words.contains(&word))
        .map(|(area, _)| *area)
}

fn labels(row: &MetricDoc) -> String {
    let shown = row.labels.iter().map(|label| match values_of(row.name, label) {
        Some(Values::OneOf(values)) => format!("`{label}`: {}", values.join(", ")),
        Some(Values::Named(what)) => format!("`{label}`: {what}"),
        None => panic!("{} {label}: add its values to service::metrics::labels", row.name),
    });
    shown.collect::<Vec<_>>().join("<br>")
}

fn tables() -> String {
    let mut out = String::new();
    for (area_name, _) in AREAS {
        write!(
            out,
            "\n### {area_name}\n\n| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n"
        )
        .unwrap();
        let mut rows: Vec<_> = METRICS.iter().filter(|row| area(row) == Some(area_name)).collect();
        rows.sort_by_key(|row| row.name);
        for row in rows {
            let kind = match row.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            writeln!(
                out,
                "| `{}` | {kind} | {} | {} | {} |",
                row.name,
                row.unit,
                labels(row),
                row.help
            )
            .unwrap();
        }
    }
    out.push('\n');
    out
}

#[test]
fn the_document_is_the_list() {
    for row in METRICS {
        assert!(area(row).is_some(), "{}: add its area to this test", row.name);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text
        .split_once(BEGIN)
        .expect("the document has the mark of the list's begin");
    let (_, after) = rest
        .split_once(END)
        .expect("the document has the mark of the list's end");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text == wanted, "docs/metrics.md isn't what the list says: {BEGIN}");
    // What people wrote around it names metrics that exist.
    for word in [before, after]
        .concat()
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
    {
        if word.starts_with("receipts_") {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| word.strip_suffix(suffix))
                .unwrap_or(word);
            assert!(
                METRICS.iter().any(|row| row.name == base),
                "docs/metrics.md names {word}"
            );
        }
    }
}

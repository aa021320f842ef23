//! Alerts, dashboards and runbooks against each other and against the list of metrics: nobody is
//! woken by an alert without a page, and nothing requests a metric that isn't recorded. What
//! promtool can say is said by `make alerts`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use service::metrics::MetricDoc;
use service::metrics::labels::{Values, values_of};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Name and text of each file of a folder with this extension.
fn files(folder: &str, extension: &str) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let wanted = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    let read = wanted.map(|path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).unwrap())
    });
    let read: BTreeMap<_, _> = read.collect();
    assert!(!read.is_empty(), "{folder} has no .{extension}");
    read
}

/// Texts that follow `key` on their line, in each line that has it.
fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(move |line| line.trim().strip_prefix(key))
        .map(str::trim)
}

fn alerts() -> BTreeSet<String> {
    let rules = files("helm/receipts/files/rules", "yaml");
    let names = rules.values().flat_map(|text| values(text, "- alert:"));
    let mut found = BTreeSet::new();
    for name in names {
        assert!(found.insert(name.to_owned()), "{name} is there twice");
    }
    assert!(found.len() > 20, "the search itself found too little: {found:?}");
    found
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let alerts = alerts();
    let pages = files("docs/runbooks", "md");
    let names: BTreeSet<_> = pages.keys().filter(|name| *name != "README").cloned().collect();
    assert_eq!(alerts, names);
    for (name, page) in &pages {
        if name == "README" {
            for alert in &alerts {
                assert!(
                    page.contains(&format!("[{alert}]({alert}.md)")),
                    "docs/runbooks/README.md lacks {alert}"
                );
            }
            continue;
        }
        let headings: Vec<_> = page.lines().filter(|line| line.starts_with('#')).collect();
        let wanted = [
            &*format!("# {name}"),
            "## What users feel",
            "## How long it may wait",
            "## Confirm",
            "## Causes, most likely first",
            "## Fix",
            "## Over when",
        ];
        assert_eq!(headings, wanted);
    }
}

/// The query that a runbook confirms its alert with, and the panel that shows it.
fn confirmation(page: &str) -> (&str, &str) {
    let confirm = page.split_once("## Confirm\n\n```promql\n").unwrap().1;
    let (query, rest) = confirm.split_once("\n```\n\nPanel: `/d/").unwrap();
    (query, rest.lines().next().unwrap())
}

#[test]
fn every_runbook_has_one_query_to_confirm_and_a_panel_that_is_there() {
    let dashboards = files("helm/receipts/files/dashboards", "json");
    for (name, page) in files("docs/runbooks", "md") {
        if name == "README" {
            continue;
        }
        let (query, panel) = confirmation(&page);
        assert!(!query.is_empty() && !query.contains('\n'), "{name}: {query}");
        // ID?viewPanel=NUMBER` (TITLE).
        let (location, title) = panel.split_once("` (").unwrap();
        let (dashboard, number) = location.split_once("?viewPanel=").unwrap();
        let text = dashboards
            .get(dashboard)
            .unwrap_or_else(|| panic!("{name}: no dashboard {dashboard}"));
        let wanted = format!("\"title\": \"{}\",", title.trim_end_matches(")."));
        let at_panel = text.split_once(&format!("\"id\": {number},\n")).map(|(_, rest)| rest);
        let found = at_panel.and_then(|rest| rest.lines().find(|line| line.trim_start().starts_with("\"title\"")));
        assert_eq!(found.map(str::trim), Some(&*wanted), "{name}: {panel}");
    }
}

#[test]
fn every_alert_says_how_bad_it_is_what_users_feel_and_where_its_page_is() {
    for (file, text) in files("helm/receipts/files/rules", "yaml") {
        for block in text.split("- alert:").skip(1) {
            let name = block.lines().next().unwrap().trim();
            let severity: Vec<_> = values(block, "severity:").collect();
            assert!(
                matches!(severity[..], ["critical" | "warning"]),
                "{file} {name}: {severity:?}"
            );
            assert!(block.contains("summary:"), "{file} {name}");
            let page: Vec<_> = values(block, "runbook_url:").collect();
            assert_eq!(page, [format!("docs/runbooks/{name}.md")]);
        }
    }
}

#[test]
fn every_alert_is_tested_both_ways() {
    let tests = files("helm/alert-tests", "yaml").into_values().collect::<String>();
    for alert in alerts() {
        for way in ["fires", "stays quiet"] {
            assert!(
                tests.contains(&format!("- name: {alert} {way}\n")),
                "helm/alert-tests has no case: {alert} {way}"
            );
        }
    }
}

#[test]
fn outages_are_tested_with_alertmanagers_rules() {
    let rules = std::fs::read_to_string(root().join("helm/receipts/files/alertmanager.yaml")).unwrap();
    let tests = std::fs::read_to_string(root().join("helm/alert-tests/outages.yaml")).unwrap();
    let sources: Vec<_> = values(&rules, "- source_matchers: [")
        .map(|source| source.trim_end_matches(']'))
        .collect();
    let targets: Vec<_> = values(&rules, "- alertname").collect();
    assert_eq!(sources.len(), targets.len());
    assert_eq!(
        tests.matches("unless on (namespace, release, alertname)").count(),
        sources.len()
    );
    for (source, target) in sources.iter().zip(targets) {
        let inhibited = format!("ALERTS{{alertname{target}}}\n          and on (namespace, release) ");
        let by = format!("ALERTS{{alertstate=\"firing\", {source}}}");
        assert!(tests.contains(&(inhibited + &by)), "{source} {target}");
    }
}

/// Parts of a dashboard's query that show that it is of errors.
const ERRORS: &[&str] = &[
    "_refused_total",
    "_failures_total",
    "_errors_total",
    "_timeouts_total",
    "status=~\\\"5..",
];

#[test]
fn panels_of_errors_show_0_without_one() {
    let mut seen = 0;
    for (file, text) in files("helm/receipts/files/dashboards", "json") {
        let of_errors = |query: &&str| ERRORS.iter().any(|part| query.contains(part));
        for query in values(&text, "\"expr\":").filter(of_errors) {
            seen += 1;
            assert!(query.contains("or on() vector(0)"), "{file}: {query} has no data");
        }
    }
    assert!(seen > 8, "the search itself found too little: {seen}");
}

/// The metrics that a text names, with the selector behind each.
fn named(text: &str) -> Vec<(String, String)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("receipts") {
        let starts = rest[..at].chars().next_back().is_none_or(|c| !is_word(c));
        let word: String = rest[at..].chars().take_while(|c| is_word(*c)).collect();
        rest = &rest[at + word.len().max(1)..];
        // "receipts:" with nothing behind it is prose.
        if starts && (word.starts_with("receipts_") || word.starts_with("receipts:")) && word.len() > "receipts:".len()
        {
            let selector = rest
                .strip_prefix('{')
                .and_then(|inner| inner.split_once('}'))
                .map(|(inner, _)| inner);
            found.push((word, selector.unwrap_or_default().to_owned()));
        }
    }
    found
}

/// Labels that Prometheus and the cluster put to every series, and the file's own.
const ADDED: &[&str] = &["job", "instance", "namespace", "release", "pod", "le"];

#[test]
fn nothing_asks_for_a_metric_a_label_or_a_value_that_isnt_there() {
    let rules = files("helm/receipts/files/rules", "yaml");
    let records: BTreeSet<_> = rules.values().flat_map(|text| values(text, "- record:")).collect();
    let dashboards = files("helm/receipts/files/dashboards", "json");
    let tests = files("helm/alert-tests", "yaml");
    // The questions by which KEDA scales verifiers and writers: other label matchers are the
    // release's.
    let mut asked = files("helm/receipts/templates", "tpl");
    asked.retain(|name, _| name == "_seconds_to_drain");
    for text in asked.values_mut() {
        *text = text.replace(" {{- . -}} ", "namespace=\"r\"");
        assert_eq!(named(text).len(), 8, "{text}");
        for query in text.lines().filter(|line| line.starts_with('(')) {
            assert!(
                tests["scaling"].contains(query),
                "no test in helm/alert-tests of {query}"
            );
        }
    }
    let mut pages = files("docs/runbooks", "md");
    pages.remove("README");
    for page in pages.values_mut() {
        *page = confirmation(page).0.to_owned();
    }
    for (file, text) in rules
        .iter()
        .chain(&dashboards)
        .chain(&tests)
        .chain(&asked)
        .chain(&pages)
    {
        let text = text.replace("\\\"", "\"");
        // A group's or a dashboard's own name isn't a series; metrics have underscores, those have
        // hyphens.
        for (series, selector) in named(&text) {
            if records.contains(series.as_str()) {
                continue;
            }
            let row =
                MetricDoc::of_series(&series).unwrap_or_else(|| panic!("{file} names {series}, which nothing records"));
            for matcher in selector.split(',').filter(|matcher| !matcher.trim().is_empty()) {
                let (label, value) = matcher.split_once(['=', '!']).unwrap();
                let label = label.trim();
                if ADDED.contains(&label) {
                    continue;
                }
                assert!(row.labels.contains(&label), "{file}: {series} has no label {label}");
                if let Some(Values::OneOf(all)) = values_of(row.name, label) {
                    for one in value.trim_start_matches(['=', '~']).trim_matches('"').split('|') {
                        let variable = one.starts_with('$') || one.contains('.');
                        assert!(
                            variable || all.contains(&one),
                            "{file}: {series} {label} is never {one}"
                        );
                    }
                }
            }
        }
    }
}

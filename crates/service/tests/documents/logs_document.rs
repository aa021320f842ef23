//! docs/logs.md against the code of all crates: every field of every line is in its table, and the
//! table has no other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::rust_files::rust_files;

const MACROS: &[&str] = &[
    "error!(",
    "warn!(",
    "info!(",
    "debug!(",
    "trace!(",
    "info_span!(",
    "debug_span!(",
    "warn_span!(",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Rust files under `src` of every crate that is part of a service.
fn sources() -> Vec<PathBuf> {
    let services = [
        "gateway",
        "webhook",
        "verifier",
        "writer",
        "analytics-api",
        "publisher-api",
        "cli",
    ]
    .map(|name| root().join(name));
    let leaves = std::fs::read_dir(root().join("crates")).unwrap();
    let leaves = leaves
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("test-engines"));
    let folders: Vec<PathBuf> = services
        .into_iter()
        .chain(leaves)
        .map(|path| path.join("src"))
        .collect();
    rust_files(folders)
}

/// The arguments of a macro, cut at its commas, up to the first that is a text: the message, or a
/// span's name.
fn arguments(rest: &str) -> Vec<String> {
    let (mut depth, mut quoted, mut escaped) = (0_i32, false, false);
    let mut found = vec![String::new()];
    for c in rest.chars() {
        if quoted {
            quoted = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            found.last_mut().unwrap().push(c);
            continue;
        }
        match c {
            '"' => quoted = true,
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        found.last_mut().unwrap().push(c);
    }
    found
        .iter()
        .map(|one| one.trim().to_owned())
        .filter(|one| !one.is_empty())
        .collect()
}

/// The names of an event's or a span's fields.
fn fields(call: &str, rest: &str) -> Vec<String> {
    let span = call.contains("_span");
    let own = arguments(rest).into_iter().skip(usize::from(span));
    let before = own.take_while(|one| !one.starts_with('"'));
    let names = before.filter(|one| !one.starts_with("target:")).map(|one| {
        let name = one.split_once('=').map_or(&*one, |(name, _)| name).trim();
        // `%self.name` isn't written here: a field without a name of its own has its expression's
        // last word.
        name.trim_start_matches(['%', '?'])
            .rsplit('.')
            .next()
            .unwrap()
            .to_owned()
    });
    names.collect()
}

#[test]
fn every_field_of_every_line_is_documented_and_no_other() {
    let mut used: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut calls = 0;
    for file in sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        // What tests log is nobody's interface.
        let text = text.split("\n#[cfg(test)]").next().unwrap();
        for call in MACROS {
            for (at, _) in text.match_indices(call) {
                let before = text[..at].chars().next_back().unwrap_or(' ');
                if before.is_alphanumeric()
                    || before == '_'
                    || text[..at]
                        .lines()
                        .last()
                        .is_some_and(|l| l.trim_start().starts_with("//"))
                {
                    continue;
                }
                calls += 1;
                for field in fields(call, &text[at + call.len()..]) {
                    assert!(
                        field
                            .bytes()
                            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                        "{}: the field {field:?} isn't in snake_case",
                        file.display()
                    );
                    used.insert(field, file.clone());
                }
            }
        }
    }
    assert!(calls > 80, "the search itself found too little: {calls}");
    let text = std::fs::read_to_string(root().join("docs/logs.md")).unwrap();
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    let missing: Vec<_> = used.iter().filter(|(field, _)| !listed.contains(*field)).collect();
    assert!(missing.is_empty(), "add these fields to docs/logs.md: {missing:#?}");
    // What the format itself writes.
    let own = ["timestamp", "level", "target", "message", "span", "spans", "left_out"].map(str::to_owned);
    let unused: Vec<_> = listed
        .iter()
        .filter(|field| !used.contains_key(*field) && !own.contains(field))
        .collect();
    assert!(
        unused.is_empty(),
        "docs/logs.md lists fields that no line has: {unused:?}"
    );
}

#[test]
fn arguments_end_at_their_message() {
    let one = |rest: &str| fields("warn!(", rest);
    assert_eq!(
        one("a = f(b, c), %error, ?x, self.y, \"text, {}\", d); let e = 1"),
        ["a", "error", "x", "y"]
    );
    assert_eq!(one("\"text\")"), Vec::<String>::new());
    assert_eq!(one("target: \"t\", n = \"a \\\" , b\", \"text\")"), ["n"]);
    assert_eq!(
        fields("info_span!(", "\"request\", request_id = %id, route)"),
        ["request_id", "route"]
    );
}

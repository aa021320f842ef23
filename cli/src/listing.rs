//! Rows and objects for people and programs, both from one `Serialize` type: the members' names
//! are the columns.

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::terminal::{BAD, GOOD, HEAD, Output, WARN, paint, visible};

/// Members of an object, in the order in which its type declares them.
type Members = IndexMap<String, Value>;

/// Writes rows: as one array with `as_json`, otherwise as a table of these members.
///
/// # Errors
/// Standard output can't be written.
pub fn list(rows: &[impl Serialize], as_json: bool, columns: &[&str]) -> Result<CommandOutcome, CommandFailure> {
    let mut out = Output::stdout();
    if as_json {
        out.line(to_json(&rows)?)?;
    } else {
        for line in table(&members::<Vec<Members>>(&rows)?, columns) {
            out.line(line)?;
        }
    }
    out.flush()?;
    Ok(CommandOutcome::Good)
}

/// Writes an object: as JSON with `as_json`, otherwise a line for each member, and below it a table
/// for each list of objects, with these members.
///
/// # Errors
/// Standard output can't be written.
pub fn show(
    object: &impl Serialize,
    as_json: bool,
    tables: &[(&str, &[&str])],
) -> Result<CommandOutcome, CommandFailure> {
    let mut out = Output::stdout();
    if as_json {
        out.line(to_json(object)?)?;
    } else {
        for line in lines(&members(object)?, tables)? {
            out.line(line)?;
        }
    }
    out.flush()?;
    Ok(CommandOutcome::Good)
}

/// Writes a report: as JSON with `as_json`, otherwise its lines.
///
/// # Errors
/// Standard output can't be written.
pub fn report(report: &impl Serialize, as_json: bool, lines: &[String]) -> Result<(), CommandFailure> {
    let mut out = Output::stdout();
    if as_json {
        out.line(to_json(report)?)?;
    } else {
        for line in lines {
            out.line(line)?;
        }
    }
    out.flush()
}

/// A value as one line of JSON.
///
/// # Errors
/// The value can't be JSON, such as a map with keys that aren't texts.
pub fn to_json(value: &impl Serialize) -> Result<String, CommandFailure> {
    serde_json::to_string(value).map_err(CommandFailure::unavailable)
}

fn members<T: serde::de::DeserializeOwned>(value: &impl Serialize) -> Result<T, CommandFailure> {
    serde_json::from_str(&to_json(value)?).map_err(CommandFailure::unavailable)
}

fn table(rows: &[Members], columns: &[&str]) -> Vec<String> {
    let cell = |row: &Members, column: &str| row.get(column).map_or_else(String::new, text);
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            let cells = rows.iter().map(|row| cell(row, column).chars().count());
            cells.chain([column.len()]).max().unwrap_or_default()
        })
        .collect();
    let line = |cells: Vec<String>| {
        let padded = cells.iter().zip(columns).zip(&widths);
        let padded = padded.map(|((cell, column), width)| {
            let padding = width - cell.chars().count();
            format!("{}{:padding$}", painted(column, cell), "")
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let heading = paint(HEAD, line(columns.iter().map(|&column| column.to_owned()).collect()));
    let rows = rows
        .iter()
        .map(|row| line(columns.iter().map(|column| cell(row, column)).collect()));
    std::iter::once(heading).chain(rows).collect()
}

fn lines(object: &Members, tables: &[(&str, &[&str])]) -> Result<Vec<String>, CommandFailure> {
    let mut plain = Vec::new();
    let mut below = Vec::new();
    for (name, value) in object {
        match (value, tables.iter().find(|(table, _)| table == name)) {
            (rows, Some((_, columns))) => {
                below.extend([String::new(), paint(HEAD, name)]);
                below.extend(table(&members::<Vec<Members>>(rows)?, columns));
            }
            (Value::Object(inner), None) => {
                plain.extend(inner.iter().map(|(inner, value)| {
                    let inner = visible(inner);
                    (format!("{name}.{inner}"), text(value))
                }));
            }
            (value, None) => plain.push((name.clone(), text(value))),
        }
    }
    let width = plain.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let plain = plain.iter().map(|(name, text)| {
        let head = paint(HEAD, format_args!("{name:<width$}"));
        format!("{head}  {}", painted(name, text))
    });
    Ok(plain.chain(below).collect())
}

/// A value on one line. What is stored may be a stranger's, so a terminal gets it escaped.
fn text(value: &Value) -> String {
    let joined = |texts: Vec<String>, by: &str| match texts.is_empty() {
        true => "-".to_owned(),
        false => texts.join(by),
    };
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => visible(text),
        Value::Array(items) => joined(items.iter().map(text).collect(), ","),
        Value::Object(members) => {
            let pair = |(name, value): (&String, &Value)| format!("{}={}", visible(name), text(value));
            joined(members.iter().map(pair).collect(), " ")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The text of a member; a state has its colour.
fn painted(column: &str, text: &str) -> String {
    match (column, text) {
        ("state", "state") => text.to_owned(),
        ("state", "valid" | "verified" | "registered") => paint(GOOD, text),
        ("state", "expired") => paint(WARN, text),
        ("state" | "reason", _) => paint(BAD, text),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn plain(lines: Vec<String>) -> Vec<String> {
        let plain = lines.iter().map(|line| anstream::adapter::strip_str(line).to_string());
        plain.collect()
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells() {
        let rows = [
            json!({"id": 7, "state": "valid", "of": ["a", "b"], "left": "out"}),
            json!({"id": null, "state": "revoked", "of": []}),
        ];
        let shown = plain(table(&members::<Vec<Members>>(&rows).unwrap(), &["id", "state", "of"]));
        assert_eq!(shown, ["id  state    of", "7   valid    a,b", "-   revoked  -"]);
    }

    #[test]
    fn an_object_has_its_members_in_their_order_and_lists_below() {
        #[derive(Serialize)]
        struct Object {
            name: &'static str,
            directory: Value,
            keys: Vec<Value>,
            age: u32,
        }
        let object = Object {
            name: "x",
            directory: json!({"failure": ""}),
            keys: vec![json!({"key": "k"})],
            age: 3,
        };
        let shown = plain(lines(&members(&object).unwrap(), &[("keys", &["key"])]).unwrap());
        assert_eq!(
            shown,
            [
                "name               x",
                "directory.failure  -",
                "age                3",
                "",
                "keys",
                "key",
                "k"
            ]
        );
    }

    #[test]
    fn nothing_that_is_stored_controls_a_terminal() {
        let evil = "\u{1b}[2Jx\u{202e}\n";
        let object = json!({"text": evil, "list": [evil], "members": {evil: evil}});
        let rows = [json!({"text": evil, "members": [{evil: evil}]})];
        let mut shown = lines(&members(&object).unwrap(), &[]).unwrap();
        shown.extend(table(&members::<Vec<Members>>(&rows).unwrap(), &["text", "members"]));
        assert_eq!(shown.len(), 5);
        for line in shown {
            let is_escaped = !line.contains("\u{1b}[2J") && !line.contains(['\u{202e}', '\n']);
            assert!(is_escaped, "{line:?}");
        }
    }
}

//! A page as NDJSON or CSV.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{columns, names, object};

/// In what form an export is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    /// A row a line, of all collections.
    Ndjson,
    /// A table (RFC 4180) of one collection.
    Csv {
        /// Whether it begins with a byte order mark.
        bom: bool,
    },
}

impl ExportFormat {
    /// Head before the first page. An export that continues has its header line already.
    pub(crate) fn begin(self, collection: usize, goes_on: bool) -> Vec<u8> {
        match self {
            Self::Csv { bom } if !goes_on => {
                let mark = if bom { web::csv::BOM } else { b"" };
                [mark, csv_header(collection).as_bytes()].concat()
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn media(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv { .. } => "text/csv; charset=utf-8; header=present",
        }
    }

    /// Name in the query string, and ending of the download.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv { .. } => "csv",
        }
    }

    /// Bytes of rows of a collection, with the page's cursor behind its last ones.
    pub(crate) fn rows(self, collection: usize, rows: Vec<Vec<Value>>, cursor: Option<&str>) -> Vec<u8> {
        match self {
            Self::Ndjson => {
                let cursor = cursor.map(|cursor| format!("{}\n", json!({"cursor": cursor})));
                lines(collection, rows) + &cursor.unwrap_or_default()
            }
            Self::Csv { .. } => csv_rows(&rows, cursor.unwrap_or_default()),
        }
        .into_bytes()
    }

    /// End of an export, with the rows of each collection: without it, the export isn't whole. A
    /// table has no cursor for it: it ends with the last chunk of the answer.
    pub(crate) fn end(self, rows: &BTreeMap<&'static str, u64>) -> Vec<u8> {
        match self {
            Self::Ndjson => format!("{}\n", json!({"end": true, "rows": rows})).into_bytes(),
            Self::Csv { .. } => Vec::new(),
        }
    }
}

fn lines(collection: usize, rows: Vec<Vec<Value>>) -> String {
    let name = names().get(collection).copied().unwrap_or_default();
    let line = |row| format!("{}\n", json!({"collection": name, "row": object(collection, row)}));
    rows.into_iter().map(line).collect()
}

fn csv_header(collection: usize) -> String {
    format!("{},cursor\r\n", columns(collection).join(","))
}

/// With `cursor` in the last row, and nothing in its cursor in those before.
fn csv_rows(rows: &[Vec<Value>], cursor: &str) -> String {
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        for cell in row {
            text.push_str(&web::csv::cell(&shown(cell)));
            text.push(',');
        }
        text.push_str(if at + 1 == rows.len() { cursor } else { "" });
        text.push_str("\r\n");
    }
    text
}

/// A list is its texts with semicolons.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(texts) => texts.iter().map(shown).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_no_formula() {
        let cell = |value: Value| csv_rows(&[vec![value]], "");
        for (value, expected) in [
            (json!("plain"), "plain,\r\n"),
            (json!("a,b"), "\"a,b\",\r\n"),
            (json!("say \"hi\"\r\n"), "\"say \"\"hi\"\"\r\n\",\r\n"),
            (json!("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\",\r\n"),
            (json!(["=1", "b", "-2"]), "\"'=1; b; '-2\",\r\n"),
            (json!(7), "7,\r\n"),
            (json!(true), "true,\r\n"),
            (Value::Null, ",\r\n"),
        ] {
            assert_eq!(cell(value), expected);
        }
        let rows = [vec![json!("a")], vec![json!("b")]];
        assert_eq!(csv_rows(&rows, "c1"), "a,\r\nb,c1\r\n");
    }
}

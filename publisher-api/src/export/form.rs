//! A page as NDJSON, CSV or files of an archive.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};
use tar::{Builder, Header};

use super::{Page, columns, names, object};

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
    /// Files of both.
    Tar,
}

impl ExportFormat {
    /// Head before the first page. An export that continues has its header line already.
    pub(crate) fn begin(self, collection: usize, goes_on: bool) -> Vec<u8> {
        match self {
            Self::Csv { bom } if !goes_on => {
                let mark = if bom { web::csv::BOM } else { b"" };
                [mark, csv_header(collection, true).as_bytes()].concat()
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn media(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv { .. } => "text/csv; charset=utf-8; header=present",
            Self::Tar => "application/x-tar",
        }
    }

    /// The name that a browser gives the download.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Ndjson => "export.ndjson",
            Self::Csv { .. } => "export.csv",
            Self::Tar => "export.tar",
        }
    }

    /// A page's bytes, with the place behind it.
    ///
    /// # Errors
    /// The archive has no room for a file's name.
    pub(crate) fn page(self, page: Page, now_s: i64) -> io::Result<Vec<u8>> {
        let (collection, cursor) = (page.collection, page.next.to_text());
        let name = names().get(collection).copied().unwrap_or_default();
        Ok(match self {
            Self::Ndjson => {
                let mut text = lines(page, |row| json!({"collection": name, "row": row}));
                text.push_str(&format!("{}\n", json!({"cursor": cursor})));
                text.into_bytes()
            }
            Self::Csv { .. } => csv_rows(&page.rows, Some(&cursor)).into_bytes(),
            Self::Tar => {
                let number = page.number;
                let table = csv_header(collection, false) + &csv_rows(&page.rows, None);
                let rows = lines(page, Value::Object);
                let mut archive = Builder::new(Vec::new());
                append(&mut archive, &format!("{name}/{number:010}.ndjson"), &rows, now_s)?;
                append(&mut archive, &format!("{name}/{number:010}.csv"), &table, now_s)?;
                // After its page: whoever unpacks what arrived has in it where to continue.
                append(&mut archive, "cursor", &cursor, now_s)?;
                // Without the end that the builder would write: other pages follow.
                std::mem::take(archive.get_mut())
            }
        })
    }

    /// End of an export, with the rows of each collection: without it, the export isn't whole.
    ///
    /// # Errors
    /// As [`ExportFormat::page`].
    pub(crate) fn end(self, rows: &BTreeMap<&'static str, u64>, now_s: i64) -> io::Result<Vec<u8>> {
        let end = json!({"end": true, "rows": rows}).to_string();
        Ok(match self {
            Self::Ndjson => format!("{end}\n").into_bytes(),
            // A table has no place for it; it ends with the last chunk of the answer.
            Self::Csv { .. } => Vec::new(),
            Self::Tar => {
                let mut archive = Builder::new(Vec::new());
                append(&mut archive, "end", &end, now_s)?;
                archive.into_inner()?
            }
        })
    }
}

/// Adds a file to an archive (POSIX.1-1988 `ustar`). Each page is a file, so that the length that
/// precedes it is known.
fn append(archive: &mut Builder<Vec<u8>>, name: &str, content: &str, now_s: i64) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(u64::try_from(now_s).unwrap_or(0));
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, name, content.as_bytes())
}

fn lines(page: Page, line: impl Fn(serde_json::Map<String, Value>) -> Value) -> String {
    let collection = page.collection;
    let rows = page.rows.into_iter();
    rows.map(|row| format!("{}\n", line(object(collection, row)))).collect()
}

fn csv_header(collection: usize, with_cursor: bool) -> String {
    let mut cells = columns(collection);
    if with_cursor {
        cells.push("cursor");
    }
    format!("{}\r\n", cells.join(","))
}

/// With `cursor` in the last row, and nothing in its place in those before.
fn csv_rows(rows: &[Vec<Value>], cursor: Option<&str>) -> String {
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        for (number, cell) in row.iter().enumerate() {
            if number > 0 {
                text.push(',');
            }
            text.push_str(&web::csv::cell(&shown(cell)));
        }
        if let Some(cursor) = cursor {
            text.push(',');
            text.push_str(if at + 1 == rows.len() { cursor } else { "" });
        }
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
        let cell = |value: Value| csv_rows(&[vec![value]], None);
        for (value, expected) in [
            (json!("plain"), "plain\r\n"),
            (json!("a,b"), "\"a,b\"\r\n"),
            (json!("say \"hi\"\r\n"), "\"say \"\"hi\"\"\r\n\"\r\n"),
            (json!("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"\r\n"),
            (json!(["=1", "b", "-2"]), "\"'=1; b; '-2\"\r\n"),
            (json!(7), "7\r\n"),
            (json!(true), "true\r\n"),
            (Value::Null, "\r\n"),
        ] {
            assert_eq!(cell(value), expected);
        }
        let rows = [vec![json!("a")], vec![json!("b")]];
        assert_eq!(csv_rows(&rows, Some("c1")), "a,\r\nb,c1\r\n");
    }
}

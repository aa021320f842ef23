//! Rows as CSV (RFC 4180: a header line, lines that end in CRLF) or as lines of JSON, each an
//! object.

use serde::Serialize;
use serde_json::Value;

/// Cells that are members of a row's member.
const NESTED: [(&str, &str); 3] = [
    ("provenReceiptCount", "/byTrust/proven"),
    ("proven", "/byTrust/proven"),
    ("unproven", "/byTrust/unproven"),
];

/// Answers that can be written as rows.
pub trait Tabular {
    /// The columns' names.
    fn columns(&self) -> Vec<&'static str>;

    /// Writes every row.
    ///
    /// # Errors
    /// A row can't be written as JSON.
    fn rows(&self, table: &mut Table) -> Result<(), serde_json::Error>;
}

/// Form of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFormat {
    /// `text/csv`.
    Csv {
        /// Whether it begins with a byte order mark.
        bom: bool,
    },
    /// `application/x-ndjson`.
    Ndjson,
}

/// A table as it is written.
#[derive(Debug)]
pub struct Table {
    form: RowFormat,
    columns: Vec<&'static str>,
    bytes: Vec<u8>,
}

impl Table {
    /// With these columns; CSV begins with their names.
    #[must_use]
    pub fn new(form: RowFormat, columns: Vec<&'static str>) -> Self {
        let mut bytes = Vec::new();
        if let RowFormat::Csv { bom } = form {
            if bom {
                bytes.extend_from_slice(web::csv::BOM);
            }
            bytes.extend_from_slice(columns.join(",").as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        Self { form, columns, bytes }
    }

    /// A whole table.
    ///
    /// # Errors
    /// A row can't be written as JSON.
    pub fn of<T: Tabular>(form: RowFormat, rows: &T) -> Result<Self, serde_json::Error> {
        let mut table = Self::new(form, rows.columns());
        rows.rows(&mut table)?;
        Ok(table)
    }

    /// Adds a line with the members of an object that have a column's name, those of `more` before
    /// others. A list is one text, and what the object lacks is an empty cell.
    ///
    /// # Errors
    /// The object can't be written as JSON.
    pub fn row(&mut self, object: &impl Serialize, more: &[(&str, Option<&str>)]) -> Result<(), serde_json::Error> {
        let object = serde_json::to_value(object)?;
        for (index, column) in self.columns.iter().enumerate() {
            let cell = match more.iter().find(|(name, _)| name == column) {
                Some((_, text)) => Value::from(*text),
                None => cell(&object, column),
            };
            let bytes = &mut self.bytes;
            match self.form {
                RowFormat::Csv { .. } => {
                    bytes.extend_from_slice(if index > 0 { b"," } else { b"" });
                    match cell {
                        Value::Null => {}
                        Value::String(text) => bytes.extend_from_slice(web::csv::cell(&text).as_bytes()),
                        plain => bytes.extend_from_slice(plain.to_string().as_bytes()),
                    }
                }
                RowFormat::Ndjson => {
                    bytes.push(if index > 0 { b',' } else { b'{' });
                    serde_json::to_writer(&mut *bytes, column)?;
                    bytes.push(b':');
                    serde_json::to_writer(bytes, &cell)?;
                }
            }
        }
        self.bytes.extend_from_slice(match self.form {
            RowFormat::Csv { .. } => b"\r\n",
            RowFormat::Ndjson => b"}\n",
        });
        Ok(())
    }

    /// Adds the lines of a page, the last of which has the next page's `cursor`.
    ///
    /// # Errors
    /// A row can't be written as JSON.
    pub fn page(&mut self, rows: &[impl Serialize], next: Option<&str>) -> Result<(), serde_json::Error> {
        for (number, row) in (1..).zip(rows) {
            let cursor = next.filter(|_| number == rows.len());
            self.row(row, &[("cursor", cursor)])?;
        }
        Ok(())
    }

    /// Takes the bytes that were written since the last time.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

fn cell(object: &Value, column: &str) -> Value {
    let nested = NESTED.iter().find(|(name, _)| *name == column);
    let member = match nested {
        Some((_, pointer)) => object.pointer(pointer),
        None => object.get(column),
    };
    match member {
        Some(Value::Array(texts)) if texts.is_empty() => Value::Null,
        Some(Value::Array(texts)) => {
            let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
            Value::String(texts.join(" "))
        }
        Some(member) => member.clone(),
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    use serde_json::json;

    fn table(form: RowFormat, rows: &[Value]) -> String {
        let mut table = Table::new(form, vec!["a", "b"]);
        for row in rows {
            table.row(row, &[]).unwrap();
        }
        String::from_utf8(table.take()).unwrap()
    }

    #[test]
    fn csv_cells_are_quoted_and_formulas_defused() {
        let rows = [
            json!({"a": "plain", "b": "with, comma and \"quotes\""}),
            json!({"a": "=1+1", "b": "two\r\nlines"}),
            json!({"a": 7, "b": null}),
            json!({"a": true, "b": 0}),
            json!({"b": "\u{fc}", "a": "", "c": "no column"}),
        ];
        assert_eq!(
            table(RowFormat::Csv { bom: false }, &rows),
            "a,b\r\nplain,\"with, comma and \"\"quotes\"\"\"\r\n\"'=1+1\",\"two\r\nlines\"\r\n7,\r\ntrue,0\r\n,\u{fc}\r\n"
        );
    }

    #[test]
    fn lines_of_json_keep_types_and_words() {
        let rows = [
            json!({"a": "=1+1\r\n\"\u{2028}</script>", "b": u64::MAX}),
            json!({"b": false}),
        ];
        let text = table(RowFormat::Ndjson, &rows);
        assert!(text.ends_with("{\"a\":null,\"b\":false}\n"), "{text}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0], json!({"a": "=1+1\r\n\"\u{2028}</script>", "b": u64::MAX}));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn lists_members_and_additions_are_cells() {
        let columns = vec!["claimed", "none", "proven", "provenReceiptCount", "cursor"];
        let mut table = Table::new(RowFormat::Csv { bom: true }, columns);
        let row = json!({"claimed": ["a", "b"], "none": [], "byTrust": {"proven": 1, "unproven": 2}});
        table.row(&row, &[("cursor", Some("x"))]).unwrap();
        table.row(&row, &[("cursor", None)]).unwrap();
        assert_eq!(
            String::from_utf8(table.take()).unwrap(),
            "\u{feff}claimed,none,proven,provenReceiptCount,cursor\r\na b,,1,1,x\r\na b,,1,1,\r\n"
        );
    }
}

//! Rows as CSV (RFC 4180: a header line, lines that end in CRLF), as lines of JSON, each an object,
//! or as a Parquet file.

use parquet::errors::ParquetError;
use serde::Serialize;
use serde_json::Value;

use super::column::RowColumn;
use super::parquet::ParquetRows;

/// Cells that are members of a row's member.
const NESTED: [(&str, &str); 3] = [
    ("provenReceiptCount", "/byTrust/proven"),
    ("proven", "/byTrust/proven"),
    ("unproven", "/byTrust/unproven"),
];

/// Answers that can be written as rows.
pub trait Tabular {
    /// The columns.
    fn columns(&self) -> Vec<RowColumn>;

    /// Writes every row.
    ///
    /// # Errors
    /// A row can't be written.
    fn rows(&self, table: &mut Table) -> Result<(), TableError>;
}

/// Why a table can't be written. Each is a fault of the program.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A row isn't JSON.
    #[error("a row can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A value isn't of its column's type.
    #[error("a value of the column {0} is of another type than the column")]
    Cell(&'static str),
    /// The file can't be written.
    #[error("rows can't be written as Parquet: {0}")]
    Parquet(#[from] ParquetError),
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
    /// `application/vnd.apache.parquet`.
    Parquet,
}

/// A table as it is written.
#[derive(Debug)]
pub struct Table {
    columns: Vec<RowColumn>,
    writer: RowWriter,
}

/// Rows that were written and not taken yet.
#[derive(Debug)]
enum RowWriter {
    Csv(Vec<u8>),
    Ndjson(Vec<u8>),
    Parquet(Box<ParquetRows>),
}

impl Table {
    /// With these columns; CSV begins with their names.
    ///
    /// # Errors
    /// A Parquet file can't begin.
    pub fn new(form: RowFormat, columns: Vec<RowColumn>) -> Result<Self, TableError> {
        let writer = match form {
            RowFormat::Csv { bom } => {
                let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
                let mark = if bom { crate::csv::BOM } else { b"" };
                RowWriter::Csv([mark, names.join(",").as_bytes(), b"\r\n"].concat())
            }
            RowFormat::Ndjson => RowWriter::Ndjson(Vec::new()),
            RowFormat::Parquet => RowWriter::Parquet(Box::new(ParquetRows::new(&columns)?)),
        };
        Ok(Self { columns, writer })
    }

    /// The bytes of a whole table.
    ///
    /// # Errors
    /// A row can't be written.
    pub fn whole<T: Tabular>(form: RowFormat, rows: &T) -> Result<Vec<u8>, TableError> {
        let mut table = Self::new(form, rows.columns())?;
        rows.rows(&mut table)?;
        table.end()
    }

    /// Adds a row of the members of an object that have a column's name, those of `more` before
    /// others. A list is one text, its items separated by semicolons, and what the object lacks is
    /// an empty cell.
    ///
    /// # Errors
    /// The object can't be written.
    pub fn row(&mut self, object: &impl Serialize, more: &[(&str, Option<&str>)]) -> Result<(), TableError> {
        let object = serde_json::to_value(object)?;
        for (index, column) in self.columns.iter().enumerate() {
            let cell = match more.iter().find(|(name, _)| *name == column.name) {
                Some((_, text)) => Value::from(*text),
                None => cell(&object, column.name),
            };
            match &mut self.writer {
                RowWriter::Csv(bytes) => {
                    bytes.extend_from_slice(if index > 0 { b"," } else { b"" });
                    match cell {
                        Value::Null => {}
                        Value::String(text) => bytes.extend_from_slice(crate::csv::cell(&text).as_bytes()),
                        plain => bytes.extend_from_slice(plain.to_string().as_bytes()),
                    }
                }
                RowWriter::Ndjson(bytes) => {
                    bytes.push(if index > 0 { b',' } else { b'{' });
                    serde_json::to_writer(&mut *bytes, column.name)?;
                    bytes.push(b':');
                    serde_json::to_writer(bytes, &cell)?;
                }
                RowWriter::Parquet(rows) => rows.cell(index, &cell).ok_or(TableError::Cell(column.name))?,
            }
        }
        match &mut self.writer {
            RowWriter::Csv(bytes) => bytes.extend_from_slice(b"\r\n"),
            RowWriter::Ndjson(bytes) => bytes.extend_from_slice(b"}\n"),
            RowWriter::Parquet(rows) => rows.end_row()?,
        }
        Ok(())
    }

    /// Adds the rows of a page, the last of which has the next page's `cursor`.
    ///
    /// # Errors
    /// A row can't be written.
    pub fn page(&mut self, rows: &[impl Serialize], next: Option<&str>) -> Result<(), TableError> {
        for (number, row) in (1..).zip(rows) {
            let cursor = next.filter(|_| number == rows.len());
            self.row(row, &[("cursor", cursor)])?;
        }
        Ok(())
    }

    /// Takes the bytes that were written since the last time. Parquet has some once a group of rows
    /// is complete.
    ///
    /// # Errors
    /// Rows can't be written.
    pub fn take(&mut self) -> Result<Vec<u8>, TableError> {
        match &mut self.writer {
            RowWriter::Csv(bytes) | RowWriter::Ndjson(bytes) => Ok(std::mem::take(bytes)),
            RowWriter::Parquet(rows) => Ok(rows.take()?),
        }
    }

    /// Takes the rest of the bytes, of a table without further rows.
    ///
    /// # Errors
    /// Rows can't be written.
    pub fn end(self) -> Result<Vec<u8>, TableError> {
        match self.writer {
            RowWriter::Csv(bytes) | RowWriter::Ndjson(bytes) => Ok(bytes),
            RowWriter::Parquet(rows) => Ok(rows.end()?),
        }
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
            Value::String(texts.join("; "))
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

    use super::super::column::{flag, instant, integer, text};

    fn table(form: RowFormat, rows: &[Value]) -> String {
        let mut table = Table::new(form, vec![text("a"), text("b")]).unwrap();
        for row in rows {
            table.row(row, &[]).unwrap();
        }
        String::from_utf8(table.end().unwrap()).unwrap()
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
        let columns = ["claimed", "none", "proven", "provenReceiptCount", "cursor"].map(text);
        let mut table = Table::new(RowFormat::Csv { bom: true }, columns.to_vec()).unwrap();
        let row = json!({"claimed": ["a", "b"], "none": [], "byTrust": {"proven": 1, "unproven": 2}});
        table.row(&row, &[("cursor", Some("x"))]).unwrap();
        table.row(&row, &[("cursor", None)]).unwrap();
        assert_eq!(
            String::from_utf8(table.end().unwrap()).unwrap(),
            "\u{feff}claimed,none,proven,provenReceiptCount,cursor\r\n\"a; b\",,1,1,x\r\n\"a; b\",,1,1,\r\n"
        );
    }

    #[test]
    fn values_of_another_type_are_no_cells_of_a_file() {
        let columns = [text("a"), integer("a"), instant("a"), flag("a")];
        let values = [json!("a"), json!(7), json!("2026-01-31T12:00:00.000Z"), json!(true)];
        for column in columns {
            let writes = |value: &Value| {
                let mut table = Table::new(RowFormat::Parquet, vec![column]).unwrap();
                table.row(&json!({"a": value}), &[]).is_ok()
            };
            assert!(writes(&Value::Null));
            let fits: Vec<bool> = values.iter().map(writes).collect();
            let expected = columns.map(|one| one == column || (column == text("a") && one == instant("a")));
            assert_eq!(fits, expected, "{column:?}");
        }
    }

    /// A reader gets bytes before the last row is there, and what is retained has a bound.
    #[test]
    fn files_are_written_group_by_group() {
        let mut table = Table::new(RowFormat::Parquet, vec![text("a")]).unwrap();
        let mut pieces = Vec::new();
        for number in 0..100_000_u64 {
            let text = format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(8);
            table.row(&json!({"a": text}), &[]).unwrap();
            if number % 1_000 == 999 {
                pieces.push(table.take().unwrap().len());
            }
        }
        let rest = table.end().unwrap();
        assert!(rest.ends_with(b"PAR1"));
        let groups = pieces.iter().filter(|bytes| **bytes > 4).count();
        assert_eq!(groups, 10, "{pieces:?}");
    }
}

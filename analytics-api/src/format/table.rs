//! Rows as CSV (RFC 4180: a header line, lines that end in CRLF) or as lines of JSON, each an
//! object.

use std::borrow::Cow;

/// A cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableCell<'a> {
    /// Somebody's words, perhaps a stranger's.
    Text(Cow<'a, str>),
    /// A count.
    Count(u64),
    /// Yes or no.
    Flag(bool),
    /// Empty: an empty cell, `null`.
    Nothing,
}

impl<'a> From<&'a str> for TableCell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for TableCell<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<u64> for TableCell<'_> {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<bool> for TableCell<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl<'a, T: Into<TableCell<'a>>> From<Option<T>> for TableCell<'a> {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Nothing, Into::into)
    }
}

/// Answers that can be written as rows.
pub trait Tabular {
    /// The columns' names.
    fn columns(&self) -> Vec<&'static str>;

    /// Every row, of as many cells as there are columns.
    fn rows(&self, table: &mut Table);
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
        let mut table = Self {
            form,
            columns,
            bytes: Vec::new(),
        };
        if let RowFormat::Csv { bom } = form {
            if bom {
                table.bytes.extend_from_slice(web::csv::BOM);
            }
            let names: Vec<TableCell<'_>> = table.columns.iter().map(|name| TableCell::from(*name)).collect();
            table.row(&names);
        }
        table
    }

    /// A whole table.
    pub fn of<T: Tabular>(form: RowFormat, rows: &T) -> Self {
        let mut table = Self::new(form, rows.columns());
        rows.rows(&mut table);
        table
    }

    /// Adds a line.
    pub fn row(&mut self, cells: &[TableCell<'_>]) {
        match self.form {
            RowFormat::Csv { .. } => self.csv_line(cells),
            RowFormat::Ndjson => self.json_line(cells),
        }
    }

    /// Takes the bytes that were written since the last time.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn csv_line(&mut self, cells: &[TableCell<'_>]) {
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.bytes.push(b',');
            }
            match cell {
                TableCell::Text(text) => self.bytes.extend_from_slice(web::csv::cell(text).as_bytes()),
                TableCell::Count(count) => self.bytes.extend_from_slice(count.to_string().as_bytes()),
                TableCell::Flag(flag) => self.bytes.extend_from_slice(flag.to_string().as_bytes()),
                TableCell::Nothing => {}
            }
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn json_line(&mut self, cells: &[TableCell<'_>]) {
        self.bytes.push(b'{');
        for (at, (name, cell)) in self.columns.iter().zip(cells).enumerate() {
            if at > 0 {
                self.bytes.push(b',');
            }
            json_text(&mut self.bytes, name);
            self.bytes.push(b':');
            match cell {
                TableCell::Text(text) => json_text(&mut self.bytes, text),
                TableCell::Count(count) => self.bytes.extend_from_slice(count.to_string().as_bytes()),
                TableCell::Flag(flag) => self.bytes.extend_from_slice(flag.to_string().as_bytes()),
                TableCell::Nothing => self.bytes.extend_from_slice(b"null"),
            }
        }
        self.bytes.extend_from_slice(b"}\n");
    }
}

fn json_text(bytes: &mut Vec<u8>, text: &str) {
    // Writing a text into a Vec can't fail.
    let _ = serde_json::to_writer(bytes, text);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn table(form: RowFormat, rows: &[[TableCell<'_>; 2]]) -> String {
        let mut table = Table::new(form, vec!["a", "b"]);
        for row in rows {
            table.row(row);
        }
        String::from_utf8(table.take()).unwrap()
    }

    #[test]
    fn csv_cells_are_quoted_and_formulas_defused() {
        let rows = [
            ["plain".into(), "with, comma and \"quotes\"".into()],
            ["=1+1".into(), "two\r\nlines".into()],
            [TableCell::Count(7), TableCell::Nothing],
            [TableCell::Flag(true), TableCell::Count(0)],
            ["".into(), "\u{fc}".into()],
        ];
        assert_eq!(
            table(RowFormat::Csv { bom: false }, &rows),
            "a,b\r\nplain,\"with, comma and \"\"quotes\"\"\"\r\n\"'=1+1\",\"two\r\nlines\"\r\n7,\r\ntrue,0\r\n,\u{fc}\r\n"
        );
    }

    #[test]
    fn lines_of_json_keep_types_and_words() {
        let rows = [
            ["=1+1\r\n\"\u{2028}</script>".into(), TableCell::Count(u64::MAX)],
            [TableCell::Nothing, TableCell::Flag(false)],
        ];
        let text = table(RowFormat::Ndjson, &rows);
        assert!(text.ends_with("{\"a\":null,\"b\":false}\n"), "{text}");
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            lines[0],
            serde_json::json!({"a": "=1+1\r\n\"\u{2028}</script>", "b": u64::MAX})
        );
        assert_eq!(lines.len(), 2);
    }
}

//! A look at a statement's words, without parsing it.
//!
//! The embedded engine runs a statement with this process's rights, and two things are decided on
//! its client side, where ClickHouse's grants don't reach: `INTO OUTFILE` and `FROM INFILE` touch
//! local files, and several statements in one text would all run. No statement of ours needs them,
//! so they are refused here. (Table functions and engines that read files or the network are
//! refused by grants, see `engine`.)

/// Treatment of a statement by the endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StatementShape {
    /// Run it and answer with its output.
    Query,
    /// Feed the body into it: the statement without `FORMAT`, and the format's name.
    Insert {
        /// The statement without its `FORMAT` clause.
        sql: String,
        /// The input format.
        format: String,
    },
    /// Run it with the body as the rows of `input()`: libchdb has no such statement with streamed
    /// rows, so the body is the parameter [`BODY_PARAM`] in base64.
    InsertSelect {
        /// The statement without its `FORMAT` clause, which reads the parameter.
        sql: String,
    },
}

/// The parameter that holds the body of an `INSERT ... SELECT ... FROM input(...)`.
pub(crate) const BODY_PARAM: &str = "request_body";

/// Why a statement isn't run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RefusedStatement {
    /// `INTO OUTFILE` or `FROM INFILE`.
    LocalFile,
    /// More than one statement.
    Several,
    /// No statement.
    Empty,
}

/// Sorts a statement.
pub(crate) fn shape(sql: &str) -> Result<StatementShape, RefusedStatement> {
    let words = words(sql)?;
    let word = |at: usize| words.get(at).map(|&(start, end)| &sql[start..end]);
    let is = |at: usize, text: &str| word(at).is_some_and(|word| word.eq_ignore_ascii_case(text));
    if words.is_empty() {
        return Err(RefusedStatement::Empty);
    }
    if (0..words.len()).any(|at| is(at, "OUTFILE") || is(at, "INFILE")) {
        return Err(RefusedStatement::LocalFile);
    }
    let has_rows = (0..words.len()).any(|at| is(at, "SELECT") || is(at, "VALUES") || is(at, "WITH"));
    let last = words.len() - 1;
    if is(0, "INSERT") && last >= 1 && is(last - 1, "FORMAT") {
        let input = (0..last).find(|&at| is(at, "input") && sql[words[at].1..].starts_with("('"));
        if let Some(input) = input {
            let format = word(last).unwrap_or_default();
            return Ok(StatementShape::InsertSelect {
                sql: from_body(&sql[..words[last - 1].0], words[input], format),
            });
        }
    }
    if !is(0, "INSERT") || has_rows {
        return Ok(StatementShape::Query);
    }
    if last >= 1 && is(last - 1, "FORMAT") {
        let sql_end = words[last - 1].0;
        return Ok(StatementShape::Insert {
            sql: sql[..sql_end].trim_end().to_owned(),
            format: word(last).unwrap_or_default().to_owned(),
        });
    }
    Ok(StatementShape::Insert {
        sql: sql.trim_end().trim_end_matches(';').to_owned(),
        format: "Values".to_owned(),
    })
}

/// Replaces `input('columns')`, whose first word is at `input`, by the rows of the body.
fn from_body(sql: &str, (start, end): (usize, usize), format: &str) -> String {
    let columns = quoted(&sql.as_bytes()[end + 1..]);
    let (columns, rest) = sql[end + 1..].split_at(columns);
    let before = &sql[..start];
    format!("{before}format({format}, {columns}, base64Decode({{{BODY_PARAM}:String}}){rest}")
}

/// The words outside quotes and comments, as byte ranges.
fn words(sql: &str) -> Result<Vec<(usize, usize)>, RefusedStatement> {
    let bytes = sql.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    let mut ended = false;
    while at < bytes.len() {
        let byte = bytes[at];
        let rest = &bytes[at..];
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if rest.starts_with(b"--") || byte == b'#' {
            at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            continue;
        }
        if rest.starts_with(b"/*") {
            at += rest
                .windows(2)
                .position(|pair| pair == b"*/")
                .map_or(rest.len(), |end| end + 2);
            continue;
        }
        if ended {
            return Err(RefusedStatement::Several);
        }
        match byte {
            b';' => {
                ended = true;
                at += 1;
            }
            b'\'' | b'"' | b'`' => at += quoted(rest),
            _ if byte == b'_' || byte.is_ascii_alphanumeric() => {
                let length = rest
                    .iter()
                    .take_while(|&&byte| byte == b'_' || byte.is_ascii_alphanumeric())
                    .count();
                words.push((at, at + length));
                at += length;
            }
            _ => at += 1,
        }
    }
    Ok(words)
}

/// The length of the quoted text at the start, to its end if it isn't closed. A backslash escapes
/// one byte; a doubled quote reads as two texts, which is the same here.
fn quoted(rest: &[u8]) -> usize {
    let quote = rest[0];
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_format_is_cut_from_an_insert_only() {
        let insert = |sql: &str, format: &str| {
            Ok(StatementShape::Insert {
                sql: sql.to_owned(),
                format: format.to_owned(),
            })
        };
        assert_eq!(
            shape("INSERT INTO t (a, b) FORMAT RowBinary"),
            insert("INSERT INTO t (a, b)", "RowBinary")
        );
        assert_eq!(
            shape(" insert into `format` (a)\nformat TSV ;"),
            insert(" insert into `format` (a)", "TSV")
        );
        assert_eq!(shape("INSERT INTO t (a)"), insert("INSERT INTO t (a)", "Values"));
        assert_eq!(shape("INSERT INTO t SELECT 1"), Ok(StatementShape::Query));
        assert_eq!(shape("INSERT INTO t VALUES (1)"), Ok(StatementShape::Query));
        assert_eq!(shape("SELECT 1 FORMAT TSV"), Ok(StatementShape::Query));
    }

    #[test]
    fn rows_of_input_come_from_the_body() {
        assert_eq!(
            shape(r"INSERT INTO t (a) SELECT a FROM input('a DateTime64(3, \'UTC\')') WHERE (SELECT 1) = 1 FORMAT Native"),
            Ok(StatementShape::InsertSelect {
                sql: r"INSERT INTO t (a) SELECT a FROM format(Native, 'a DateTime64(3, \'UTC\')', base64Decode({request_body:String})) WHERE (SELECT 1) = 1 "
                    .to_owned()
            })
        );
        assert_eq!(shape("INSERT INTO t SELECT input FROM u"), Ok(StatementShape::Query));
    }

    #[test]
    fn local_files_and_several_statements_are_refused() {
        assert_eq!(shape("SELECT 1 into OutFile 'x'"), Err(RefusedStatement::LocalFile));
        assert_eq!(
            shape("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT TSV"),
            Err(RefusedStatement::LocalFile)
        );
        assert_eq!(
            shape("SELECT/**/1 INTO/**/OUTFILE '/x'"),
            Err(RefusedStatement::LocalFile)
        );
        assert_eq!(shape("SELECT 1; SELECT 2"), Err(RefusedStatement::Several));
        assert_eq!(shape("SELECT 1;;"), Err(RefusedStatement::Several));
        assert_eq!(shape("SELECT 1; -- done\n"), Ok(StatementShape::Query));
        assert_eq!(shape(" -- nothing"), Err(RefusedStatement::Empty));
    }

    #[test]
    fn quoted_text_and_comments_are_no_words() {
        for sql in [
            "SELECT 'a; b into outfile'",
            r"SELECT 'it\'s; into outfile', 1",
            "SELECT 'it''s; infile'",
            "SELECT `infile`, \"out;file\"",
            "SELECT 1 /* ; into outfile */",
            "SELECT 'unclosed ; infile",
        ] {
            assert_eq!(shape(sql), Ok(StatementShape::Query), "{sql}");
        }
    }
}

//! Rows of many keys, read by statements of few lengths.

use sqlx::any::AnyRow;

use crate::{Accounts, AccountsError};

/// Keys in one statement. Statements have one of these lengths, so that the database prepares few
/// of them; the longest is for a bulk.
const LENGTHS: [usize; 3] = [8, 64, 512];

impl Accounts {
    /// Reads the rows of `keys`, each of which is `WIDTH` texts. `statement` has `{keys}` where
    /// their placeholders belong. `query` names the measured time.
    pub(crate) async fn keyed_rows<K, const WIDTH: usize>(
        &self,
        query: &'static str,
        statement: &str,
        keys: &[K],
        texts: impl Fn(&K) -> [String; WIDTH],
    ) -> Result<Vec<AnyRow>, AccountsError> {
        let mut rows = Vec::new();
        for (chunk, length) in statements(keys) {
            let statement = statement.replace("{keys}", &placeholders(length, WIDTH));
            let mut reading = sqlx::query(sqlx::AssertSqlSafe(statement));
            // The last key fills the placeholders that are left.
            let padding = chunk.last().into_iter().cycle();
            for text in chunk.iter().chain(padding).take(length).flat_map(&texts) {
                reading = reading.bind(text);
            }
            let work = async { Ok(reading.fetch_all(&self.pool).await?) };
            rows.extend(self.timed(query, work).await?);
        }
        Ok(rows)
    }
}

/// Parts of a list, each with the number of keys of its statement.
fn statements<T>(keys: &[T]) -> impl Iterator<Item = (&[T], usize)> {
    let [.., longest] = LENGTHS;
    keys.chunks(longest).map(move |chunk| {
        let length = LENGTHS.into_iter().find(|length| *length >= chunk.len());
        (chunk, length.unwrap_or(longest))
    })
}

/// Placeholders `($first), ...` in groups of `width`.
fn placeholders(groups: usize, width: usize) -> String {
    let group = |group: usize| {
        let first = group * width + 1;
        let numbers: Vec<String> = (first..first + width).map(|number| format!("${number}")).collect();
        numbers.join(", ")
    };
    let groups: Vec<String> = (0..groups).map(group).collect();
    match width {
        1 => groups.join(", "),
        _ => format!("({})", groups.join("), (")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_through() {
        assert_eq!(placeholders(3, 1), "$1, $2, $3");
        assert_eq!(placeholders(2, 2), "($1, $2), ($3, $4)");
    }

    #[test]
    fn statements_have_few_lengths() {
        let lengths = |count: usize| {
            let keys = vec![0; count];
            statements(&keys)
                .map(|(chunk, length)| (chunk.len(), length))
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(0), []);
        assert_eq!(lengths(1), [(1, 8)]);
        assert_eq!(lengths(9), [(9, 64)]);
        assert_eq!(lengths(1_000), [(512, 512), (488, 512)]);
    }
}

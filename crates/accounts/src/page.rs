//! Lists in pages: by a cursor on an order that never changes, so that what is in the list when
//! it is begun is shown once, whatever is written meanwhile.

use std::fmt;
use std::str::FromStr;

/// The longest cursor, in bytes: an instant, a dot, an identifier.
const CURSOR_BYTES_MAX: usize = 120;

/// End of a page: the last row's instant and identifier. Its text is for handing back, not for
/// reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// When the row was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Identifier of the row, which decides between rows of one instant.
    pub id: String,
}

/// Text that no page ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor: hand back the nextCursor of the page before, or leave it out for the first page")]
pub struct CursorError;

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// In the list's order.
    pub items: Vec<T>,
    /// Begin of the next page; `None` after the last.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// A page of at most `items_max` out of `items`, of which one more was requested to see whether
    /// there is more.
    pub(crate) fn cut(mut items: Vec<T>, items_max: usize, cursor: impl Fn(&T) -> Cursor) -> Self {
        let more = items.len() > items_max;
        items.truncate(items_max);
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (instant, id) = text.split_once('.').ok_or(CursorError)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if text.len() > CURSOR_BYTES_MAX || id.is_empty() || !id.bytes().all(plain) {
            return Err(CursorError);
        }
        let created_at_ms = instant.parse().map_err(|_| CursorError)?;
        Ok(Self {
            created_at_ms,
            id: id.to_owned(),
        })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.created_at_ms, self.id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_tells_whether_there_is_more() {
        let cursor = |id: &i64| Cursor {
            created_at_ms: *id,
            id: id.to_string(),
        };
        for (asked, items, next) in [(vec![], vec![], None), (vec![1, 2], vec![1, 2], None)] {
            let page = Page::cut(asked, 2, cursor);
            assert_eq!((page.items, page.next), (items, next));
        }
        let page = Page::cut(vec![1, 2, 3], 2, cursor);
        assert_eq!((page.items, page.next), (vec![1, 2], Some(cursor(&2))));
    }

    proptest! {
        #[test]
        fn text_and_back(created_at_ms: i64, id in "[0-9a-z_]{1,40}") {
            let cursor = Cursor { created_at_ms, id };
            prop_assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        }

        #[test]
        fn any_other_text_is_an_error_and_no_panic(text in "\\PC{0,140}") {
            if let Ok(cursor) = text.parse::<Cursor>() {
                prop_assert!(cursor.to_string().len() <= CURSOR_BYTES_MAX + 1);
            }
        }
    }
}

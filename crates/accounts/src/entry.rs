//! Index entries: the content that a publisher lists, and what each member of it may be.
//!
//! `creating`, `changing`, `reading` and `lookup` query the database.

mod changing;
mod creating;
mod lookup;
mod reading;

use std::fmt;

use receipt::CanonicalUrl;
use uuid::Uuid;

pub(crate) use changing::erase_entries_of;
pub use changing::{Erased, Rectification, Rectified};
pub use creating::{Created, NewEntry};
pub use lookup::{ListedEntry, PublicEntry};
pub use reading::{ENTRY_LABELS_MAX, ENTRY_PAGE_MAX, EntryFilter, EntryLabel};

/// The longest URL in bytes, as given and in canonical form.
pub const ENTRY_URL_BYTES_MAX: usize = 2_048;
/// The longest title in characters: 4,000 bytes at most.
pub const ENTRY_TITLE_CHARS_MAX: usize = 1_000;
/// The most authors of an entry.
pub const ENTRY_AUTHORS_MAX: usize = 100;
/// The longest author in characters.
pub const ENTRY_AUTHOR_CHARS_MAX: usize = 256;

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Identifier: the publisher's choice, or made when the entry was created.
    pub id: Uuid,
    /// The URL's host.
    pub domain: String,
    /// URL of the content.
    pub url: String,
    /// Title.
    pub title: String,
    /// Authors, in the publisher's order.
    pub authors: Vec<String>,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// When it was created or last rectified.
    pub updated_at_ms: i64,
    /// State of the entry.
    pub revision: Revision,
}

/// State of an entry: a number that grows with each rectification, and differs for an ID
/// that was erased and created again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision {
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// 1 when created, 1 more with each rectification.
    pub number: i64,
}

/// Content of an entry, which its publisher chooses, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryContent {
    /// URL of the content.
    pub url: EntryUrl,
    /// Title.
    pub title: EntryTitle,
    /// Authors.
    pub authors: EntryAuthors,
}

/// Fault in a member of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {detail}")]
pub struct EntryFault {
    /// JSON Pointer into the entry.
    pub pointer: String,
    /// Stable code of the fault.
    pub code: &'static str,
    /// The fault, and what would be right.
    pub detail: String,
}

impl EntryFault {
    fn new(pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            code,
            detail: detail.into(),
        }
    }
}

/// A URL of content in canonical form, by which lookups find the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryUrl(CanonicalUrl);

impl EntryUrl {
    /// Reads `text`.
    ///
    /// # Errors
    /// A text without a canonical form, or more than [`ENTRY_URL_BYTES_MAX`] bytes in either form.
    pub fn parse(text: &str) -> Result<Self, EntryFault> {
        let fault = |detail: String| EntryFault::new("/url", "invalid_url", detail);
        let too_long = || fault(format!("it is longer than {ENTRY_URL_BYTES_MAX} bytes"));
        if text.len() > ENTRY_URL_BYTES_MAX {
            return Err(too_long());
        }
        let url = receipt::canonical_url(text).map_err(|error| fault(error.to_string()))?;
        if url.as_str().len() > ENTRY_URL_BYTES_MAX {
            return Err(too_long());
        }
        Ok(Self(url))
    }

    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Host of the URL: lower case, ASCII, without a dot at its end.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// The UUIDv5 of the URL: the ID by which clients report content that nobody lists.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.0.entry_id()
    }
}

/// A title of 1 to [`ENTRY_TITLE_CHARS_MAX`] characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryTitle(String);

impl EntryTitle {
    /// Takes `text` as it is.
    ///
    /// # Errors
    /// Empty or white space only, too long, or with a control character.
    pub fn parse(text: String) -> Result<Self, EntryFault> {
        match line_fault(&text, ENTRY_TITLE_CHARS_MAX) {
            None => Ok(Self(text)),
            Some(detail) => Err(EntryFault::new("/title", "invalid_title", detail)),
        }
    }

    /// Title of an entry without one: its URL, cut to the longest title.
    #[must_use]
    pub fn of(url: &EntryUrl) -> Self {
        Self(url.as_str().chars().take(ENTRY_TITLE_CHARS_MAX).collect())
    }

    /// The title.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Up to [`ENTRY_AUTHORS_MAX`] authors of 1 to [`ENTRY_AUTHOR_CHARS_MAX`] characters each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryAuthors(Vec<String>);

impl EntryAuthors {
    /// Takes `names` as they are.
    ///
    /// # Errors
    /// Too many, or the first that is empty, too long or has a control character.
    pub fn parse(names: Vec<String>) -> Result<Self, EntryFault> {
        if names.len() > ENTRY_AUTHORS_MAX {
            let detail = format!("there are more than {ENTRY_AUTHORS_MAX}");
            return Err(EntryFault::new("/authors", "too_many_authors", detail));
        }
        for (index, name) in names.iter().enumerate() {
            if let Some(detail) = line_fault(name, ENTRY_AUTHOR_CHARS_MAX) {
                return Err(EntryFault::new(format!("/authors/{index}"), "invalid_author", detail));
            }
        }
        Ok(Self(names))
    }

    /// The names.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// As it is stored: a JSON array.
    fn to_json(&self) -> String {
        serde_json::Value::from(self.0.clone()).to_string()
    }
}

fn line_fault(text: &str, chars_max: usize) -> Option<String> {
    if text.trim().is_empty() {
        return Some("it is empty".to_owned());
    }
    if text.chars().count() > chars_max {
        return Some(format!("it is longer than {chars_max} characters"));
    }
    text.chars()
        .any(char::is_control)
        .then(|| "it has a control character".to_owned())
}

impl fmt::Display for EntryUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Text that `q` searches, in lower case, because the two databases differ in what they hold for
/// equal.
fn search_text(url: &str, title: &str) -> String {
    format!("{}\n{}", title.to_lowercase(), url.to_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_take_the_canonical_form_of_lookups() {
        for (text, form, host) in [
            ("https://example.com", "https://example.com/", "example.com"),
            (
                "HTTPS://News.Example.COM:443/a?b#c",
                "https://news.example.com/a?b",
                "news.example.com",
            ),
            (
                "http://example.com:8080/./a/../%2e%2E/b\\c",
                "http://example.com:8080/./a/../%2e%2E/b%5Cc",
                "example.com",
            ),
            (
                "https://b\u{fc}cher.example./\u{e4}",
                "https://xn--bcher-kva.example/%C3%A4",
                "xn--bcher-kva.example",
            ),
        ] {
            let url = EntryUrl::parse(text).unwrap();
            assert_eq!((url.as_str(), url.host()), (form, host));
        }
        let longest = format!("https://example.com/{}", "a".repeat(2_048 - 20));
        assert_eq!(EntryUrl::parse(&longest).unwrap().as_str(), longest);
    }

    #[test]
    fn what_is_no_url_says_why() {
        let long = format!("https://example.com/{}", "a".repeat(2_048 - 19));
        let long_once_escaped = format!("https://example.com/{}", "\u{e4}".repeat(500));
        for (text, why) in [
            ("/article", "http or https URL"),
            ("ftp://example.com/", "http or https URL"),
            ("https://user@example.com/", "user"),
            (" https://example.com/", "whitespace"),
            ("https://%65xample.com/", "domain name"),
            ("https://127.0.0.1/", "domain name"),
            ("https://news..example/", "domain name"),
            (long.as_str(), "longer"),
            (long_once_escaped.as_str(), "longer"),
        ] {
            let error = EntryUrl::parse(text).unwrap_err();
            assert!(error.detail.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn titles_and_authors_are_bounded() {
        assert!(EntryTitle::parse("\u{1f600}".repeat(1_000)).is_ok());
        for wrong in ["", " \u{2003}", "a\nb", "a\u{0}b", &"a".repeat(1_001)] {
            assert_eq!(EntryTitle::parse(wrong.to_owned()).unwrap_err().pointer, "/title");
        }
        assert!(EntryAuthors::parse(vec!["\u{e9}".repeat(256); 100]).is_ok());
        assert!(EntryAuthors::parse(Vec::new()).is_ok());
        assert_eq!(
            EntryAuthors::parse(vec!["a".to_owned(); 101]).unwrap_err().pointer,
            "/authors"
        );
        for wrong in ["", "a\tb", &"a".repeat(257)] {
            let names = vec!["fine".to_owned(), wrong.to_owned()];
            assert_eq!(EntryAuthors::parse(names).unwrap_err().pointer, "/authors/1");
        }
    }

    proptest! {
        /// Reading a form gives the same form: a repeated bulk finds what the first one stored.
        #[test]
        fn a_form_is_its_own_form(text in "https?://[a-zA-Z\u{e4}-\u{fc}]{1,12}(\\.[a-z]{2,5}){1,2}(:[0-9]{1,4})?[/?#]\\PC{0,30}") {
            if let Ok(url) = EntryUrl::parse(&text) {
                prop_assert_eq!(&EntryUrl::parse(url.as_str()).unwrap(), &url);
                prop_assert!(url.as_str().is_ascii() && !url.host().contains('@'));
            }
        }
    }
}

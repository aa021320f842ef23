//! The query string: only known names, none empty, and each once unless it may be repeated.

use std::ops::RangeInclusive;

use axum::extract::Query;
use http::Uri;
use uuid::Uuid;

/// Values that a repeated parameter may have.
pub const VALUES_MAX: usize = 50;

/// A query that can't be answered as it stands: which parameter, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {detail}")]
pub struct InvalidQuery {
    /// The parameter's name as sent; empty for the query string as a whole.
    pub parameter: String,
    /// The fault, and what would be right.
    pub detail: String,
}

impl InvalidQuery {
    /// A fault of `parameter`; its name is bounded.
    #[must_use]
    pub fn new(parameter: &str, detail: impl Into<String>) -> Self {
        Self {
            parameter: shortened(parameter),
            detail: detail.into(),
        }
    }
}

/// Texts of the caller's are quoted in answers and logs: bounded.
#[must_use]
pub fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 64;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The parameters of one request.
#[derive(Debug, Clone)]
pub struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Reads the query of `uri`; every name must be among `allowed`.
    ///
    /// # Errors
    /// A name that isn't allowed, one that comes twice, an empty value, or one that isn't UTF-8.
    pub fn parse(uri: &Uri, allowed: &[&str]) -> Result<Self, InvalidQuery> {
        Self::parse_repeated(uri, allowed, |_| false)
    }

    /// Reads the query of `uri`, in which names that `is_repeated` accepts may come up to
    /// [`VALUES_MAX`] times.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); a name that comes too often.
    pub fn parse_repeated(
        uri: &Uri,
        allowed: &[&str],
        is_repeated: impl Fn(&str) -> bool,
    ) -> Result<Self, InvalidQuery> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| InvalidQuery::new("", "the query string is not name=value pairs joined by &"))?;
        for (at, (name, value)) in pairs.iter().enumerate() {
            if !allowed.contains(&name.as_str()) {
                return Err(InvalidQuery::new(name, unknown(allowed)));
            }
            let earlier = pairs[..at].iter().filter(|(earlier, _)| earlier == name).count();
            if earlier > 0 && !is_repeated(name) {
                return Err(InvalidQuery::new(name, "given more than once"));
            }
            if earlier >= VALUES_MAX {
                let detail = format!("given more than {VALUES_MAX} times: send several requests");
                return Err(InvalidQuery::new(name, detail));
            }
            if value.is_empty() {
                return Err(InvalidQuery::new(
                    name,
                    "empty; leave the parameter out for its default",
                ));
            }
            // What bytes that aren't UTF-8 are decoded to.
            if value.contains(char::REPLACEMENT_CHARACTER) {
                return Err(InvalidQuery::new(name, "not UTF-8 once %XX is decoded"));
            }
        }
        Ok(Self { pairs })
    }

    /// All values of `name`.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let pairs = self.pairs.iter().filter(move |(given, _)| given == name);
        pairs.map(|(_, value)| value.as_str())
    }

    /// The value of `name`, if it was given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of `name` as one of `choices`.
    ///
    /// # Errors
    /// Any other value; the message lists the choices.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, InvalidQuery> {
        let value = self.get(name);
        value.map(|value| parse_choice(name, value, choices)).transpose()
    }

    /// The value of `name` as `true` or `false`; false if it isn't given.
    ///
    /// # Errors
    /// Any other value.
    pub fn flag(&self, name: &str) -> Result<bool, InvalidQuery> {
        let flag = self.choice(name, &[("true", true), ("false", false)])?;
        Ok(flag.unwrap_or(false))
    }

    /// The value of `name` as a UUID.
    ///
    /// # Errors
    /// Anything but the hyphenated form.
    pub fn uuid(&self, name: &str) -> Result<Option<Uuid>, InvalidQuery> {
        self.get(name).map(|value| parse_uuid(name, value)).transpose()
    }

    /// The value of `name` as an integer of 1 to `max`.
    ///
    /// # Errors
    /// Anything else.
    pub fn count(&self, name: &str, max: u32) -> Result<Option<u32>, InvalidQuery> {
        self.integer(name, 1..=max)
    }

    /// The value of `name` as an integer within a range.
    ///
    /// # Errors
    /// Anything else.
    pub fn integer(&self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, InvalidQuery> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.parse::<u32>() {
            Ok(value) if range.contains(&value) => Ok(Some(value)),
            _ => {
                let (min, max) = range.into_inner();
                Err(InvalidQuery::new(
                    name,
                    format!("must be an integer from {min} to {max}"),
                ))
            }
        }
    }
}

/// The choice that a value names.
///
/// # Errors
/// Any other value; the message lists the choices.
pub fn parse_choice<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T, InvalidQuery> {
    let found = choices.iter().find(|(choice, _)| *choice == value);
    let names = || choices.iter().map(|(choice, _)| *choice).collect::<Vec<_>>().join(", ");
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let detail = format!("\"{}\" is not one of {}", shortened(value), names());
        InvalidQuery::new(name, detail)
    })
}

/// A UUID in its hyphenated form of 36 characters (RFC 9562 section 4), in either case.
///
/// # Errors
/// Anything else, the short forms included.
pub fn parse_uuid(name: &str, value: &str) -> Result<Uuid, InvalidQuery> {
    let malformed = || InvalidQuery::new(name, "not a UUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
    if value.len() != 36 {
        return Err(malformed());
    }
    Uuid::try_parse(value).map_err(|_| malformed())
}

fn unknown(allowed: &[&str]) -> String {
    if allowed.is_empty() {
        return "unknown parameter; this address takes none".to_owned();
    }
    format!("unknown parameter; allowed here: {}", allowed.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(query: &str) -> Result<Params, InvalidQuery> {
        Params::parse(
            &format!("/x?{query}").parse().unwrap(),
            &["from", "purpose", "clientId", "limit"],
        )
    }

    #[test]
    fn known_parameters_are_decoded() {
        let params = parse("from=2024-01-01T00%3A00%3A00%2B02%3A00&purpose=training").unwrap();
        assert_eq!(params.get("from"), Some("2024-01-01T00:00:00+02:00"));
        assert_eq!(
            params.choice("purpose", &[("training", 1), ("research", 2)]),
            Ok(Some(1))
        );
        assert_eq!(params.get("limit"), None);
        assert_eq!(parse("").unwrap().get("from"), None);
    }

    #[test]
    fn refusals_name_the_parameter_and_the_way_out() {
        for (query, parameter, detail) in [
            ("form=1", "form", "allowed here: from, purpose, clientId, limit"),
            ("From=1", "From", "unknown parameter"),
            ("from=1&from=2", "from", "more than once"),
            ("from=", "from", "empty"),
            ("from", "from", "empty"),
            ("from=%FF", "from", "not UTF-8"),
        ] {
            let error = parse(query).unwrap_err();
            assert_eq!(error.parameter, parameter, "{query}");
            assert!(error.detail.contains(detail), "{query}: {}", error.detail);
        }
        let params = parse("purpose=spying&clientId=6ba7b8109dad11d180b400c04fd430c8&limit=0").unwrap();
        let error = params
            .choice("purpose", &[("training", 1), ("research", 2)])
            .unwrap_err();
        assert_eq!(error.detail, "\"spying\" is not one of training, research");
        assert_eq!(params.uuid("clientId").unwrap_err().parameter, "clientId");
        assert_eq!(
            params.count("limit", 100).unwrap_err().detail,
            "must be an integer from 1 to 100"
        );
    }

    #[test]
    fn a_filter_may_be_repeated() {
        let parse = |query: &str| {
            let uri = format!("/x?{query}").parse().unwrap();
            Params::parse_repeated(&uri, &["purpose", "limit"], |name| name == "purpose")
        };
        let params = parse("purpose=a%2Cb&limit=3&purpose=c").unwrap();
        assert_eq!(params.all("purpose").collect::<Vec<_>>(), ["a,b", "c"]);
        assert_eq!(params.all("from").count(), 0);
        assert_eq!(parse("limit=1&limit=1").unwrap_err().detail, "given more than once");
        let most = vec!["purpose=a"; VALUES_MAX].join("&");
        assert_eq!(parse(&most).unwrap().all("purpose").count(), VALUES_MAX);
        let error = parse(&format!("{most}&purpose=b")).unwrap_err();
        assert!(error.detail.contains("more than 50 times"), "{}", error.detail);
    }

    #[test]
    fn long_values_are_not_echoed_whole() {
        let error = parse(&format!("{}=1", "n".repeat(5_000))).unwrap_err();
        assert!(error.parameter.len() < 80);
    }
}

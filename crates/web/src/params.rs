//! The query string: only known names, each once, none empty.

use std::ops::RangeInclusive;

use axum::extract::Query;
use http::Uri;
use uuid::Uuid;

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
#[derive(Debug)]
pub struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Reads the query of `uri`; every name must be among `allowed`.
    ///
    /// # Errors
    /// A name that isn't allowed, one that comes twice, an empty value, or one that isn't UTF-8.
    pub fn parse(uri: &Uri, allowed: &[&str]) -> Result<Self, InvalidQuery> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| InvalidQuery::new("", "the query string is not name=value pairs joined by &"))?;
        for (at, (name, value)) in pairs.iter().enumerate() {
            if !allowed.contains(&name.as_str()) {
                return Err(InvalidQuery::new(name, unknown(allowed)));
            }
            if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(InvalidQuery::new(name, "given more than once"));
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
        let Some(value) = self.get(name) else { return Ok(None) };
        if let Some((_, choice)) = choices.iter().find(|(n, _)| *n == value) {
            return Ok(Some(*choice));
        }
        let names = choices.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
        Err(InvalidQuery::new(
            name,
            format!("\"{}\" is not one of {names}", shortened(value)),
        ))
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
    fn long_values_are_not_echoed_whole() {
        let error = parse(&format!("{}=1", "n".repeat(5_000))).unwrap_err();
        assert!(error.parameter.len() < 80);
    }
}

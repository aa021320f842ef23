//! Selection of receipts: range, purpose, client, entry, model.

use accounts::Domain;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use receipt::Purpose;
use warehouse::{BeforeVerification, Filter, Trust};

use crate::access::Access;
use crate::range::{self, Comparison};
use web::params::{InvalidQuery, Params};

/// `usage.purpose`, all its values.
pub(crate) fn purposes() -> [&'static str; Purpose::ALL.len()] {
    Purpose::ALL.map(Purpose::as_str)
}

/// The longest `modelId`, in bytes: as the gateway takes it.
pub(crate) const MODEL_BYTES_MAX: usize = 4_096;

/// The end of an open range: the first instant that `to` can't name (2200-01-01T00:00:00Z), in
/// milliseconds since the Unix epoch. Receipts that far ahead are refused at the gateway.
const END_MS: i64 = 7_258_118_400_000;

/// A range whose ends may be open: everything, unless the query says otherwise.
#[derive(Debug)]
pub(crate) struct OpenRange {
    pub(crate) from: Option<Timestamp>,
    pub(crate) to: Option<Timestamp>,
    tz: TimeZone,
}

impl OpenRange {
    /// From the parameters `from`, `to` and `tz`.
    pub(crate) fn of(params: &Params) -> Result<Self, InvalidQuery> {
        let (_, tz) = range::time_zone(params)?;
        let (from, to) = ends(params, &tz)?;
        if let (Some(from), Some(to)) = (from, to) {
            range::ordered(from, to, params)?;
        }
        Ok(Self { from, to, tz })
    }

    /// The period to compare with, if the query wants that.
    pub(crate) fn previous(&self, params: &Params) -> Result<Option<(Timestamp, Timestamp)>, InvalidQuery> {
        let Some(comparison) = comparison(params)? else {
            return Ok(None);
        };
        match (self.from, self.to) {
            (Some(from), Some(to)) => comparison.period(from, to, &self.tz).map(Some),
            _ => Err(InvalidQuery::new(
                "compare",
                "give from and to: without both there is no period before",
            )),
        }
    }

    /// Inclusive, milliseconds since the Unix epoch.
    pub(crate) fn start_ms(&self) -> i64 {
        self.from.map_or(0, Timestamp::as_millisecond)
    }

    /// Exclusive, milliseconds since the Unix epoch.
    pub(crate) fn end_ms(&self) -> i64 {
        self.to.map_or(END_MS, Timestamp::as_millisecond)
    }

    /// `from` and `to` as answered: null where open.
    pub(crate) fn texts(&self) -> (Option<String>, Option<String>) {
        (self.from.map(web::rfc3339), self.to.map(web::rfc3339))
    }
}

/// `from` and `to`, as far as given.
pub(crate) fn ends(params: &Params, tz: &TimeZone) -> Result<(Option<Timestamp>, Option<Timestamp>), InvalidQuery> {
    Ok((range::instant(params, "from", tz)?, range::instant(params, "to", tz)?))
}

/// The period that `compare` names.
pub(crate) fn comparison(params: &Params) -> Result<Option<Comparison>, InvalidQuery> {
    params.choice(
        "compare",
        &[("previous", Comparison::Previous), ("year", Comparison::Year)],
    )
}

/// The filter of `[from_ms, to_ms)` and the parameters `purpose`, `clientId`, `entryId`, `modelId`,
/// `trust`, `operator`, `keyFingerprint` and `beforeVerification`, with the caller's trust.
pub(crate) fn filter(access: &Access, params: &Params, from_ms: i64, to_ms: i64) -> Result<Filter, InvalidQuery> {
    let purpose = params.choice("purpose", &purposes().map(|name| (name, name)))?;
    Ok(Filter {
        from_ms,
        to_ms,
        purpose: purpose.map(str::to_owned),
        client_id: params.uuid("clientId")?,
        entry_id: params.uuid("entryId")?,
        model_id: model(params)?,
        trust: trust(params)?,
        operator: operator(params)?,
        trusted: access.trusted().to_vec(),
        key_fingerprint: key_fingerprint(params)?,
        before_verification: before_verification(params)?,
    })
}

fn before_verification(params: &Params) -> Result<BeforeVerification, InvalidQuery> {
    let choice = params.choice(
        "beforeVerification",
        &[
            ("exclude", BeforeVerification::Exclude),
            ("include", BeforeVerification::Include),
            ("only", BeforeVerification::Only),
        ],
    )?;
    Ok(choice.unwrap_or_default())
}

fn trust(params: &Params) -> Result<Option<Trust>, InvalidQuery> {
    let trust = params.choice(
        "trust",
        &[
            ("proven", Some(Trust::Proven)),
            ("unproven", Some(Trust::Unproven)),
            ("all", None),
        ],
    )?;
    Ok(trust.flatten())
}

fn operator(params: &Params) -> Result<Option<String>, InvalidQuery> {
    let Some(operator) = params.get("operator") else {
        return Ok(None);
    };
    match operator.parse::<Domain>() {
        Ok(domain) => Ok(Some(domain.as_str().to_owned())),
        Err(error) => Err(InvalidQuery::new("operator", error.to_string())),
    }
}

/// The parameter `keyFingerprint`.
pub(crate) fn key_fingerprint(params: &Params) -> Result<Option<[u8; 32]>, InvalidQuery> {
    let Some(text) = params.get("keyFingerprint") else {
        return Ok(None);
    };
    let mut key = [0; 32];
    match hex::decode_to_slice(text, &mut key) {
        Ok(()) => Ok(Some(key)),
        Err(_) => Err(InvalidQuery::new(
            "keyFingerprint",
            "has 64 hexadecimal digits: SHA-256 of the key's SPKI DER",
        )),
    }
}

fn model(params: &Params) -> Result<Option<String>, InvalidQuery> {
    let Some(model) = params.get("modelId") else {
        return Ok(None);
    };
    if model.len() > MODEL_BYTES_MAX {
        let detail = format!("has 1 to {MODEL_BYTES_MAX} bytes");
        return Err(InvalidQuery::new("modelId", detail));
    }
    Ok(Some(model.to_owned()))
}

/// The filter that leaves nothing out.
pub(crate) fn everything() -> Filter {
    Filter {
        from_ms: 0,
        to_ms: END_MS,
        before_verification: BeforeVerification::Include,
        ..Filter::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_open_range_ends_where_to_can_not_reach() {
        let end = Timestamp::from_millisecond(END_MS).unwrap();
        assert_eq!(web::rfc3339(end), "2200-01-01T00:00:00.000Z");
        let params = Params::parse(&"/x".parse().unwrap(), &[]).unwrap();
        let open = OpenRange::of(&params).unwrap();
        assert_eq!(
            (open.start_ms(), open.end_ms(), open.texts()),
            (0, END_MS, (None, None))
        );
    }
}

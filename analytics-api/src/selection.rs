//! Selection of receipts: range, purpose, client, entry, model.

use accounts::Domain;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use receipt::Purpose;
use warehouse::{BeforeVerification, Filter, MemberFilter, Trust};

use crate::access::Access;
use crate::range::{self, Comparison};
use web::params::{InvalidQuery, Params, parse_choice, parse_uuid};

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
/// `operator`, `keyFingerprint` and their negations, `trust` and `beforeVerification`, with the
/// caller's trust.
pub(crate) fn filter(access: &Access, params: &Params, from_ms: i64, to_ms: i64) -> Result<Filter, InvalidQuery> {
    Ok(Filter {
        from_ms,
        to_ms,
        purpose: members(params, "purpose", "purpose!", purpose)?,
        client_id: members(params, "clientId", "clientId!", parse_uuid)?,
        entry_id: members(params, "entryId", "entryId!", parse_uuid)?,
        model_id: members(params, "modelId", "modelId!", model)?,
        trust: trust(params)?,
        operator: members(params, "operator", "operator!", operator)?,
        trusted: access.trusted().to_vec(),
        key_fingerprint: members(params, "keyFingerprint", "keyFingerprint!", fingerprint)?,
        before_verification: before_verification(params)?,
    })
}

/// The values of a member that receipts must have one of, or by `negation` none of.
fn members<T>(
    params: &Params,
    name: &str,
    negation: &str,
    value: fn(&str, &str) -> Result<T, InvalidQuery>,
) -> Result<MemberFilter<T>, InvalidQuery> {
    let values = |name| {
        params
            .all(name)
            .map(|text| value(name, text))
            .collect::<Result<Vec<T>, _>>()
    };
    let (among, except) = (values(name)?, values(negation)?);
    match (among.is_empty(), except.is_empty()) {
        (false, false) => Err(InvalidQuery::new(
            negation,
            format!("not beside {name}: receipts with one of its values have no other; leave one of both out"),
        )),
        (_, true) => Ok(MemberFilter::among(among)),
        (true, false) => Ok(MemberFilter::except(except)),
    }
}

fn purpose(name: &str, text: &str) -> Result<String, InvalidQuery> {
    let purpose = parse_choice(name, text, &purposes().map(|purpose| (purpose, purpose)))?;
    Ok(purpose.to_owned())
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

fn operator(name: &str, text: &str) -> Result<String, InvalidQuery> {
    match text.parse::<Domain>() {
        Ok(domain) => Ok(domain.as_str().to_owned()),
        Err(error) => Err(InvalidQuery::new(name, error.to_string())),
    }
}

/// The parameter `keyFingerprint` of an address that takes one.
pub(crate) fn key_fingerprint(params: &Params) -> Result<Option<[u8; 32]>, InvalidQuery> {
    let name = "keyFingerprint";
    params.get(name).map(|text| fingerprint(name, text)).transpose()
}

fn fingerprint(name: &str, text: &str) -> Result<[u8; 32], InvalidQuery> {
    let mut key = [0; 32];
    match hex::decode_to_slice(text, &mut key) {
        Ok(()) => Ok(key),
        Err(_) => {
            let detail = "has 64 hexadecimal digits: SHA-256 of the key's SPKI DER";
            Err(InvalidQuery::new(name, detail))
        }
    }
}

fn model(name: &str, text: &str) -> Result<String, InvalidQuery> {
    if text.len() > MODEL_BYTES_MAX {
        let detail = format!("has 1 to {MODEL_BYTES_MAX} bytes");
        return Err(InvalidQuery::new(name, detail));
    }
    Ok(text.to_owned())
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

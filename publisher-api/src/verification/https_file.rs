//! The file `https://<domain>/.well-known/service-verification.txt` and its three lines: token,
//! domain, timestamp.

use accounts::{Domain, TOKEN_PREFIX};
use jiff::Timestamp;
use outbound::OutboundClient;

use super::{FOUND_MAX, Look, ProofOutcome, Record, shown};

/// The longest file.
const BYTES_MAX: usize = 4 << 10;
/// Largest time by which a timestamp may be ahead: the publisher's clock isn't ours.
const AHEAD_MS_MAX: i64 = 5 * 60_000;

fn url(domain: &str) -> String {
    format!("https://{domain}/.well-known/service-verification.txt")
}

pub(super) fn record(domain: &str, token: &str, now_ms: i64) -> Record {
    Record {
        name: url(domain),
        r#type: "file".to_owned(),
        value: format!("{token}\ndomain={domain}\ntimestamp={}\n", web::rfc3339_ms(now_ms)),
        ttl: None,
    }
}

pub(super) async fn look(client: &OutboundClient, domain: &Domain, now_ms: i64) -> Look {
    let url = url(domain.as_str());
    match super::fetch(client, domain, &url, BYTES_MAX).await {
        Ok(fetched) => read(&fetched.body, domain.as_str(), now_ms),
        Err(error) => {
            let missing = format!("serve the file at {url} over HTTPS, with status 200 and without asking for a login");
            Look::failed(&error, &missing)
        }
    }
}

/// Reads the three lines, in any order. A byte order mark, CRLF, blanks at the ends and further
/// lines don't matter.
fn read(body: &[u8], domain: &str, now_ms: i64) -> Look {
    let text = String::from_utf8_lossy(body);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let found: Vec<String> = lines().take(FOUND_MAX).map(shown).collect();
    let wrong = |outcome, advice: String| Look::without_tokens(outcome, found.clone(), advice);
    let one = |name: &'static str| {
        let mut values = lines().filter_map(move |line| line.strip_prefix(name));
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value.trim()),
            (None, _) => Err(format!("the file needs a line {name}...")),
            (Some(_), Some(_)) => Err(format!("the file has more than one line {name}...")),
        }
    };
    let token = match one(TOKEN_PREFIX) {
        Ok(token) => token,
        Err(advice) if lines().any(|line| line.starts_with(TOKEN_PREFIX)) => {
            return wrong(ProofOutcome::Malformed, advice);
        }
        Err(advice) => return wrong(ProofOutcome::NoToken, advice),
    };
    let named = match one("domain=") {
        Ok(named) => named.strip_suffix('.').unwrap_or(named),
        Err(advice) => return wrong(ProofOutcome::Malformed, advice),
    };
    if !named.eq_ignore_ascii_case(domain) {
        return wrong(
            ProofOutcome::Malformed,
            format!("the file is for another domain: write domain={domain}"),
        );
    }
    let at: Result<Timestamp, _> = match one("timestamp=") {
        Ok(at) => at.parse(),
        Err(advice) => return wrong(ProofOutcome::Malformed, advice),
    };
    match at {
        Err(_) => {
            let advice = "write the timestamp as in RFC 3339: timestamp=2026-01-31T12:00:00Z".to_owned();
            wrong(ProofOutcome::Malformed, advice)
        }
        Ok(at) if at.as_millisecond() > now_ms.saturating_add(AHEAD_MS_MAX) => {
            wrong(ProofOutcome::Malformed, "the timestamp is in the future".to_owned())
        }
        Ok(_) => Look::of_tokens(vec![token.to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn of(text: &str) -> Look {
        read(text.as_bytes(), "example.com", NOW_MS)
    }

    #[test]
    fn what_we_ask_for_is_what_we_take() {
        let record = record("example.com", "service-verification=abc", NOW_MS);
        assert_eq!(record.name, "https://example.com/.well-known/service-verification.txt");
        assert_eq!(of(&record.value).tokens, ["abc"]);
    }

    #[test]
    fn editors_and_servers_may_change_a_little() {
        for text in [
            "service-verification=abc\r\ndomain=example.com\r\ntimestamp=2026-12-31T23:59:59.123Z\r\n",
            "\u{feff}service-verification=abc\ndomain=Example.COM\ntimestamp=2026-12-31T23:59:59+02:00",
            "\n  service-verification=abc  \n\tdomain=example.com.\n\ntimestamp= 2027-01-15T08:04:59Z \n\n",
            "# ours\ntimestamp=2026-12-31T23:59:59Z\ndomain=example.com\nservice-verification=abc",
        ] {
            assert_eq!(of(text).tokens, ["abc"], "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_reported() {
        let good = [
            "service-verification=abc",
            "domain=example.com",
            "timestamp=2026-12-31T23:59:59Z",
        ];
        let with = |at: usize, line: &str| {
            let mut lines = good;
            lines[at] = line;
            lines.join("\n")
        };
        for (text, outcome, advice) in [
            (
                String::new(),
                ProofOutcome::NoToken,
                "needs a line service-verification=",
            ),
            (
                "<!doctype html><title>Not found</title>".to_owned(),
                ProofOutcome::NoToken,
                "needs a line",
            ),
            (with(1, "domain=example.org"), ProofOutcome::Malformed, "another domain"),
            (
                with(1, "domain=www.example.com"),
                ProofOutcome::Malformed,
                "another domain",
            ),
            (with(1, ""), ProofOutcome::Malformed, "needs a line domain="),
            (with(2, ""), ProofOutcome::Malformed, "needs a line timestamp="),
            (with(2, "timestamp=yesterday"), ProofOutcome::Malformed, "RFC 3339"),
            (with(2, "timestamp=2026-12-31"), ProofOutcome::Malformed, "RFC 3339"),
            (
                with(2, "timestamp=2027-01-15T08:05:01Z"),
                ProofOutcome::Malformed,
                "future",
            ),
            (
                with(1, "service-verification=def\ndomain=example.com"),
                ProofOutcome::Malformed,
                "more than one",
            ),
        ] {
            let look = of(&text);
            assert_eq!((look.tokens.len(), look.outcome), (0, outcome), "{text}");
            assert!(look.advice.contains(advice), "{text}: {}", look.advice);
        }
        assert_eq!(read(&[0xff; 100], "example.com", NOW_MS).outcome, ProofOutcome::NoToken);
    }
}

//! The TXT record `_service-verification.<domain>`.

use accounts::TOKEN_PREFIX;
use outbound::OutboundClient;

use super::{FOUND_MAX, Look, ProofOutcome, Record, shown};

const LABEL: &str = "_service-verification";
/// Time to live of the record.
const TTL_S: u32 = 3_600;

pub(super) fn record(domain: &str, token: &str) -> Record {
    Record {
        name: format!("{LABEL}.{domain}"),
        r#type: "TXT".to_owned(),
        value: token.to_owned(),
        ttl: Some(TTL_S),
    }
}

pub(super) async fn look(client: &OutboundClient, domain: &str) -> Look {
    let name = format!("{LABEL}.{domain}");
    match client.txt(&name).await {
        Ok(texts) => read(&texts),
        Err(error) => {
            let missing = format!(
                "add a TXT record named {name}, with a TTL of {TTL_S}; the DNS may take 5 to 10 minutes to show it"
            );
            Look::failed(&error, &missing)
        }
    }
}

/// Of several records the ones that are tokens count, whatever else stands at the name.
fn read(texts: &[Vec<u8>]) -> Look {
    let mut tokens = Vec::new();
    let mut quoted = Vec::new();
    let mut others = Vec::new();
    for text in texts {
        let text = String::from_utf8_lossy(text);
        let text = text.trim();
        if let Some(token) = text.strip_prefix(TOKEN_PREFIX) {
            tokens.push(token.trim().to_owned());
        } else if text
            .trim_matches(['"', '\'', '\\', ' ', '\u{201c}', '\u{201d}'])
            .starts_with(TOKEN_PREFIX)
        {
            quoted.push(shown(text));
        } else {
            others.push(shown(text));
        }
    }
    for list in [&mut tokens, &mut quoted, &mut others] {
        list.truncate(FOUND_MAX);
    }
    if !tokens.is_empty() {
        return Look::of_tokens(tokens);
    }
    if !quoted.is_empty() {
        let advice = "the record's text has quotation marks in it: many DNS pages add them by themselves, so enter the text without";
        return Look::without_tokens(ProofOutcome::Malformed, quoted, advice);
    }
    let advice = format!("add a TXT record whose text begins with {TOKEN_PREFIX}; other records may stay");
    Look::without_tokens(ProofOutcome::NoToken, others, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Look {
        read(&texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn tokens_are_found_among_others() {
        assert_eq!(
            of(&["v=spf1 -all", "service-verification=abc", "service-verification= d "]).tokens,
            ["abc", "d"]
        );
        assert_eq!(of(&[" service-verification=abc\r\n"]).tokens, ["abc"]);
        for wrong in [
            "service-verification:abc",
            "Service-Verification=abc",
            "x service-verification=abc",
            "",
        ] {
            let look = of(&[wrong]);
            assert_eq!((look.tokens.len(), look.outcome), (0, ProofOutcome::NoToken), "{wrong}");
        }
        assert_eq!(read(&[vec![0xff, 0xfe]]).outcome, ProofOutcome::NoToken);
    }

    #[test]
    fn quotation_marks_in_the_text_are_reported() {
        for quoted in [
            "\"service-verification=abc\"",
            "\\\"service-verification=abc\\\"",
            "'service-verification=abc'",
        ] {
            let look = of(&[quoted, "v=spf1 -all"]);
            assert_eq!(
                (look.tokens.len(), look.outcome),
                (0, ProofOutcome::Malformed),
                "{quoted}"
            );
            assert!(look.advice.contains("quotation marks"));
        }
    }

    #[test]
    fn many_and_long_records_are_cut() {
        let long = format!("service-verification={}", "x".repeat(10_000));
        let look = of(&vec![long.as_str(); 100]);
        assert_eq!((look.tokens.len(), look.found.len()), (FOUND_MAX, FOUND_MAX));
        assert!(look.found[0].len() < 200);
    }
}

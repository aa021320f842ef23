//! What a mail says.

use accounts::{ClaimedMail, MailKind};
use lettre::Message;
use lettre::address::Envelope;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};

const DAY_MS: i64 = 86_400_000;

/// RFC 3834, 5: nobody's holiday note answers it.
#[derive(Debug, Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

/// A mail as it goes over the wire.
pub(super) struct Letter {
    pub(super) envelope: Envelope,
    pub(super) bytes: Vec<u8>,
}

impl Letter {
    /// # Errors
    /// What can't be written in a mail: the recipient's address.
    pub(super) fn new(
        mail: &ClaimedMail,
        from: &Mailbox,
        renew_url: Option<&str>,
        now_ms: i64,
    ) -> Result<Self, String> {
        let to: Mailbox = mail
            .to
            .parse()
            .map_err(|error| format!("the recipient's address: {error}"))?;
        let message = Message::builder()
            .from(from.clone())
            .to(to)
            .subject(subject(mail, now_ms))
            // The same at every attempt, so that a server or reader that gets it twice can tell.
            .message_id(Some(format!("<{}@{}>", mail.id, from.email.domain())))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN)
            .body(text(mail, renew_url, now_ms))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            envelope: message.envelope().clone(),
            bytes: message.formatted(),
        })
    }
}

/// Whole days, at least 1 as long as there is time.
fn days_left(mail: &ClaimedMail, now_ms: i64) -> i64 {
    let left_ms = mail.expires_at_ms.saturating_sub(now_ms).max(0);
    left_ms.saturating_add(DAY_MS - 1) / DAY_MS
}

fn day(at_ms: i64) -> String {
    web::rfc3339_ms(at_ms).chars().take(10).collect()
}

fn days(count: i64) -> String {
    if count == 1 {
        "1 day".to_owned()
    } else {
        format!("{count} days")
    }
}

fn subject(mail: &ClaimedMail, now_ms: i64) -> String {
    let (domain, left) = (&mail.domain, days(days_left(mail, now_ms)));
    match mail.kind {
        MailKind::Warning => format!("{domain}: the verification ends in {left}"),
        MailKind::Urgent => format!("Urgent: {domain}: the verification ends in {left}"),
        MailKind::Expired => format!("{domain} is not verified any more"),
    }
}

fn text(mail: &ClaimedMail, renew_url: Option<&str>, now_ms: i64) -> String {
    let (domain, end) = (&mail.domain, day(mail.expires_at_ms));
    let what = match mail.kind {
        MailKind::Warning | MailKind::Urgent => format!(
            "the verification of {domain} ends on {end}, in {}. From then on the domain shows nothing and is refused, until it\nis verified again.",
            days(days_left(mail, now_ms))
        ),
        MailKind::Expired => format!(
            "the verification of {domain} ended on {end}. The domain shows nothing and is refused, until it is verified again. Its\nreceipts and entries are kept."
        ),
    };
    let place = renew_url.map_or(String::new(), |url| format!("\n{url}\n"));
    format!(
        "Hello,\n\n{what}\n\nTo verify it for another year, ask for a new token, publish it, and check it:\n{place}\n  \
         POST /api/v1/verification/renew  {{\"domain\": \"{domain}\"}}\n  \
         GET  /api/v1/verification/check?domain={domain}\n\nVerification: {}\n",
        mail.verification_id
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const END_MS: i64 = 1_800_000_000_000;

    fn mail(kind: MailKind) -> ClaimedMail {
        ClaimedMail {
            id: format!("ver_1.{kind}"),
            kind,
            to: "owner@example.com".to_owned(),
            domain: "example.com".to_owned(),
            verification_id: "ver_1".to_owned(),
            expires_at_ms: END_MS,
            attempts: 1,
        }
    }

    fn letter(kind: MailKind, now_ms: i64) -> String {
        let from = "Receipts <receipts@service.example>".parse().unwrap();
        let letter = Letter::new(&mail(kind), &from, Some("https://publishers.example/domains"), now_ms).unwrap();
        assert_eq!(letter.envelope.to()[0].to_string(), "owner@example.com");
        String::from_utf8(letter.bytes).unwrap()
    }

    #[test]
    fn each_kind_says_what_is_so_and_what_to_do() {
        for (kind, before_days, subject) in [
            (
                MailKind::Warning,
                90,
                "Subject: example.com: the verification ends in 90 days",
            ),
            (
                MailKind::Urgent,
                1,
                "Subject: Urgent: example.com: the verification ends in 1 day\r\n",
            ),
            (MailKind::Expired, -2, "Subject: example.com is not verified any more"),
        ] {
            let letter = letter(kind, END_MS - before_days * DAY_MS);
            for wanted in [
                subject,
                &format!("Message-ID: <ver_1.{kind}@service.example>"),
                "Auto-Submitted: auto-generated",
                "From: Receipts <receipts@service.example>",
                "2027-01-15",
                "/api/v1/verification/renew",
                "https://publishers.example/domains",
            ] {
                assert!(letter.contains(wanted), "{wanted}: {letter}");
            }
        }
    }

    #[test]
    fn a_repeated_mail_has_the_same_id_and_nothing_gets_into_its_head() {
        let id = |now_ms| {
            let letter = letter(MailKind::Urgent, now_ms);
            letter
                .lines()
                .find(|line| line.starts_with("Message-ID"))
                .unwrap()
                .to_owned()
        };
        assert_eq!(id(END_MS - DAY_MS), id(END_MS - 2 * DAY_MS));
        let from = "receipts@service.example".parse().unwrap();
        let strange = ClaimedMail {
            to: "owner@example.com\r\nBcc: other@example.com".to_owned(),
            ..mail(MailKind::Urgent)
        };
        assert!(Letter::new(&strange, &from, None, 0).is_err());
    }
}

//! Texts of mails.

use accounts::{ClaimedMail, MailKind, MailSubject};
use lettre::Message;
use lettre::address::Envelope;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};

use super::{erasure_letter, invitation_letter, report_letter};
use crate::routes::join;

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

/// Addresses that mails lead to.
#[derive(Debug, Clone, Default)]
pub(super) struct Links {
    /// Page on which verifications are renewed (`smtp.renew_url`).
    pub(super) renew_url: Option<String>,
    /// Address of the APIs and the dashboard (`publisher.public_url`).
    pub(super) public_url: Option<String>,
}

/// A mail as it goes over the wire.
pub(super) struct Letter {
    pub(super) envelope: Envelope,
    pub(super) bytes: Vec<u8>,
}

impl Letter {
    /// # Errors
    /// The recipient's address can't be written in a mail.
    pub(super) fn new(mail: &ClaimedMail, from: &Mailbox, links: &Links, now_ms: i64) -> Result<Self, String> {
        let to: Mailbox = mail
            .to
            .parse()
            .map_err(|error| format!("the recipient's address: {error}"))?;
        let (subject, text) = written(mail, links, now_ms)?;
        let message = Message::builder()
            .from(from.clone())
            .to(to)
            .subject(subject)
            // The same at every attempt, so that a server or reader that gets it twice can tell.
            .message_id(Some(format!("<{}@{}>", mail.id, from.email.domain())))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN)
            .body(text)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            envelope: message.envelope().clone(),
            bytes: message.formatted(),
        })
    }
}

/// A mail about a domain.
struct DomainMail<'a> {
    kind: MailKind,
    domain: &'a str,
    /// Identifier of the reader's verification or token, or the domain again.
    id: &'a str,
    /// The instant that the mail is about.
    at_ms: i64,
}

/// Subject and text.
fn written(mail: &ClaimedMail, links: &Links, now_ms: i64) -> Result<(String, String), String> {
    Ok(match &mail.about {
        MailSubject::Domain { domain, id, at_ms } => {
            let mail = DomainMail {
                kind: mail.kind,
                domain,
                id,
                at_ms: *at_ms,
            };
            (subject(&mail, now_ms), text(&mail, links.renew_url.as_deref(), now_ms))
        }
        MailSubject::Erasure(erasure) => erasure_letter::written(mail.kind, erasure),
        MailSubject::Invitation {
            offer,
            token,
            expires_at_ms,
        } => {
            let public_url = links.public_url.as_deref().ok_or("publisher.public_url isn't set")?;
            invitation_letter::written(offer, &join::link(public_url, token), &day(*expires_at_ms))
        }
        MailSubject::Report { account_name, report } => {
            report_letter::written(account_name, report, links.public_url.as_deref())
        }
    })
}

/// Whole days, at least 1 as long as there is time.
fn days_left(mail: &DomainMail<'_>, now_ms: i64) -> i64 {
    let left_ms = mail.at_ms.saturating_sub(now_ms).max(0);
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

fn subject(mail: &DomainMail<'_>, now_ms: i64) -> String {
    let (domain, left) = (mail.domain, days(days_left(mail, now_ms)));
    match mail.kind {
        MailKind::Urgent => format!("Urgent: {domain}: the verification ends in {left}"),
        MailKind::Expired => format!("{domain} is not verified any more"),
        MailKind::Suspended => format!("{domain} is suspended: its proof isn't published any more"),
        MailKind::Contested => format!("Urgent: another account has proven {domain}"),
        MailKind::DomainHeld => format!("{domain} is another account's"),
        MailKind::DomainFree => format!("{domain} is free: check it again"),
        MailKind::Lost => format!("{domain} belongs to another account now"),
        MailKind::Won => format!("{domain} is yours"),
        _ => format!("{domain}: the verification ends in {left}"),
    }
}

/// Next step of the reader: a sentence that introduces the requests.
enum NextStep {
    Renew(&'static str),
    Generate(&'static str),
    Nothing,
}

fn text(mail: &DomainMail<'_>, renew_url: Option<&str>, now_ms: i64) -> String {
    let (domain, end) = (mail.domain, day(mail.at_ms));
    let yearly = "To verify it for another year, request a new token, publish it, and check it:";
    let (what, remedy) = match mail.kind {
        MailKind::Expired => {
            let what = format!(
                "the verification of {domain} ended on {end}. The domain shows nothing and is refused, until it is verified again. Its\n\
                 receipts and entries are retained."
            );
            (what, NextStep::Renew(yearly))
        }
        MailKind::Suspended => {
            let what = format!(
                "the proof of {domain} was checked several times and isn't published any more. The domain is suspended since {end}: it\n\
                 shows nothing and is refused. Its receipts and entries are retained."
            );
            let how = "To restore it, publish the token again where it was: it is checked every day, and at once when you check it.\n\
                       Without that token, request a new one, publish it, and check it:";
            (what, NextStep::Renew(how))
        }
        MailKind::Contested => {
            let what = format!(
                "another account published a proof on {end} that it runs {domain}. The domain stays yours. Your own published proof\n\
                 is checked every day from now on: three checks in a row without it suspend the domain."
            );
            let how = "If you don't know who that is, see who can change the domain's records and pages. To prove it again, request a\n\
                       new token, publish it, and check it:";
            (what, NextStep::Renew(how))
        }
        MailKind::DomainHeld => {
            let what = format!(
                "your proof of {domain} was found on {end}. Another account has verified the domain, whose own proof is checked every\n\
                 day from now on. If you run the domain, remove other accounts' tokens from it, and leave yours published. You get a\n\
                 mail when the other account doesn't have the domain any more."
            );
            (what, NextStep::Nothing)
        }
        MailKind::DomainFree => {
            let what = format!(
                "you have proven {domain}, and nobody has it since {end}. It becomes yours when you check it again."
            );
            let how = "If your token isn't published any more, or is older than a week, request a new one and publish it before:";
            (what, NextStep::Generate(how))
        }
        MailKind::Lost => {
            let what = format!("{domain} belongs to another account since {end}. It shows you nothing any more.");
            let how =
                "If you run it, remove other accounts' tokens from it, request a new token, publish it, and check it:";
            (what, NextStep::Generate(how))
        }
        MailKind::Won => {
            let what = format!("{domain} is yours since {end}, and verified for a year.");
            (what, NextStep::Nothing)
        }
        _ => {
            let left = days(days_left(mail, now_ms));
            let what = format!(
                "the verification of {domain} ends on {end}, in {left}. From then on the domain shows nothing and is refused, until it\n\
                 is verified again."
            );
            (what, NextStep::Renew(yearly))
        }
    };
    let id = mail.id;
    let (how, operation) = match remedy {
        NextStep::Renew(how) => (how, "renew"),
        NextStep::Generate(how) => (how, "generate"),
        NextStep::Nothing => return format!("Hello,\n\n{what}\n\nReference: {id}\n"),
    };
    let link = renew_url.map_or(String::new(), |url| format!("\n{url}\n"));
    format!(
        "Hello,\n\n{what}\n\n{how}\n{link}\n  \
         POST /api/v1/verification/{operation}  {{\"domain\": \"{domain}\"}}\n  \
         GET  /api/v1/verification/check?domain={domain}\n\nReference: {id}\n"
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
            about: MailSubject::Domain {
                domain: "example.com".to_owned(),
                id: "ver_1".to_owned(),
                at_ms: END_MS,
            },
            attempts: 1,
        }
    }

    fn links() -> Links {
        Links {
            renew_url: Some("https://publishers.example/domains".to_owned()),
            public_url: None,
        }
    }

    fn letter(kind: MailKind, now_ms: i64) -> String {
        let from = "Receipts <receipts@service.example>".parse().unwrap();
        let letter = Letter::new(&mail(kind), &from, &links(), now_ms).unwrap();
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
    fn mails_about_owners_say_what_becomes_of_the_domain() {
        for (kind, wanted) in [
            (
                MailKind::Suspended,
                ["is suspended since 2027-01-15", "/api/v1/verification/renew"],
            ),
            (
                MailKind::Contested,
                ["a proof on 2027-01-15 that", "/api/v1/verification/renew"],
            ),
            (
                MailKind::DomainHeld,
                ["was found on 2027-01-15", "leave yours published"],
            ),
            (
                MailKind::DomainFree,
                ["nobody has it since 2027-01-15", "/api/v1/verification/check"],
            ),
            (
                MailKind::Lost,
                ["another account since 2027-01-15", "/api/v1/verification/generate"],
            ),
            (MailKind::Won, ["is yours since 2027-01-15", "verified for a year"]),
        ] {
            // The body of a long line is quoted-printable.
            let letter = letter(kind, END_MS)
                .replace("=\r\n", "")
                .replace("\r\n", "\n")
                .replace("=3D", "=");
            for wanted in wanted {
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
        assert!(Letter::new(&strange, &from, &links(), 0).is_err());
    }
}

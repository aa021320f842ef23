//! Text of a mail about numbers, in the dashboard's words: AI services and their uses.
//!
//! Names of AI services come from strangers. They are shortened to one line, without anything that
//! a mail reader makes a link of, and the subject has none. Companies are proven domains.

use accounts::{MailedReport, PeriodReport, ReportedUse};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::figures::{change, grouped, share};

/// The longest name in a mail, in characters.
const NAME_CHARS_MAX: usize = 60;
const DAY_MS: i64 = 86_400_000;

/// Subject and text of a mail to a member of the account.
pub(super) fn written(account: &str, report: &MailedReport, public_url: Option<&str>) -> (String, String) {
    let (subject, text, view) = match report {
        MailedReport::Weekly(numbers) => period(numbers, "last week", "the week"),
        MailedReport::Monthly(numbers) => {
            let month = shown(numbers.from_ms, "%B %Y");
            period(numbers, &format!("in {month}"), "the month")
        }
        MailedReport::NewOperator {
            operator,
            uses,
            from_ms,
        } => new_operator(operator, *uses, *from_ms),
        MailedReport::Unproven {
            from_ms,
            uses,
            unproven,
            percent,
        } => unproven_day(*from_ms, *uses, *unproven, *percent),
        MailedReport::Silence { last_ms, hours } => silence(*last_ms, *hours),
    };
    let links = public_url.map_or_else(
        || "The dashboard has all numbers, and its settings which mails you get.".to_owned(),
        |url| {
            let url = url.trim_end_matches('/');
            format!(
                "{url}/dashboard#/{view}\n\nYou chose this mail. To stop it or to choose others:\n\
                 {url}/dashboard#/settings/mails"
            )
        },
    );
    (
        format!("{account}: {subject}"),
        format!("Hello,\n\n{text}\n\n{links}\n"),
    )
}

fn period(numbers: &PeriodReport, when: &str, name: &str) -> (String, String, String) {
    let PeriodReport { uses, unproven, .. } = *numbers;
    let uses_text = plural(uses, "use", "uses");
    let in_subject = change(uses, numbers.uses_before).map_or(String::new(), |change| format!(" ({change})"));
    let mut subject = vec![format!("{uses_text} {when}{in_subject}")];
    if numbers.new_operators_total > 0 {
        subject.push(plural(numbers.new_operators_total, "new company", "new companies"));
    }
    if uses > 0 {
        subject.push(format!("{} unproven", share(unproven, uses)));
    }
    let against =
        change(uses, numbers.uses_before).map_or(String::new(), |change| format!(", {change} against {name} before"));
    let mut text = vec![format!(
        "From {} to {} (UTC) your content had {uses_text}{against}.",
        shown(numbers.from_ms, "%-d %B"),
        shown(numbers.to_ms - 1, "%-d %B %Y"),
    )];
    if uses > 0 {
        text.push(format!(
            "Unproven: {} ({})\nAI services: {} ({} before)",
            grouped(unproven),
            share(unproven, uses),
            grouped(numbers.services),
            grouped(numbers.services_before),
        ));
    }
    if numbers.new_operators_total > 0 {
        let heading = format!("New companies: {}", grouped(numbers.new_operators_total));
        text.push(list(&heading, &numbers.new_operators, str::to_owned));
    }
    if !numbers.top_services.is_empty() {
        text.push(list(
            "AI services with the most uses:",
            &numbers.top_services,
            service_name,
        ));
    }
    if !numbers.top_content.is_empty() {
        text.push(list("Content with the most uses:", &numbers.top_content, title));
    }
    text.push(format!("All numbers of {name}:"));
    let view = range(numbers.from_ms, numbers.to_ms);
    (subject.join(", "), text.join("\n\n"), view)
}

fn new_operator(operator: &str, uses: u64, from_ms: i64) -> (String, String, String) {
    let from = shown(from_ms, "%-d %B %Y");
    let text = format!(
        "{operator} uses your content, which it hadn't done for 90 days: {} since {from}.\n\
         The company has proven its domain.\n\nIts uses:",
        plural(uses, "use", "uses"),
    );
    // A domain as it is stored needs no escape.
    (
        format!("a new company, {operator}"),
        text,
        format!("?operator={operator}"),
    )
}

fn unproven_day(from_ms: i64, uses: u64, unproven: u64, percent: u8) -> (String, String, String) {
    let (day, part) = (shown(from_ms, "%-d %B %Y"), share(unproven, uses));
    let text = format!(
        "On {day} (UTC) {} of {} were unproven, {part}. Your limit is {percent}%.\n\
         Anybody can send unproven receipts, under any name.\n\nThe numbers of the day:",
        grouped(unproven),
        plural(uses, "use", "uses"),
    );
    let view = range(from_ms, from_ms + DAY_MS);
    (format!("{part} of the uses of {day} are unproven"), text, view)
}

fn silence(last_ms: i64, hours: u16) -> (String, String, String) {
    let hours = plural(hours.into(), "hour", "hours");
    let last = shown(last_ms, "%-d %B %Y, %H:%M");
    let text = format!(
        "There was no use of your content for {hours}. The last one was on {last} (UTC).\n\
         This service works: what it has received is counted.\n\nYour numbers:"
    );
    (format!("no uses for {hours}"), text, String::new())
}

/// Names and their uses, one a line.
fn list(heading: &str, uses: &[ReportedUse], name: fn(&str) -> String) -> String {
    let width = uses.iter().map(|one| grouped(one.uses).len()).max().unwrap_or(0);
    let lines = uses.iter().map(|one| {
        let unproven = if one.is_proven { "" } else { " (not all proven)" };
        format!("\n  {:>width$}  {}{unproven}", grouped(one.uses), name(&one.name))
    });
    format!("{heading}{}", lines.collect::<String>())
}

/// The query of the dashboard for whole days (UTC).
fn range(from_ms: i64, to_ms: i64) -> String {
    let (first, last) = (shown(from_ms, "%F"), shown(to_ms - 1, "%F"));
    format!("?range={first}..{last}&tz=UTC")
}

fn shown(at_ms: i64, format: &str) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or_default();
    at.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// A service's name without what a mail reader could make a link of: letters and digits, and few
/// signs between them. Dots stay within numbers.
fn service_name(name: &str) -> String {
    let characters: Vec<char> = name.chars().take(NAME_CHARS_MAX * 4).collect();
    let is_digit = |at: Option<usize>| at.and_then(|at| characters.get(at)).is_some_and(char::is_ascii_digit);
    let is_shown = |at: usize, character: char| {
        let is_within_number = character == '.' && is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
        character.is_alphanumeric() || "-_()+&'".contains(character) || is_within_number
    };
    let shown = characters.iter().enumerate();
    let shown: String = shown
        .map(|(at, one)| if is_shown(at, *one) { *one } else { ' ' })
        .collect();
    match one_line(&shown) {
        name if name.is_empty() => "without a name".to_owned(),
        name => name,
    }
}

/// The publisher's own title of an entry, or its URL without the scheme.
fn title(text: &str) -> String {
    let text = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .unwrap_or(text);
    one_line(text)
}

/// A text on one line, shortened.
fn one_line(text: &str) -> String {
    let is_invisible = |one: char| {
        one.is_control()
            || matches!(one, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let words = text.split(|one: char| one.is_whitespace() || is_invisible(one));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let text = words.join(" ");
    match text.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23, a Monday.
    const MONDAY_MS: i64 = 1_795_392_000_000;
    const URL: Option<&str> = Some("https://receipts.example");

    fn used(name: &str, uses: u64, is_proven: bool) -> ReportedUse {
        ReportedUse {
            name: name.to_owned(),
            uses,
            is_proven,
        }
    }

    fn numbers() -> PeriodReport {
        PeriodReport {
            from_ms: MONDAY_MS,
            to_ms: MONDAY_MS + 7 * DAY_MS,
            uses: 1_204,
            uses_before: 1_075,
            unproven: 373,
            services: 8,
            services_before: 6,
            new_operators: vec![used("lyra.example", 40, true)],
            new_operators_total: 3,
            top_services: vec![used("Lyra", 1_000, true), used("Atlas", 90, false)],
            top_content: vec![used("https://news.example/a", 7, true)],
        }
    }

    #[test]
    fn a_week_has_its_numbers_in_subject_and_text_and_one_link_to_them() {
        let (subject, text) = written("news.example", &MailedReport::Weekly(numbers()), URL);
        assert_eq!(
            subject,
            "news.example: 1,204 uses last week (+12%), 3 new companies, 31% unproven"
        );
        assert_eq!(
            text,
            "Hello,\n\n\
             From 23 November to 29 November 2026 (UTC) your content had 1,204 uses, +12% against the week before.\n\n\
             Unproven: 373 (31%)\nAI services: 8 (6 before)\n\n\
             New companies: 3\n  40  lyra.example\n\n\
             AI services with the most uses:\n  1,000  Lyra\n     90  Atlas (not all proven)\n\n\
             Content with the most uses:\n  7  news.example/a\n\n\
             All numbers of the week:\n\n\
             https://receipts.example/dashboard#/?range=2026-11-23..2026-11-29&tz=UTC\n\n\
             You chose this mail. To stop it or to choose others:\n\
             https://receipts.example/dashboard#/settings/mails\n"
        );
    }

    #[test]
    fn a_month_without_use_and_a_service_without_an_address_are_said_so() {
        let empty = PeriodReport {
            from_ms: 1_793_491_200_000,
            to_ms: 1_796_083_200_000,
            ..PeriodReport::default()
        };
        let (subject, text) = written("news.example", &MailedReport::Monthly(empty), None);
        assert_eq!(subject, "news.example: 0 uses in November 2026");
        assert!(
            text.contains("From 1 November to 30 November 2026 (UTC) your content had 0 uses.\n"),
            "{text}"
        );
        assert!(
            !text.contains("http") && text.contains("The dashboard has all numbers"),
            "{text}"
        );
    }

    #[test]
    fn alerts_say_what_happened_and_where_to_look() {
        let operator = MailedReport::NewOperator {
            operator: "lyra.example".to_owned(),
            uses: 1,
            from_ms: MONDAY_MS,
        };
        let unproven = MailedReport::Unproven {
            from_ms: MONDAY_MS,
            uses: 1_000,
            unproven: 512,
            percent: 30,
        };
        let silence = MailedReport::Silence {
            last_ms: MONDAY_MS + 3_600_000,
            hours: 24,
        };
        for (report, subject, parts) in [
            (
                operator,
                "a new company, lyra.example",
                ["1 use since 23 November 2026", "/dashboard#/?operator=lyra.example\n"],
            ),
            (
                unproven,
                "51% of the uses of 23 November 2026 are unproven",
                [
                    "512 of 1,000 uses were unproven, 51%. Your limit is 30%",
                    "?range=2026-11-23..2026-11-23&tz=UTC",
                ],
            ),
            (
                silence,
                "no uses for 24 hours",
                ["was on 23 November 2026, 01:00 (UTC)", "/dashboard#/\n"],
            ),
        ] {
            let (found, text) = written("news.example", &report, URL);
            assert_eq!(found, format!("news.example: {subject}"));
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn strangers_names_are_short_lines_and_no_links() {
        for (name, shown) in [
            ("GPT-4.1 (mini)", "GPT-4.1 (mini)"),
            ("Künstlich & Söhne", "Künstlich & Söhne"),
            ("Win at https://evil.example/?a=b", "Win at https evil example a b"),
            ("a@evil.example", "a evil example"),
            ("one\r\nBcc: two", "one Bcc two"),
            ("\u{202e}elpmaxe.live", "elpmaxe live"),
            ("...", "without a name"),
        ] {
            assert_eq!(service_name(name), shown);
        }
        assert_eq!(service_name(&"x".repeat(10_000)).chars().count(), NAME_CHARS_MAX + 1);
        assert_eq!(title("https://news.example/a\nb"), "news.example/a b");
        assert_eq!(title("A title: with all its signs."), "A title: with all its signs.");
    }
}

//! Numbers in mails, written as the dashboard writes them in English.

/// `1,204`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `part` of `all` as `12%`. Only all is 100%, and only none 0%.
pub(super) fn share(part: u64, all: u64) -> String {
    let ratio = ratio(part, all);
    match part {
        0 => "0%".to_owned(),
        _ if ratio < 0.001 => "<0.1%".to_owned(),
        _ if part < all && ratio >= 0.995 => ">99%".to_owned(),
        _ => percent(ratio),
    }
}

/// Change from `before`: `+12%`, `×24`; `None` from 0.
pub(super) fn change(now: u64, before: u64) -> Option<String> {
    if before == 0 {
        return None;
    }
    let ratio = ratio(now, before);
    Some(match now.cmp(&before) {
        std::cmp::Ordering::Equal => "no change".to_owned(),
        _ if ratio >= 10.0 => format!("×{}", grouped(rounded(ratio))),
        std::cmp::Ordering::Greater => format!("+{}", percent(ratio - 1.0)),
        std::cmp::Ordering::Less => format!("−{}", percent(1.0 - ratio)),
    })
}

/// Tenths of a percent where they say something.
fn percent(ratio: f64) -> String {
    if ratio < 0.1 {
        format!("{:.1}%", (ratio * 1_000.0).round() / 10.0)
    } else {
        format!("{}%", grouped(rounded(ratio * 100.0)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "two digits of a ratio are shown")]
fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "of a ratio of two counts, which is no less than 0"
)]
fn rounded(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `analytics-api/dashboard/src/format.test.ts` expects the same numbers.
    #[test]
    fn numbers_are_written_as_on_the_page() {
        let grouping = [(0, "0"), (999, "999"), (1_204, "1,204"), (1_234_567, "1,234,567")];
        for (number, text) in grouping {
            assert_eq!(grouped(number), text);
        }
        for (part, all, text) in [
            (0, 7, "0%"),
            (7, 7, "100%"),
            (31, 100, "31%"),
            (1, 8, "13%"),
            (99, 1_000, "9.9%"),
            (1, 1_000_000, "<0.1%"),
            (999, 1_000, ">99%"),
            (1, 200, "0.5%"),
        ] {
            assert_eq!(share(part, all), text, "{part} of {all}");
        }
        for (now, before, text) in [
            (112, 100, "+12%"),
            (97, 100, "−3.0%"),
            (5, 5, "no change"),
            (0, 5, "−100%"),
            (24_000, 1_000, "×24"),
            (9_999, 1_000, "+900%"),
        ] {
            assert_eq!(change(now, before).as_deref(), Some(text), "{now} after {before}");
        }
        assert_eq!(change(7, 0), None);
    }
}

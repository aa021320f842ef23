//! A line of the table: ours, the reference, and the target.

use serde::Serialize;

use crate::rounds::Samples;

/// Target of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// Ours over the reference, at least.
    RatioAtLeast(f64),
    /// Ours over the reference, at most.
    RatioAtMost(f64),
    /// Ours alone, at least.
    AtLeast(f64),
    /// Ours alone, less than.
    Below(f64),
}

/// A measured figure, or why it wasn't measured.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// A stable name, to compare runs by.
    pub name: String,
    /// Measured quantity, for a person.
    pub what: String,
    /// The unit of `ours` and `reference`.
    pub unit: &'static str,
    /// The median of ours.
    pub ours: Option<f64>,
    /// The median of the reference.
    pub reference: Option<f64>,
    /// Description of the reference.
    pub reference_is: String,
    /// Ours over the reference: the median of the rounds' ratios.
    pub ratio: Option<f64>,
    /// Target; a row without one is for information.
    pub target: Option<String>,
    /// Whether it was reached.
    pub met: Option<bool>,
    /// Why there is no figure.
    pub skipped: Option<String>,
    /// Further observations.
    pub notes: Vec<String>,
    /// Each round.
    pub rounds: Samples,
}

impl Row {
    /// A row of measured rounds.
    #[must_use]
    pub fn measured(name: &str, what: impl Into<String>, unit: &'static str, rounds: Samples) -> Self {
        Self {
            name: name.to_owned(),
            what: what.into(),
            unit,
            ours: rounds.ours(),
            reference: rounds.reference(),
            ratio: rounds.ratio(),
            rounds,
            ..Self::default()
        }
    }

    /// A row of one number without a reference.
    #[must_use]
    pub fn alone(name: &str, what: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self::measured(
            name,
            what,
            unit,
            Samples {
                ours: vec![ours],
                reference: Vec::new(),
            },
        )
    }

    /// A row that couldn't be measured.
    #[must_use]
    pub fn skipped(name: &str, why: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            skipped: Some(why.into()),
            ..Self::default()
        }
    }

    /// Says what the reference is.
    #[must_use]
    pub fn against(mut self, reference_is: impl Into<String>) -> Self {
        self.reference_is = reference_is.into();
        self
    }

    /// Sets what must be reached.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        let (text, met) = match target {
            Target::RatioAtLeast(least) => (format!(">= {least:.2}x"), self.ratio.map(|ratio| ratio >= least)),
            Target::RatioAtMost(most) => (format!("<= {most:.2}x"), self.ratio.map(|ratio| ratio <= most)),
            Target::AtLeast(least) => (format!(">= {}", number(least)), self.ours.map(|ours| ours >= least)),
            Target::Below(most) => (format!("< {}", number(most)), self.ours.map(|ours| ours < most)),
        };
        self.target = Some(text);
        self.met = met;
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// A number with three significant digits or, from a thousand on, in thousands apart.
#[must_use]
pub fn number(value: f64) -> String {
    if value.abs() < 1_000.0 {
        let decimals = if value.abs() < 10.0 {
            2
        } else {
            usize::from(value.abs() < 100.0)
        };
        let text = format!("{value:.decimals$}");
        return if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        };
    }
    let digits = format!("{value:.0}");
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (value, text) in [
            (0.856, "0.86"),
            (2.0, "2"),
            (10.0, "10"),
            (99.95, "100"),
            (17.25, "17.2"),
            (431.6, "432"),
            (1_234.5, "1,234"),
            (200_000.0, "200,000"),
            (-15_000.0, "-15,000"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn a_target_is_met_or_not_and_open_without_a_measurement() {
        let samples = Samples {
            ours: vec![90.0],
            reference: vec![100.0],
        };
        let row = Row::measured("x", "x", "", samples);
        assert_eq!(row.clone().target(Target::RatioAtLeast(0.85)).met, Some(true));
        assert_eq!(row.clone().target(Target::RatioAtMost(0.85)).met, Some(false));
        assert_eq!(row.target(Target::Below(90.0)).met, Some(false));
        assert_eq!(Row::skipped("x", "absent").target(Target::AtLeast(1.0)).met, None);
    }
}

//! Events as lines for people, or as NDJSON.

use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};

use anstyle::{AnsiColor, Style};
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::event_reader::StreamEvent;
use crate::failure::CommandFailure;
use crate::terminal::{FAINT, GOOD, HEAD, Output, RawOutput, WARN, note, paint, visible};

const TRAINING: Style = AnsiColor::Magenta.on_default();
const INFERENCE: Style = AnsiColor::Cyan.on_default();
const RESEARCH: Style = AnsiColor::Blue.on_default();

/// Columns of a terminal whose width is unknown.
const COLUMNS_DEFAULT: usize = 100;
/// Columns of a client's name.
const CLIENT_COLUMNS: usize = 24;

/// Destination of events.
pub(super) struct ReceiptDisplay {
    form: DisplayForm,
    /// Receipts that are still to be shown; `None` without an end.
    left: Option<u64>,
}

enum DisplayForm {
    Terminal {
        out: Output,
        /// Today's totals, below the lines.
        totals: ProgressBar,
        zone: TimeZone,
    },
    Ndjson {
        out: RawOutput,
        with_totals: bool,
    },
}

impl ReceiptDisplay {
    /// Lines on a terminal, with times in `zone`. Ends after `count` receipts.
    pub(super) fn terminal(zone: TimeZone, count: Option<u64>) -> Self {
        let totals = ProgressBar::new_spinner().with_style(
            ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        totals.set_draw_target(ProgressDrawTarget::stderr());
        Self {
            form: DisplayForm::Terminal {
                out: Output::stdout(),
                totals,
                zone,
            },
            left: count,
        }
    }

    /// NDJSON. Ends after `count` receipts.
    pub(super) fn ndjson(with_totals: bool, count: Option<u64>) -> Self {
        Self {
            form: DisplayForm::Ndjson {
                out: RawOutput::stdout(),
                with_totals,
            },
            left: count,
        }
    }

    /// Shows an event, and returns whether that was the last receipt.
    ///
    /// # Errors
    /// The event isn't one of the analytics API's; standard output can't be written.
    pub(super) fn show(&mut self, event: &StreamEvent) -> Result<bool, CommandFailure> {
        let data: Value = serde_json::from_str(&event.data).map_err(|error| {
            CommandFailure::Unavailable(format!("the event `{}` isn't JSON: {error}", visible(&event.name)))
        })?;
        match event.name.as_str() {
            "receipts" => self.receipts(event, &data)?,
            "totals" => self.totals(event, &data)?,
            "reload" => self.reload(event, &data)?,
            // The connection ends with it, and the next one says why it can't be opened.
            "end" => self.note(&visible(
                data["reason"].as_str().unwrap_or("the service ends the stream"),
            )),
            _ => {}
        }
        match &mut self.form {
            DisplayForm::Terminal { out, totals, .. } => totals.suspend(|| out.flush())?,
            DisplayForm::Ndjson { out, .. } => out.flush()?,
        }
        Ok(self.left == Some(0))
    }

    /// Shows a remark on standard error.
    pub(super) fn note(&self, text: &str) {
        let line = paint(FAINT, visible(text));
        match &self.form {
            DisplayForm::Terminal { totals, .. } => totals.suspend(|| note(line)),
            // Remarks aren't for programs.
            DisplayForm::Ndjson { .. } if stderr().is_terminal() => note(line),
            DisplayForm::Ndjson { .. } => {}
        }
    }

    /// Removes the totals from the terminal.
    pub(super) fn close(&mut self) {
        if let DisplayForm::Terminal { totals, .. } = &self.form {
            totals.finish_and_clear();
        }
    }

    fn receipts(&mut self, event: &StreamEvent, data: &Value) -> Result<(), CommandFailure> {
        let left_out = data["leftOut"].as_u64().unwrap_or(0);
        // The newest comes first.
        let receipts = data["receipts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if left_out > 0 {
            let reason = format!("{left_out} receipts more than are sent one by one");
            self.reload(event, &json!({"reason": reason}))?;
        }
        for receipt in receipts.iter().rev() {
            match &mut self.left {
                Some(0) => break,
                Some(left) => *left -= 1,
                None => {}
            }
            match &mut self.form {
                DisplayForm::Terminal { out, totals, zone } => {
                    let columns = Term::stdout()
                        .size_checked()
                        .map_or(COLUMNS_DEFAULT, |(_, columns)| columns.into());
                    let line = receipt_line(receipt, zone, columns);
                    totals.suspend(|| out.line(line).and_then(|()| out.flush()))?;
                }
                DisplayForm::Ndjson { out, .. } => {
                    out.json(&json!({"event": "receipt", "id": event.id, "receipt": receipt}))?;
                }
            }
        }
        Ok(())
    }

    fn totals(&mut self, event: &StreamEvent, data: &Value) -> Result<(), CommandFailure> {
        match &mut self.form {
            DisplayForm::Terminal { totals, zone, .. } => totals.set_message(totals_line(data, zone)),
            DisplayForm::Ndjson { out, with_totals: true } => {
                out.json(&json!({"event": "totals", "id": event.id, "totals": data}))?;
            }
            DisplayForm::Ndjson { .. } => {}
        }
        Ok(())
    }

    fn reload(&mut self, event: &StreamEvent, data: &Value) -> Result<(), CommandFailure> {
        match &mut self.form {
            DisplayForm::Terminal { out, totals, .. } => {
                let reason = visible(
                    data["reason"]
                        .as_str()
                        .unwrap_or("more changed than is sent one by one"),
                );
                totals.suspend(|| out.line(paint(WARN, format!("… {reason}"))).and_then(|()| out.flush()))
            }
            DisplayForm::Ndjson { out, .. } => {
                out.json(&json!({"event": "reload", "id": event.id, "reason": data["reason"]}))
            }
        }
    }
}

/// A receipt in one line of at most `columns`.
fn receipt_line(receipt: &Value, zone: &TimeZone, columns: usize) -> String {
    let text = |name: &str| visible(receipt[name].as_str().unwrap_or_default());
    let purpose = text("purpose");
    let style = match purpose.as_str() {
        "training" => TRAINING,
        "inference" => INFERENCE,
        _ => RESEARCH,
    };
    let trust = match receipt["operator"].as_str() {
        Some(operator) => paint(GOOD, format!("proven by {}", visible(operator))),
        None => paint(FAINT, "unproven"),
    };
    let client = match text("clientVersion") {
        version if version.is_empty() => text("clientName"),
        version => format!("{} {version}", text("clientName")),
    };
    let client = console::pad_str(&client, CLIENT_COLUMNS, console::Alignment::Left, Some("…")).into_owned();
    let mut line = format!(
        "{}  {}  {}  {}  {trust}",
        paint(FAINT, time(&text("receivedAt"), zone)),
        paint(style, format_args!("{purpose:<9}")),
        paint(HEAD, client),
        text("url"),
    );
    if receipt["beforeVerification"] == true {
        // Writing into a String can't fail.
        let _ = write!(line, "  {}", paint(WARN, "before the verification"));
    }
    console::truncate_str(&line, columns, "…").into_owned()
}

/// Totals of the day.
fn totals_line(totals: &Value, zone: &TimeZone) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let day = totals["from"].as_str().and_then(|from| from.parse::<Timestamp>().ok());
    let day = day.map_or_else(String::new, |day| format!("{:.10} ", day.to_zoned(zone.clone()).date()));
    let (trust, complete) = (&totals["byTrust"], totals["completeThrough"].as_str());
    let complete = complete.map_or_else(
        || "nothing yet".to_owned(),
        |through| format!("complete through {}", time(&visible(through), zone)),
    );
    format!(
        "{day}{} receipts ({} proven), {} clients, {complete}",
        number(&totals["totalReceipts"]),
        number(&trust["proven"]),
        number(&totals["uniqueClients"]),
    )
}

/// The time of an instant in `zone`; the text itself if it is none.
fn time(text: &str, zone: &TimeZone) -> String {
    match text.parse::<Timestamp>() {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string(),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(receipt: &Value, columns: usize) -> String {
        console::strip_ansi_codes(&receipt_line(receipt, &TimeZone::UTC, columns)).into_owned()
    }

    #[test]
    fn a_receipt_is_one_line_that_fits() {
        let receipt = json!({
            "receivedAt": "2026-11-25T03:04:05.678Z", "purpose": "training", "clientName": "Atlas\u{1b}[2J",
            "clientVersion": "3.1", "url": "https://news.example/lead", "operator": "lab.example",
        });
        assert_eq!(
            shown(&receipt, 200),
            "03:04:05  training   Atlas\\u{1b}[2J 3.1        https://news.example/lead  proven by lab.example"
        );
        let cut = shown(&receipt, 40);
        assert_eq!(
            (console::measure_text_width(&cut), cut.ends_with('…')),
            (40, true),
            "{cut}"
        );
        assert!(shown(&json!({"operator": null}), 100).contains("unproven"));
    }

    #[test]
    fn totals_name_the_day_and_the_watermark() {
        let zone = TimeZone::get("Europe/Berlin").unwrap_or(TimeZone::UTC);
        let totals = json!({
            "totalReceipts": 12, "uniqueClients": 3, "byTrust": {"proven": 7, "unproven": 5},
            "from": "2026-11-24T23:00:00.000Z", "completeThrough": "2026-11-25T03:04:05.678Z",
        });
        let line = "2026-11-25 12 receipts (7 proven), 3 clients, complete through 04:04:05";
        assert_eq!(totals_line(&totals, &zone), line);
    }
}

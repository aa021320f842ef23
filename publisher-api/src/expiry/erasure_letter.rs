//! Text of a mail about an erasure.

use accounts::{Erasure, ErasureState, MailKind};
use web::rfc3339_ms;

/// Subject and text of a mail of this kind.
pub(super) fn written(kind: MailKind, erasure: &Erasure) -> (String, String) {
    let (id, what) = (&erasure.id, erasure.request.summary());
    let (subject, text) = match kind {
        MailKind::ErasureDone => ("An erasure is done", done(erasure)),
        MailKind::ErasureCancelled => ("An erasure was cancelled", cancelled(erasure)),
        _ => ("An erasure was requested", requested(erasure)),
    };
    let requested_at = rfc3339_ms(erasure.requested_at_ms);
    let text = format!(
        "Hello,\n\n{text}\n\nErasure: {id}\nRequested: {requested_at} by {}\nWhat: {what}\n",
        erasure.actor
    );
    (format!("{subject}: {what}"), text)
}

fn requested(erasure: &Erasure) -> String {
    let when = rfc3339_ms(erasure.execute_at_ms);
    let way_back = match erasure.state {
        ErasureState::Scheduled => format!(
            "It begins at {when}. Until then nothing is erased, and you can cancel it with an API key that has the\n\
             scope erase:\n\n  DELETE /api/v1/publisher/erasures/{}\n\nIf nobody of yours requested it, cancel it and revoke \
             the key that is named below.",
            erasure.id
        ),
        _ => format!("It began at {when} and can't be cancelled any more."),
    };
    let address = if erasure.request.personal_data {
        "\n\nYour e-mail address is erased, too, so no further mail follows once it has begun."
    } else {
        ""
    };
    format!("an API key of your account requested an erasure. {way_back}{address}")
}

fn cancelled(erasure: &Erasure) -> String {
    let when = rfc3339_ms(erasure.cancelled_at_ms.unwrap_or(erasure.requested_at_ms));
    format!("the erasure below was cancelled at {when}. Nothing was erased.")
}

fn done(erasure: &Erasure) -> String {
    format!(
        "the erasure below is done and confirmed. What it erased:\n\n  GET /api/v1/publisher/erasures/{}",
        erasure.id
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use accounts::{ErasedEntries, NewErasure};

    use super::*;

    fn erasure(state: ErasureState) -> Erasure {
        Erasure {
            id: "era_1".to_owned(),
            account_id: "acc_1".to_owned(),
            actor: "key:0123456789abcdef".to_owned(),
            requested_at_ms: 1_800_000_000_000,
            execute_at_ms: 1_800_086_400_000,
            cancelled_at_ms: (state == ErasureState::Cancelled).then_some(1_800_000_060_000),
            request: NewErasure {
                entries: ErasedEntries::All,
                personal_data: true,
                receipt_metadata: None,
                person: None,
            },
            whole_account: false,
            state,
            counts: BTreeMap::new(),
            problem: None,
            finished_at_ms: None,
        }
    }

    #[test]
    fn each_kind_says_what_happened_and_what_to_do() {
        for (kind, state, parts) in [
            (
                MailKind::ErasureRequested,
                ErasureState::Scheduled,
                vec![
                    "It begins at 2027-01-16T08:00:00.000Z",
                    "DELETE /api/v1/publisher/erasures/era_1",
                    "revoke the key",
                    "no further mail follows",
                ],
            ),
            (
                MailKind::ErasureRequested,
                ErasureState::Store,
                vec!["It began at 2027-01-16T08:00:00.000Z", "can't be cancelled any more"],
            ),
            (
                MailKind::ErasureCancelled,
                ErasureState::Cancelled,
                vec!["was cancelled at 2027-01-15T08:01:00.000Z", "Nothing was erased"],
            ),
            (
                MailKind::ErasureDone,
                ErasureState::Settled,
                vec!["done and confirmed", "GET /api/v1/publisher/erasures/era_1"],
            ),
        ] {
            let (subject, text) = written(kind, &erasure(state));
            assert!(subject.ends_with(": all entries, personal data"), "{subject}");
            for part in parts.into_iter().chain(["Erasure: era_1", "by key:0123456789abcdef"]) {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
}

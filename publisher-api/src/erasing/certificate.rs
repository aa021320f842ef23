//! The certificate of an erasure: what went, what was asked to see that it went, and what an
//! erasure doesn't reach.

use accounts::{EntriesWish, Erasure};
use web::rfc3339_ms;

/// Data that no erasure reaches, for people.
const LEFT: [&str; 5] = [
    "Not erased, because something else needs it, and until when:",
    "- The receipt log holds requests as they came, until its own retention lets go of them; nothing is shown out of it.",
    "- Backups made by the operator, until they are overwritten.",
    "- Receipts stay without their clients: publisher, entry, address of the content, purpose, times, hashes and places in the log, which \
     counts and their audit rest on, until receipts' retention is over.",
    "- Identifiers without a name: of this erasure, of the account, and of erased entries as long as receipts may still be judged by them.",
];

/// The certificate's text. It is a function of the erasure and the time of confirmation, and ends
/// with a line feed.
pub(super) fn text(erasure: &Erasure, confirmed_at_ms: i64) -> String {
    let mut lines = vec![
        "CERTIFICATE OF ERASURE".to_owned(),
        format!("Erasure: {}", erasure.id),
        format!("Account: {}", erasure.account_id),
        format!(
            "Requested: {} by {}",
            rfc3339_ms(erasure.requested_at_ms),
            erasure.actor
        ),
        format!("Confirmed: {}", rfc3339_ms(confirmed_at_ms)),
        String::new(),
        "Asked for:".to_owned(),
    ];
    lines.extend(asked(erasure).into_iter().map(|what| format!("- {what}")));
    lines.push(String::new());
    lines.push("Rows erased or blanked, by table:".to_owned());
    if erasure.counts.values().all(|count| *count == 0) {
        lines.push("- none: there were none".to_owned());
    }
    let counted = erasure.counts.iter().filter(|(_, count)| **count > 0);
    lines.extend(counted.map(|(table, count)| format!("- {table}: {count}")));
    lines.push(String::new());
    lines.push("Confirmed how:".to_owned());
    lines.push("- Rows of the account store were erased and counted in the transactions that erased them.".to_owned());
    if let Some(coverage) = &erasure.wish.receipt_metadata {
        lines.push(format!(
            "- The warehouse changed its rows on every replica (mutations_sync = 2). A count of the rows of receipts before {} or received before, \
             and of rejected receipts received before, whose client id, name, version, organization, key, context, query, session, study or \
             researcher, or whose bytes, finding, request id, address or signature isn't blank, then found 0, for {} domains{}.",
            rfc3339_ms(erasure.requested_at_ms),
            coverage.domains.len(),
            if coverage.inherited.is_empty() { "" } else { " and subdomains" },
        ));
        lines.push(
            "- The aggregates of usage were rebuilt from these rows. A count of aggregates that are counted for such clients, and of \
             compensated ones that still have their names, then found 0."
                .to_owned(),
        );
        lines.push(
            "- A duplicate that arrives later is shown without its client, and its bytes are erased within a day."
                .to_owned(),
        );
        lines.push("- Rejected receipts that name no publisher can't be told to be the account's; addresses in them go by age.".to_owned());
    }
    lines.push(String::new());
    lines.extend(LEFT.map(str::to_owned));
    lines.push(String::new());
    lines.join("\n")
}

fn asked(erasure: &Erasure) -> Vec<String> {
    if erasure.whole_account {
        return vec!["the account with all users, keys, domains, entries, mails and its audit trail".to_owned()];
    }
    let wish = &erasure.wish;
    let entries = match &wish.entries {
        EntriesWish::None => None,
        EntriesWish::All => Some("all entries".to_owned()),
        EntriesWish::These(ids) => Some(format!("{} named entries", ids.len())),
    };
    let personal = "users' names and addresses, labels of API keys".to_owned();
    let receipts = "what tells of clients in receipts".to_owned();
    let asked = [
        entries,
        wish.personal_data.then_some(personal),
        wish.receipt_metadata.as_ref().map(|_| receipts),
    ];
    asked.into_iter().flatten().collect()
}

//! Text of an invitation. Its readers don't know the service: it says who invites them, and shows
//! nothing that the inviter could word freely.

use accounts::OfferedMembership;

/// Subject and text of an invitation with this link, which ends on the day `end`.
pub(super) fn written(offer: &OfferedMembership, link: &str, end: &str) -> (String, String) {
    let OfferedMembership {
        account_id,
        account_name,
        role,
        invited_by,
    } = offer;
    let by = invited_by.as_ref().map_or("somebody", |email| email.as_str());
    let text = format!(
        "Hello,\n\n{by} invites you to the account {account_name} ({account_id}) of Receipts, as {role}. Receipts shows publishers \
         which\nAI services used their content. To join, open this link and sign in:\n\n{link}\n\n\
         It works once, until {end}. If you don't expect this, do nothing.\n"
    );
    (format!("You are invited to {account_name}"), text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use accounts::AccountRole;

    use super::*;

    #[test]
    fn an_invitation_says_who_invites_to_what_and_until_when() {
        let offer = |invited_by: Option<&str>| OfferedMembership {
            account_id: "acc_1".to_owned(),
            account_name: "news.example".to_owned(),
            role: AccountRole::Editor,
            invited_by: invited_by.map(|email| email.parse().unwrap()),
        };
        let (subject, text) = written(
            &offer(Some("anna@news.example")),
            "https://r.example/join",
            "2027-01-15",
        );
        assert_eq!(subject, "You are invited to news.example");
        for part in [
            "anna@news.example invites you to the account news.example (acc_1)",
            "as editor",
            "\nhttps://r.example/join\n",
            "until 2027-01-15",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let (_, text) = written(&offer(None), "https://r.example/join", "2027-01-15");
        assert!(text.contains("somebody invites you"), "{text}");
    }
}

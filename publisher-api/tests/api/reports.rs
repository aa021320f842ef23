//! Mails about numbers, as a member chooses them.

use accounts::AccountRole;
use serde_json::{Value, json};

use crate::members::{by_link, owner};
use crate::stack::Stack;

const REPORTS: &str = "/api/v1/user/reports";

fn shown(answer: &Value) -> Value {
    ["weekly", "monthly", "newOperator", "unprovenPercent", "silentHours"]
        .iter()
        .map(|name| answer[name].clone())
        .collect()
}

#[tokio::test]
async fn each_member_chooses_their_own_mails() {
    let stack = Stack::start().await;
    let (anna, account_id) = owner(&stack, "anna").await;
    let (reader, reader_id) = by_link(&stack, &account_id, AccountRole::Reader).await;
    let before = anna.ask(&stack, "GET", REPORTS).await.expect(200);
    assert_eq!(shown(&before), json!([false, false, false, null, null]));
    assert_eq!(
        (&before["email"], &before["mailConfigured"]),
        (&json!("anna@mail.test"), &json!(false))
    );
    let wanted = json!({"weekly": true, "newOperator": true, "unprovenPercent": 30});
    let chosen = reader.json(&stack, "PUT", REPORTS, &wanted).await.expect(200);
    assert_eq!(shown(&chosen), json!([true, false, true, 30, null]));
    assert_eq!(chosen["email"], Value::Null);
    assert_eq!(reader.ask(&stack, "GET", REPORTS).await.expect(200), chosen);
    assert_eq!(anna.ask(&stack, "GET", REPORTS).await.expect(200), before);
    // What is left out is off.
    let chosen = reader.json(&stack, "PUT", REPORTS, &json!({"silentHours": 720})).await;
    assert_eq!(shown(&chosen.expect(200)), json!([false, false, false, null, 720]));
    let trail = anna.ask(&stack, "GET", "/api/v1/publisher/trail").await.expect(200);
    let noted: Vec<&Value> = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["action"] == "reports.choose")
        .collect();
    assert_eq!(noted.len(), 2);
    assert_eq!(noted[0]["actor"], format!("user:{reader_id}"));
    assert_eq!(noted[0]["detail"], "720 h without receipts");
}

#[tokio::test]
async fn limits_out_of_range_are_refused_with_what_is_allowed() {
    let stack = Stack::start().await;
    let (anna, _) = owner(&stack, "anna").await;
    for (wrong, faults) in [
        (json!({"unprovenPercent": 0}), vec![("/unprovenPercent", "1 to 99")]),
        (
            json!({"unprovenPercent": 100, "silentHours": 721}),
            vec![("/unprovenPercent", "1 to 99"), ("/silentHours", "1 to 720")],
        ),
        (json!({"silentHours": 0}), vec![("/silentHours", "1 to 720")]),
        (json!({"silentHours": -1}), vec![]),
        (json!({"unprovenPercent": 300}), vec![]),
        (json!({"unprovenPercent": 30.5}), vec![]),
        (json!({"weekly": "yes"}), vec![]),
        (json!({"daily": true}), vec![]),
        (json!([]), vec![]),
    ] {
        let answer = anna.json(&stack, "PUT", REPORTS, &wrong).await;
        let problem = answer.refused(400, "invalid_body");
        for (pointer, allowed) in faults {
            let errors = problem["errors"].as_array().unwrap();
            let fault = errors.iter().find(|one| one["pointer"] == pointer).unwrap();
            assert!(fault["detail"].as_str().unwrap().contains(allowed), "{problem}");
        }
    }
    let now = anna.ask(&stack, "GET", REPORTS).await.expect(200);
    assert_eq!(shown(&now), json!([false, false, false, null, null]));
}

/// Looking makes no account, choosing does.
#[tokio::test]
async fn who_is_in_no_account_gets_one_by_choosing() {
    let stack = Stack::start().await;
    let store = &stack.deps.accounts;
    let user = store.sign_in(&crate::members::subject("anna")).await.unwrap();
    let browser = crate::browser::Browser::start(&stack, &user).await;
    browser.ask(&stack, "GET", REPORTS).await.expect(200);
    assert_eq!(store.memberships(&user.id).await.unwrap().len(), 0);
    browser
        .json(&stack, "PUT", REPORTS, &json!({"monthly": true}))
        .await
        .expect(200);
    let account_id = &store.memberships(&user.id).await.unwrap()[0].account_id;
    assert!(store.report_choice(account_id, &user.id).await.unwrap().monthly);
}

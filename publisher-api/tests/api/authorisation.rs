//! Permissions: every address of the document with every kind of credential. A refused request
//! changes nothing, nobody sees anything of another account, and what is another's is answered as
//! what doesn't exist.

mod questions;
mod roles;
mod table;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::questions::Questions;
use self::table::{Access, Expected, Noun, Row, rows};
use self::world::{Account, Asked, World};
use crate::provider::{Provider, claims};
use crate::stack::Stack;

/// A credential, and what it is answered.
struct Case<'a> {
    who: &'static str,
    authorization: Vec<String>,
    expected: Expected,
    /// Account of the credential, if it holds.
    account: Option<&'a Account>,
}

impl<'a> Case<'a> {
    fn refused(who: &'static str, authorization: &[String], code: &'static str) -> Self {
        Self {
            who,
            authorization: authorization.to_vec(),
            expected: (401, code),
            account: None,
        }
    }

    fn of(who: &'static str, account: &'a Account, bearer: &str, expected: Expected) -> Self {
        Self {
            who,
            authorization: vec![format!("Bearer {bearer}")],
            expected,
            account: Some(account),
        }
    }
}

fn bearer(text: &str) -> String {
    format!("Bearer {text}")
}

/// A key's id with another's secret.
fn spliced(id: &str, secret: &str) -> String {
    let parts = [id, secret].map(|key| key.split('_').collect::<Vec<_>>());
    [parts[0][0], parts[0][1], parts[1][2], parts[1][3]].join("_")
}

/// Credentials that don't hold here.
async fn refused(world: &World, access: Access) -> Vec<Case<'_>> {
    let (anna, bert) = (&world.anna, &world.bert);
    let (missing, invalid, expired) = match access {
        Access::Key => ("missing_api_key", "invalid_api_key", "expired_api_key"),
        _ => ("missing_token", "invalid_token", "expired_token"),
    };
    let mut cases = vec![
        Case::refused("nothing", &[], missing),
        Case::refused("no text", &["Bearer ".to_owned()], invalid),
        Case::refused("another scheme", &["Basic YW5uYTpwYXNz".to_owned()], invalid),
        Case::refused("nonsense", &[bearer("nonsense")], invalid),
    ];
    let add = |who: &'static str, text: &str, code: &'static str| Case::refused(who, &[bearer(text)], code);
    if access == Access::Key {
        let elsewhere = Stack::start().await;
        cases.extend([
            add(
                "an unknown key",
                &elsewhere.key("anna.example", crate::stack::ALL).await,
                invalid,
            ),
            add("a wrong secret", &spliced(&anna.key, &bert.key), invalid),
            add("an expired key", &world.expired, expired),
            add("a revoked key", &world.revoked, invalid),
            add("a JWT", &anna.token, invalid),
            Case::refused("two keys", &[bearer(&anna.key), bearer(&anna.key)], invalid),
        ]);
    } else {
        let mut later = claims("anna");
        later["exp"] = Value::from(later["exp"].as_i64().unwrap() + 400 * 86_400);
        let elsewhere = Provider::new().ed25519(&later);
        later["aud"] = "someone-else".into();
        cases.extend([
            add("an API key", &anna.key, invalid),
            add("an expired JWT", &world.provider.token("anna"), expired),
            add("a JWT by another provider", &elsewhere, invalid),
            add("a JWT for others", &world.provider.ed25519(&later), invalid),
            Case::refused("two JWTs", &[bearer(&anna.token), bearer(&anna.token)], invalid),
        ]);
    }
    cases
}

/// Credentials that hold, and not for this or not for what is anna's.
fn limited<'a>(world: &'a World, row: &Row) -> Vec<Case<'a>> {
    let (anna, bert) = (&world.anna, &world.bert);
    let foreign = if row.noun == Noun::Nothing {
        (row.good, row.good_code)
    } else {
        row.foreign
    };
    if row.access == Access::Jwt {
        return vec![Case::of("another user", bert, &bert.token, foreign)];
    }
    let lacking = anna.without(row.scope());
    vec![
        Case::of("a key without the scope", anna, lacking, (403, "insufficient_scope")),
        Case::of("another publisher's key", bert, &bert.key, foreign),
        Case::of(
            "a verification that ran out",
            &world.lotte,
            &world.lotte.key,
            row.unverified,
        ),
        Case::of("a domain given back", &world.gary, &world.gary.key, row.unverified),
    ]
}

/// Credentials with which it is done.
fn allowed<'a>(world: &'a World, row: &Row) -> Vec<Case<'a>> {
    let (anna, bert, good) = (&world.anna, &world.bert, (row.good, row.good_code));
    if row.access == Access::Jwt {
        return vec![Case::of("the user", anna, &anna.token, good)];
    }
    let enough = anna.only(row.scope());
    let mut cases = vec![
        Case::of("a key", anna, &anna.key, good),
        Case::of("a key with just the scope", anna, enough, good),
    ];
    if row.noun != Noun::Nothing {
        cases.push(Case::of("another publisher's key, for its own", bert, &bert.key, good));
    }
    cases
}

/// The addresses with their access.
fn listed(rows: &[Row]) -> BTreeMap<(String, String), Access> {
    rows.iter()
        .map(|row| ((row.path.to_owned(), row.method.to_owned()), row.access))
        .collect()
}

/// The document's operations.
fn operations(document: &Value) -> BTreeMap<(String, String), &Value> {
    let mut operations = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation["responses"].is_object() {
                operations.insert((path.clone(), method.to_ascii_uppercase()), operation);
            }
        }
    }
    operations
}

fn access(operation: &Value) -> Access {
    match operation["security"].to_string().as_str() {
        "null" => Access::Open,
        "[{}]" => Access::Public,
        r#"[{"apiKey":[]}]"# => Access::Key,
        r#"[{"jwt":[]}]"# => Access::Jwt,
        r#"[{"session":[]}]"# => Access::Session,
        other => panic!("{other}"),
    }
}

fn check(row: &Row, case: &Case<'_>, asked: &Asked, operation: &Value, marks: &BTreeMap<&str, Vec<String>>) {
    let Asked { answer, sent, .. } = asked;
    let (status, code) = case.expected;
    let text = String::from_utf8_lossy(&answer.body);
    let reported = format!("{} {sent} with {}: {} {text}", row.method, case.who, answer.status);
    assert_eq!(answer.status, status, "{reported}");
    assert!(
        operation["responses"][status.to_string()].is_object(),
        "not in the document: {reported}"
    );
    assert_eq!(
        answer.headers.contains_key("www-authenticate"),
        status == 401,
        "{reported}"
    );
    assert_eq!(
        answer.headers.contains_key("x-ratelimit-limit"),
        case.account.is_some() || row.access == Access::Public,
        "{reported}"
    );
    // A page for people has no code.
    let is_page = answer.header("content-type").starts_with("text/html");
    assert_eq!(code.is_empty(), status < 400 || is_page, "{reported}");
    if status >= 400 && !is_page {
        let problem = answer.refused(status, code);
        assert_eq!(problem["requestId"], answer.header("x-request-id"), "{reported}");
    }
    let headers = format!("{:?}", answer.headers);
    for (name, marks) in marks {
        if case.account.is_some_and(|account| account.name == *name) {
            continue;
        }
        for mark in marks.iter().filter(|mark| !sent.contains(mark.as_str())) {
            assert!(
                !text.contains(mark) && !headers.contains(mark),
                "{mark} of {name}'s in {reported} {headers}"
            );
        }
    }
}

#[tokio::test]
async fn every_address_answers_every_credential_as_it_says() {
    let questions = Questions::default();
    let _here = metrics::set_default_local_recorder(&questions);
    let world = World::new(questions.clone()).await;
    let rows = rows();
    let document = serde_json::to_value(publisher_api::document()).unwrap();
    let operations = operations(&document);
    let documented: BTreeMap<_, _> = operations.iter().map(|(at, one)| (at.clone(), access(one))).collect();
    assert_eq!(
        listed(&rows),
        documented,
        "an address that isn't in the table, or not in the document"
    );
    let refused_for = [
        (Access::Key, refused(&world, Access::Key).await),
        (Access::Jwt, refused(&world, Access::Jwt).await),
    ];
    for row in &rows {
        let operation = operations[&(row.path.to_owned(), row.method.to_owned())];
        let target = world.target(row.noun, &world.anna).await;
        let before = world.state(&world.anna).await;
        let mut marks = BTreeMap::new();
        for account in [&world.anna, &world.bert, &world.lotte, &world.gary] {
            marks.insert(account.name, world.marks(account).await);
        }
        // `roles` has what a session is answered.
        if row.access == Access::Session {
            continue;
        }
        if row.noun == Noun::Join {
            // Its page says to whoever has the link into which account it leads.
            marks.remove(world.anna.name);
        }
        if matches!(row.access, Access::Open | Access::Public) {
            for (_, credentials) in &refused_for {
                for credential in credentials {
                    let case = Case {
                        expected: (row.good, if row.good == 403 { "cross_site" } else { "" }),
                        authorization: credential.authorization.clone(),
                        ..*credential
                    };
                    let asked = world.ask(row, &target, &case.authorization).await;
                    check(row, &case, &asked, operation, &marks);
                }
            }
            continue;
        }
        let (_, refused) = refused_for.iter().find(|(access, _)| *access == row.access).unwrap();
        for case in refused {
            let asked = world.ask(row, &target, &case.authorization).await;
            check(row, case, &asked, operation, &marks);
            assert_eq!(asked.questions, [""; 0], "{} asked for {}", row.path, case.who);
        }
        for case in limited(&world, row) {
            let own = match case.account {
                Some(account) if [world.lotte.name, world.gary.name].contains(&account.name) => {
                    &world.target(row.noun, account).await
                }
                _ => &target,
            };
            let asked = world.ask(row, own, &case.authorization).await;
            check(row, &case, &asked, operation, &marks);
        }
        assert!(
            world.state(&world.anna).await == before,
            "{} {} changed what is another's",
            row.method,
            row.path
        );
        for case in allowed(&world, row) {
            let own = world.target(row.noun, case.account.unwrap()).await;
            let asked = world.ask(row, &own, &case.authorization).await;
            check(row, &case, &asked, operation, &marks);
        }
        if row.noun != Noun::Nothing {
            probe(&world, row).await;
        }
    }
    cursors_are_nobodys(&world).await;
    let totals = async |account: &Account| {
        let data = world
            .stack
            .server
            .get("/api/v1/publisher/data", &account.key)
            .await
            .expect(200);
        data["receipts"]["total"].clone()
    };
    assert_eq!(
        (totals(&world.anna).await, totals(&world.lotte).await),
        (3.into(), 0.into())
    );
}

/// An answer without what is about the request itself, and in a success about what it made.
fn comparable(asked: &Asked, id: &str) -> (u16, Value, BTreeSet<(String, String)>, Vec<String>) {
    let answer = &asked.answer;
    let text = answer.text().replace(id, "{id}");
    let mut body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    for member in ["requestId", "erasureId"] {
        body.as_object_mut().map(|body| body.remove(member));
    }
    let own = [
        "x-request-id",
        "x-ratelimit-remaining",
        "content-length",
        "date",
        "location",
    ];
    let headers = answer.headers.iter().filter(|(name, _)| !own.contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (answer.status, body, headers.collect(), asked.questions.clone())
}

/// Objects of another account are answered as missing ones, after the same queries to the store.
async fn probe(world: &World, row: &Row) {
    let credentials = match row.access {
        Access::Jwt => vec![&world.bert.token, &world.gary.token],
        _ => vec![&world.bert.key, &world.lotte.key],
    };
    for credential in credentials {
        let (anothers, nothing) = (world.target(row.noun, &world.anna).await, world.nothing(row.noun));
        let credential = [bearer(credential)];
        let foreign = world.ask(row, &anothers, &credential).await;
        let none = world.ask(row, &nothing, &credential).await;
        let (foreign, none) = (comparable(&foreign, &anothers), comparable(&none, &nothing));
        assert_eq!(foreign, none, "{} {}", row.method, row.path);
        assert!(!foreign.3.is_empty() || foreign.0 == 403, "{} {}", row.method, row.path);
    }
}

/// A cursor says where, never whose.
async fn cursors_are_nobodys(world: &World) {
    let (anna, bert, server) = (&world.anna, &world.bert, &world.stack.server);
    let marks = world.marks(anna).await;
    for (path, mine, others) in [
        ("/api/v1/auth/keys?limit=1", &anna.token, &bert.token),
        ("/api/v1/publisher/entries?limit=1", &anna.key, &bert.key),
        ("/api/v1/publisher/trail?limit=1", &anna.key, &bert.key),
        ("/api/v1/publisher/export?collection=keys", &anna.key, &bert.key),
        ("/api/v1/publisher/export?collection=receipts", &anna.key, &bert.key),
        ("/api/v1/publisher/export?collection=refusals", &anna.key, &bert.key),
    ] {
        let page = server.get(path, mine).await.text();
        let lines = page.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let cursor = lines
            .filter_map(|line| Some(line.get("nextCursor").or(line.get("cursor"))?.as_str()?.to_owned()))
            .next()
            .unwrap_or_else(|| panic!("no cursor in {page}"));
        let answer = server.get(&format!("{path}&cursor={cursor}"), others).await;
        let text = answer.text();
        assert_eq!(answer.status, 200, "{text}");
        // Handed back at the end of an export, as it was handed in.
        let text = text.replace(&cursor, "");
        assert!(marks.iter().all(|mark| !text.contains(mark)), "{path}: {text}");
    }
}

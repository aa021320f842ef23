//! TXT records and names, from a real resolver.

use outbound::{Error, OutboundClient, Unresolved};

use crate::world::{World, client, nobody};

async fn texts(client: &OutboundClient, name: &str) -> Vec<String> {
    let mut texts: Vec<String> = client
        .txt(name)
        .await
        .unwrap()
        .into_iter()
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .collect();
    texts.sort_unstable();
    texts
}

fn why(error: Error) -> Unresolved {
    match error {
        Error::Unresolvable { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn txt_records_come_joined_and_through_aliases() {
    let client = client(nobody());
    assert_eq!(texts(&client, "text.test").await, ["service-verification=abc"]);
    assert_eq!(texts(&client, "TEXT.Test.").await, ["service-verification=abc"]);
    assert_eq!(
        texts(&client, "quoted.test").await,
        ["\"service-verification=abc\""],
        "as it stands: quotes are the caller's to judge"
    );
    assert_eq!(texts(&client, "split.test").await, ["service-verification=abc"]);
    assert_eq!(texts(&client, "many.test").await, ["one", "two2", "\u{fffd}"]);
    assert_eq!(texts(&client, "textalias.test").await, ["one", "two2", "\u{fffd}"]);
    let long = texts(&client, "long.test").await;
    assert_eq!((long.len(), long[39].len()), (40, 203), "over TCP");
}

#[tokio::test]
async fn what_is_not_there_is_distinguished_from_what_cannot_be_asked() {
    let client = client(nobody());
    assert_eq!(
        why(client.txt("nowhere.test").await.unwrap_err()),
        Unresolved::NoSuchName
    );
    assert_eq!(
        why(client.txt("dangling.test").await.unwrap_err()),
        Unresolved::NoSuchName
    );
    assert_eq!(
        why(client.txt("good.test").await.unwrap_err()),
        Unresolved::NoRecords("TXT")
    );
    assert_eq!(
        why(client.get("https://text.test/", 1).await.unwrap_err()),
        Unresolved::NoRecords("A or AAAA")
    );
    assert_eq!(
        why(client.get("https://nowhere.test/", 1).await.unwrap_err()),
        Unresolved::NoSuchName
    );
    for name in ["x.broken", "x.refused", "loop.test"] {
        let error = client.txt(name).await.unwrap_err();
        assert!(error.may_pass(), "{error:?}");
        assert!(matches!(why(error), Unresolved::Failed(_)), "{name}");
    }
    for name in ["a..b", &"x".repeat(64), &"x.".repeat(200)] {
        assert!(
            matches!(client.txt(name).await.unwrap_err(), Error::Refused(_)),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_resolver_that_is_silent_or_away_is_a_failure_in_time() {
    let mut config = World::get().config(nobody());
    config.dns_ms_max = 300;
    let silent = OutboundClient::new(&config).unwrap();
    let error = silent.txt("x.silent").await.unwrap_err();
    assert!(
        error.may_pass()
            && !matches!(
                error,
                Error::Unresolvable {
                    why: Unresolved::NoSuchName,
                    ..
                }
            ),
        "{error:?}"
    );
    config.test_resolver = Some(nobody());
    let away = OutboundClient::new(&config).unwrap();
    assert!(away.txt("text.test").await.unwrap_err().may_pass());
}

#[tokio::test]
async fn what_was_published_a_moment_ago_is_seen() {
    let dns = test_engines::Dns::start("").unwrap();
    let mut config = World::get().config(nobody());
    config.test_resolver = Some(dns.address());
    let client = OutboundClient::new(&config).unwrap();
    assert_eq!(why(client.txt("new.test").await.unwrap_err()), Unresolved::NoSuchName);
    dns.set("new.test. 3600 IN TXT \"first\"").unwrap();
    assert_eq!(texts(&client, "new.test").await, ["first"]);
    dns.set("new.test. 3600 IN TXT \"second\"").unwrap();
    assert_eq!(texts(&client, "new.test").await, ["second"], "nothing is retained");
}

//! Ends of streams, and of days.

use std::time::Duration;

use accounts::{AccountRole, SignInMethod};

use crate::stream::{client, listen, open, open_with};
use crate::world::{NOON_MS, World};

pub(crate) async fn a_revoked_key_ends_its_streams(world: &World) {
    let (revoked, other) = (
        world.publisher("gone.example").await,
        world.publisher("stays.example").await,
    );
    let server = world.server(|config| config.live_key_age_ms_max = 20).await;
    let mut streams = [
        listen(&server, &revoked, None).await,
        listen(&server, &revoked, None).await,
    ];
    let mut stays = listen(&server, &other, None).await;
    for stream in &mut streams {
        stream.next_of("totals").await;
    }
    let done = world
        .accounts
        .revoke_key(None, &revoked.key_id, "operator")
        .await
        .unwrap();
    assert_eq!(done, accounts::Revocation::Done);
    for mut stream in streams {
        let end = stream.next_of("end").await;
        assert!(end.data["reason"].as_str().unwrap().contains("key"), "{end:?}");
        assert!(stream.next().await.is_none());
    }
    let again = open(&client(false), &server, &revoked.key, "", None).await;
    assert_eq!(again.status, 401);
    world.deliver(0, &world.receipts(&other.domain, 1)).await;
    stays.next_of("receipts").await;
    server.stop().await;
}

pub(crate) async fn a_sign_out_ends_its_streams_and_no_others(world: &World) {
    let publisher = world.publisher("signed-in.example").await;
    let store = &world.accounts;
    let account_id = store
        .account_of(&publisher.domain.parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    let link = store
        .create_login_link(Some(&account_id), AccountRole::Reader)
        .await
        .unwrap();
    let reader = store.use_login_link(&link).await.unwrap().unwrap();
    let server = world.server(|config| config.live_key_age_ms_max = 20).await;
    let (http, mut streams, mut sessions) = (client(false), Vec::new(), Vec::new());
    for _ in 0..2 {
        let token = store
            .start_session(&reader, SignInMethod::Link, store.now_ms(), None)
            .await
            .unwrap();
        let cookie = format!("__Host-receipts={}", token.reveal());
        let credential = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
        let mut stream = open_with(&http, &server, &credential, "", None).await;
        assert_eq!(stream.status, 200);
        stream.next_of("totals").await;
        streams.push(stream);
        sessions.push(store.session(&token).await.unwrap().unwrap().id);
    }
    let [mut ended, mut stays] = <[_; 2]>::try_from(streams).ok().unwrap();
    assert!(store.end_session(&reader.id, None, &sessions[0]).await.unwrap());
    ended.next_of("end").await;
    assert!(ended.next().await.is_none());
    world.deliver(0, &world.receipts(&publisher.domain, 1)).await;
    stays.next_of("receipts").await;
    server.stop().await;
}

pub(crate) async fn a_shutdown_ends_streams_in_time(world: &World) {
    let publisher = world.publisher("closing.example").await;
    let server = world.server(|config| config.drain_ms_max = 600_000).await;
    let mut streams = [
        listen(&server, &publisher, None).await,
        listen(&server, &publisher, None).await,
    ];
    for stream in &mut streams {
        stream.next_of("totals").await;
    }
    server.shutdown.cancel();
    for mut stream in streams {
        while stream.next().await.is_some() {}
        assert!((1_000..5_000).contains(&stream.retry_ms.unwrap()));
    }
    // Not after ten minutes.
    tokio::time::timeout(Duration::from_secs(300), server.running)
        .await
        .unwrap()
        .unwrap();
}

pub(crate) async fn the_days_totals_turn_with_the_day(world: &World) {
    let publisher = world.publisher("day.example").await;
    let server = world.server(|_| {}).await;
    world.deliver(0, &world.receipts(&publisher.domain, 10)).await;
    let http = client(false);
    let mut utc = open(&http, &server, &publisher.key, "?tz=UTC", None).await;
    let totals = utc.next_of("totals").await.data;
    assert_eq!(
        (&totals["totalReceipts"], &totals["from"]),
        (&10.into(), &"2026-03-30T00:00:00.000Z".into())
    );
    assert_eq!(totals["completeThrough"], web::rfc3339_ms(NOON_MS));
    // Sydney is eleven hours ahead: its day began at 13:00, before all of them.
    let mut sydney = open(&http, &server, &publisher.key, "?tz=Australia/Sydney", None).await;
    let totals = sydney.next_of("totals").await.data;
    assert_eq!(
        (&totals["totalReceipts"], &totals["from"]),
        (&10.into(), &"2026-03-30T13:00:00.000Z".into())
    );
    world.progress.set_complete_ms(NOON_MS + 4 * 3_600_000);
    loop {
        let totals = utc.next_of("totals").await.data;
        if totals["from"] == "2026-03-31T00:00:00.000Z" {
            assert_eq!(totals["totalReceipts"], 0);
            break;
        }
    }
    world.progress.set_complete_ms(NOON_MS);
    server.stop().await;
}

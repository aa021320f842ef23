//! While Redis is there: one quota for both replicas.

use std::sync::Arc;

use crate::replicas::{CLIENTS, DASHBOARD, FREE_PER_MINUTE, Replicas};

/// Requests of one client, half of them to each replica.
const ROUNDS: usize = 2;
/// Requests of a key that others must not get in the way of.
const CALM: u32 = 30;

pub(crate) async fn exactly_the_quota_is_admitted_and_no_other_key_waits(replicas: &Replicas) {
    replicas.next_minute();
    let (busy, calm) = (
        replicas.free_key("busy.example").await,
        replicas.free_key("calm.example").await,
    );
    let storm = replicas.storm(&busy, ROUNDS, |_| DASHBOARD.to_owned());
    let beside = async {
        for number in 1..=CALM {
            let answer = replicas.get(number as usize % 2, &calm, DASHBOARD).await;
            assert_eq!((answer.status, answer.remaining), (200, FREE_PER_MINUTE - number));
        }
    };
    let (answers, ()) = tokio::join!(storm, beside);
    assert_eq!(answers.len(), CLIENTS * ROUNDS);
    let (admitted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(admitted.len(), FREE_PER_MINUTE as usize);
    // Each of them got a place of its own.
    let mut left: Vec<u32> = admitted.iter().map(|answer| answer.remaining).collect();
    left.sort_unstable();
    assert!(left.into_iter().eq(0..FREE_PER_MINUTE));
    for answer in &admitted {
        assert_eq!(
            (answer.limit, answer.reset_s),
            (FREE_PER_MINUTE, replicas.minute_end_s())
        );
        assert_eq!(answer.retry_after_s, None);
    }
    for answer in &refused {
        assert_eq!((answer.status, answer.code.as_str()), (429, "rate_limited"));
        assert_eq!((answer.limit, answer.remaining), (FREE_PER_MINUTE, 0));
        // The clock stands half a minute before the window's end.
        assert_eq!(
            (answer.reset_s, answer.retry_after_s),
            (replicas.minute_end_s(), Some(30))
        );
    }
}

/// Whatever key a request has, and whatever replica it goes to.
pub(crate) async fn keys_of_an_account_share_its_quota(replicas: &Replicas) {
    replicas.next_minute();
    let domain = "keys.example";
    let first = replicas.free_key(domain).await;
    let second = replicas.new_key(domain).await;
    for number in 1..FREE_PER_MINUTE {
        let key = if number % 3 == 0 { &first } else { &second };
        let answer = replicas.get(number as usize % 2, key, DASHBOARD).await;
        assert_eq!((answer.status, answer.remaining), (200, FREE_PER_MINUTE - number));
    }
    // A key that is made now has what is left of the account's.
    let third = replicas.new_key(domain).await;
    assert_eq!(replicas.get(0, &third, DASHBOARD).await.remaining, 0);
    for key in [&first, &second, &third] {
        for replica in 0..2 {
            let answer = replicas.get(replica, key, DASHBOARD).await;
            assert_eq!(
                (answer.status, answer.limit, answer.remaining),
                (429, FREE_PER_MINUTE, 0)
            );
        }
    }
    let others = replicas.free_key("other-keys.example").await;
    assert_eq!(replicas.get(1, &others, DASHBOARD).await.remaining, FREE_PER_MINUTE - 1);
}

pub(crate) async fn admitted_costs_add_up_to_the_quota(replicas: &Replicas) {
    replicas.next_minute();
    let key = replicas.free_key("dear.example").await;
    let paths = Arc::new([
        (1, DASHBOARD.to_owned()),
        (2, format!("{DASHBOARD}?from=2025-01-01&to=2025-12-01")),
        (5, format!("{DASHBOARD}?from=2019-01-01&to=2026-01-01")),
    ]);
    let of_number = Arc::clone(&paths);
    let answers = replicas
        .storm(&key, ROUNDS, move |number| of_number[number % 3].1.clone())
        .await;
    let mut sum = 0;
    for answer in &answers {
        let (cost, _) = paths.iter().find(|(_, path)| *path == answer.path).unwrap();
        assert_eq!(answer.cost, *cost);
        match answer.status {
            200 => sum += cost,
            // What is left, if anything, is too little for it.
            429 => assert!(answer.remaining < *cost, "{} of {cost}", answer.remaining),
            other => panic!("{other} {}", answer.path),
        }
    }
    // More than 60 of them cost one each, so nothing is left.
    assert_eq!(sum, FREE_PER_MINUTE);
}

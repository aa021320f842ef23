//! Redis dies under load and comes back.

use service::health::Status;

use crate::replicas::{DASHBOARD, FREE_PER_MINUTE, Replicas};

/// Requests of one client, half of them to each replica.
const ROUNDS: usize = 4;
/// Answers after which Redis is killed: the clients have most of their requests before them.
const ANSWERS_BEFORE: usize = 100;
const BUSY: &str = "outage.example";
const CALM: u32 = 20;

pub(crate) async fn each_replica_holds_the_limit_by_itself_until_redis_is_back(replicas: &Replicas) {
    replicas.next_minute();
    each_replica_holds_the_limit_by_itself(replicas).await;
    what_was_admitted_meanwhile_counts(replicas).await;
}

async fn each_replica_holds_the_limit_by_itself(replicas: &Replicas) {
    let (busy, calm) = (replicas.free_key(BUSY).await, replicas.free_key("beside.example").await);
    let before = replicas.fallbacks();
    let storm = replicas.storm(&busy, ROUNDS, |_| DASHBOARD.to_owned());
    let killing = async {
        replicas.answered(ANSWERS_BEFORE).await;
        replicas.kill_redis().await;
        for number in 0..CALM {
            let answer = replicas.get(number as usize % 2, &calm, DASHBOARD).await;
            assert_eq!(answer.status, 200);
        }
    };
    let (answers, ()) = tokio::join!(storm, killing);
    let mut admitted = [0; 2];
    for answer in &answers {
        match answer.status {
            200 => admitted[answer.replica] += 1,
            429 => assert!(answer.retry_after_s == Some(30) && answer.remaining == 0),
            other => panic!("{other}"),
        }
    }
    assert!(
        admitted.into_iter().all(|count| count <= FREE_PER_MINUTE),
        "{admitted:?}"
    );
    assert!(admitted.into_iter().sum::<u32>() >= FREE_PER_MINUTE, "{admitted:?}");
    // More than the other key's: the clients had requests left when Redis died.
    assert!(replicas.fallbacks() > before + u64::from(CALM));
    let second = replicas.new_key(BUSY).await;
    for replica in 0..2 {
        for key in [&busy, &second] {
            assert_eq!(replicas.get(replica, key, DASHBOARD).await.status, 429);
        }
    }
    replicas.until_redis_is(Status::Degraded).await;
}

/// In the same minute, when Redis is back.
async fn what_was_admitted_meanwhile_counts(replicas: &Replicas) {
    replicas.restart_redis().await;
    replicas.until_redis_is(Status::Ready).await;
    let fallbacks = replicas.fallbacks();
    let (busy, fresh) = (replicas.key_of(BUSY), replicas.free_key("fresh.example").await);
    for number in 1..=4 {
        assert_eq!(replicas.get(number % 2, &busy, DASHBOARD).await.status, 429);
        let answer = replicas.get(number % 2, &fresh, DASHBOARD).await;
        assert_eq!(answer.remaining as usize, FREE_PER_MINUTE as usize - number);
    }
    assert_eq!(replicas.fallbacks(), fallbacks);
}

#![allow(clippy::unwrap_used)]
use futures_util::FutureExt;
use warehouse::Scope;

use super::*;

fn hub() -> Arc<Hub> {
    let principal = Principal {
        account_id: "acc_1".to_owned(),
        key_id: "1".to_owned(),
        tier: accounts::Tier::Free,
        scopes: vec![accounts::Scope::Read],
        domains: vec!["a.example".to_owned()],
        inherited: Vec::new(),
    };
    let topic = Topic {
        account_id: principal.account_id.clone(),
        scope: Scope::of(principal.domains.clone()),
        zone: "UTC".to_owned(),
    };
    Arc::new(Hub::new(topic, Arc::new(principal), TimeZone::UTC))
}

fn wave() -> Wave {
    Wave {
        to: Arc::new(LogPlace {
            epoch: 1,
            next: vec![1],
        }),
        complete_ms: 0,
        read_at: std::time::Instant::now(),
        hours: BTreeSet::new(),
        lost: false,
    }
}

#[tokio::test]
async fn who_joins_a_hub_that_lingers_does_not_wait_for_its_end() {
    let (hub, closing) = (hub(), CancellationToken::new());
    drop(HubSeat::take(&hub));
    let mut waiting = Box::pin(hub.wake(&closing));
    assert_eq!((&mut waiting).now_or_never(), None);
    hub.pour(wave());
    assert_eq!((&mut waiting).now_or_never(), None, "nobody listens");
    let _seat = HubSeat::take(&hub);
    assert_eq!(waiting.now_or_never(), Some(Wake::Wave));
    closing.cancel();
    assert_eq!(hub.wake(&closing).now_or_never(), Some(Wake::Closing));
}

#[test]
fn pauses_grow_with_the_questions_until_they_would_be_seen() {
    let ms = Duration::from_millis;
    for (took, rests) in [(10, 30), (60, 180), (100, 200), (200, 200), (900, 900)] {
        assert_eq!(pause(ms(took)), ms(rests), "{took}");
    }
}

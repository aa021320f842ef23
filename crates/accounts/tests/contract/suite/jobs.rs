//! Jobs, each done by one replica at a time.

use crate::Fixture;

cases! {
    one_holder_at_a_time,
    many_claim_at_once_and_one_gets_it,
}

async fn one_holder_at_a_time(fixture: Fixture) {
    let (here, there) = (fixture.open().await, fixture.open().await);
    assert!(here.claim("expiry", "here", 1_000).await.unwrap());
    assert!(!there.claim("expiry", "there", 1_000).await.unwrap());
    assert!(there.claim("erasure", "there", 1_000).await.unwrap(), "another job");
    fixture.pass_ms(999);
    assert!(!there.claim("expiry", "there", 1_000).await.unwrap());
    assert!(here.claim("expiry", "here", 1_000).await.unwrap(), "longer");
    fixture.pass_ms(1_000);
    assert!(there.claim("expiry", "there", 1_000).await.unwrap(), "its time is over");
    assert!(!here.claim("expiry", "here", 1_000).await.unwrap());
    here.release("expiry", "here").await.unwrap();
    assert!(!here.claim("expiry", "here", 1_000).await.unwrap(), "it was another's");
    there.release("expiry", "there").await.unwrap();
    assert!(here.claim("expiry", "here", 1_000).await.unwrap());
}

async fn many_claim_at_once_and_one_gets_it(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    for turn in 0..5 {
        let mut tasks = Vec::new();
        for number in 0..8 {
            let store = stores[number % 2].clone();
            let (name, holder) = (format!("job {turn}"), format!("holder {number}"));
            tasks.push(tokio::spawn(async move {
                store.claim(&name, &holder, 60_000).await.unwrap()
            }));
        }
        let mut winners = 0;
        for task in tasks {
            winners += usize::from(task.await.unwrap());
        }
        assert_eq!(winners, 1);
    }
}

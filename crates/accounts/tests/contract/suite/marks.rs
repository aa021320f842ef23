//! Marks: under which terms each record of the log is judged, decided once.

use accounts::{
    Accounts, ClientKey, ClientPolicy, EntryPolicy, Fingerprint, Mark, NewClientKey, Policy, Stretch, Terms,
};
use sqlx::Row;
use uuid::Uuid;

use crate::Place;

cases! {
    the_first_mark_of_a_record_stays,
    neighbours_of_equal_terms_are_one_row,
    records_judged_without_a_policy_keep_to_that,
    partitions_and_logs_are_apart,
    many_verifiers_mark_each_record_once,
    marks_go_with_the_records,
}

const REGISTERED: Policy = Policy {
    clients: ClientPolicy::Registered,
    entries: EntryPolicy::Counted,
};
const BOTH: Policy = Policy {
    clients: ClientPolicy::Registered,
    entries: EntryPolicy::Required,
};

fn stretch(first_offset: u64, last_offset: u64) -> Stretch {
    Stretch {
        epoch: 4_000_000_000,
        partition: 3,
        first_offset,
        last_offset,
        open: Vec::new(),
    }
}

fn shown(marks: &[Mark]) -> Vec<(u64, u64, Terms)> {
    marks
        .iter()
        .map(|mark| {
            assert_eq!((mark.epoch, mark.partition), (4_000_000_000, 3));
            (mark.first_offset, mark.last_offset, mark.terms)
        })
        .collect()
}

/// Makes a new version of the registry.
async fn change(accounts: &Accounts, number: u8) {
    let new = NewClientKey {
        key: ClientKey {
            client_id: Uuid::nil(),
            fingerprint: Fingerprint([number; 32]),
        },
        pem: String::new(),
        name: String::new(),
    };
    assert!(accounts.register_client_key(&new).await.unwrap());
}

async fn rows(place: &Place) -> i64 {
    let question = sqlx::query("SELECT COUNT(*) FROM policy_marks");
    question.fetch_one(&place.raw().await).await.unwrap().get(0)
}

async fn the_first_mark_of_a_record_stays(place: Place) {
    let accounts = place.open().await;
    let mark = async |stretch: Stretch, policy| shown(&accounts.mark(&[stretch], policy).await.unwrap());
    let first = accounts.present_terms(REGISTERED).await.unwrap();
    assert_eq!(mark(stretch(10, 19), REGISTERED).await, [(10, 19, first)]);
    change(&accounts, 1).await;
    let second = accounts.present_terms(REGISTERED).await.unwrap();
    assert!(second.client_version > first.client_version);
    assert_eq!(
        mark(stretch(10, 19), REGISTERED).await,
        [(10, 19, first)],
        "the same again"
    );
    // Cut otherwise, under another configuration, from before and beyond.
    assert_eq!(mark(stretch(12, 14), BOTH).await, [(12, 14, first)]);
    assert_eq!(
        mark(stretch(15, 24), REGISTERED).await,
        [(15, 19, first), (20, 24, second)]
    );
    let third = accounts.present_terms(BOTH).await.unwrap();
    assert_eq!(
        mark(stretch(5, 30), BOTH).await,
        [(5, 9, third), (10, 19, first), (20, 24, second), (25, 30, third)]
    );
    let open = Policy::default();
    assert_eq!(
        mark(stretch(29, 33), open).await,
        [(29, 30, third), (31, 33, Terms::default())]
    );
    let read = accounts.marks(4_000_000_000, 3, 18, 31).await.unwrap();
    assert_eq!(
        shown(&read),
        [
            (18, 19, first),
            (20, 24, second),
            (25, 30, third),
            (31, 31, Terms::default())
        ]
    );
    assert_eq!(accounts.marks(4_000_000_000, 3, 0, 4).await.unwrap(), []);
    assert_eq!(accounts.marked_until(4_000_000_000, 3).await.unwrap(), 34);
    assert_eq!(accounts.marked_until(4_000_000_000, 2).await.unwrap(), 0);
}

async fn neighbours_of_equal_terms_are_one_row(place: Place) {
    let accounts = place.open().await;
    for block in 0..50 {
        let marks = accounts.mark(&[stretch(block * 10, block * 10 + 9)], REGISTERED).await;
        assert_eq!(marks.unwrap().len(), 1);
    }
    assert_eq!(rows(&place).await, 1);
    change(&accounts, 1).await;
    for block in 50..60 {
        accounts
            .mark(&[stretch(block * 10, block * 10 + 9)], REGISTERED)
            .await
            .unwrap();
    }
    assert_eq!(rows(&place).await, 2);
    let whole = accounts.mark(&[stretch(0, 599)], BOTH).await.unwrap();
    let ends: Vec<u64> = whole.iter().map(|mark| mark.last_offset).collect();
    assert_eq!(ends, [499, 599]);
}

async fn records_judged_without_a_policy_keep_to_that(place: Place) {
    let accounts = place.open().await;
    let doubted = Stretch {
        open: vec![0, 1, 2, 7, 9],
        ..stretch(0, 9)
    };
    let (open, terms) = (Terms::default(), accounts.present_terms(REGISTERED).await.unwrap());
    let expected = [(0, 2, open), (3, 6, terms), (7, 7, open), (8, 8, terms), (9, 9, open)];
    assert_eq!(shown(&accounts.mark(&[doubted], REGISTERED).await.unwrap()), expected);
    // Whoever doubts later, or no more, keeps to it.
    let other = Stretch {
        open: vec![4, 8],
        ..stretch(0, 9)
    };
    assert_eq!(shown(&accounts.mark(&[other], REGISTERED).await.unwrap()), expected);
    assert_eq!(shown(&accounts.mark(&[stretch(0, 9)], BOTH).await.unwrap()), expected);
}

async fn partitions_and_logs_are_apart(place: Place) {
    let accounts = place.open().await;
    let other = |epoch, partition| Stretch {
        epoch,
        partition,
        ..stretch(0, 9)
    };
    let stretches = [other(2, 1), other(1, 2), other(1, 1)];
    let marks = accounts.mark(&stretches, REGISTERED).await.unwrap();
    let order: Vec<_> = marks.iter().map(|mark| (mark.epoch, mark.partition)).collect();
    assert_eq!(order, [(1, 1), (1, 2), (2, 1)]);
    change(&accounts, 1).await;
    let marks = accounts.mark(&[other(2, 2)], REGISTERED).await.unwrap();
    assert_eq!(marks[0].terms.client_version, 1);
    for (epoch, partition) in [(1, 1), (1, 2), (2, 1)] {
        let marks = accounts.marks(epoch, partition, 0, 9).await.unwrap();
        assert_eq!((marks.len(), marks[0].terms.client_version), (1, 0));
    }
    // Several stretches of one partition, as around records that are done already.
    let marks = accounts
        .mark(&[stretch(20, 29), stretch(0, 9)], REGISTERED)
        .await
        .unwrap();
    let offsets: Vec<_> = marks.iter().map(|mark| (mark.first_offset, mark.last_offset)).collect();
    assert_eq!(offsets, [(0, 9), (20, 29)]);
}

/// Verifiers that all judge the same records, cut otherwise, while the registry changes.
async fn many_verifiers_mark_each_record_once(place: Place) {
    let replicas = [place.open().await, place.open().await];
    let verifiers: Vec<_> = (0..6_u64)
        .map(|verifier| {
            let accounts = replicas[usize::try_from(verifier).unwrap() % replicas.len()].clone();
            tokio::spawn(async move {
                let (mut told, mut first) = (vec![None; 60], 0);
                while first < 60 {
                    let last = (first + 3 + verifier).min(59);
                    let both = [
                        stretch(first, last),
                        Stretch {
                            partition: 4,
                            ..stretch(first, last)
                        },
                    ];
                    for mark in accounts.mark(&both, REGISTERED).await.unwrap() {
                        for offset in mark.first_offset..=mark.last_offset {
                            if mark.partition == 3 {
                                told[usize::try_from(offset).unwrap()] = Some(mark.terms);
                            }
                        }
                    }
                    first = last + 1;
                }
                told
            })
        })
        .collect();
    for number in 0..10 {
        change(&replicas[0], number).await;
    }
    let mut all = Vec::new();
    for verifier in verifiers {
        all.push(verifier.await.unwrap());
    }
    assert!(all[0].iter().all(Option::is_some));
    assert!(all.windows(2).all(|two| two[0] == two[1]), "all were told the same");
    let marks = replicas[0].marks(4_000_000_000, 3, 0, 59).await.unwrap();
    let stored: u64 = marks.iter().map(|mark| mark.last_offset + 1 - mark.first_offset).sum();
    assert_eq!(stored, 60, "no record is marked twice");
}

async fn marks_go_with_the_records(place: Place) {
    let accounts = place.open().await;
    accounts
        .mark(
            &[Stretch {
                epoch: 1,
                ..stretch(0, 9)
            }],
            REGISTERED,
        )
        .await
        .unwrap();
    accounts.mark(&[stretch(0, 9)], REGISTERED).await.unwrap();
    change(&accounts, 1).await;
    accounts.mark(&[stretch(10, 19)], REGISTERED).await.unwrap();
    assert_eq!(
        accounts.forget_marks(4_000_000_000, 3, 9).await.unwrap(),
        1,
        "the earlier log's"
    );
    assert_eq!(accounts.forget_marks(4_000_000_000, 3, 10).await.unwrap(), 1);
    assert_eq!(accounts.forget_marks(4_000_000_000, 3, 15).await.unwrap(), 0);
    let left = accounts.marks(4_000_000_000, 3, 0, 30).await.unwrap();
    assert_eq!((left.len(), left[0].first_offset), (1, 10));
    assert_eq!(accounts.marked_until(4_000_000_000, 3).await.unwrap(), 20);
}

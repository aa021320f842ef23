//! Erasures: what was requested goes, once, with its counts, and nothing else.

use accounts::{
    AccountRole, Accounts, COLLECTIONS, Cancellation, CancelledErasure, Coverage, ERASURES_OPEN_MAX, EntryAuthors,
    EntryContent, EntryTitle, EntryUrl, ErasedEntries, Erasure, ErasureState, ExportValue, Inherited, KeyRequest,
    MailKind, MailSubject, NewEntry, NewErasure, Person, PersonKind, RequestedErasure, Scope, SignInMethod, Subject,
    User, UserChange,
};
use sqlx::Row;
use uuid::Uuid;

use crate::{Fixture, HOUR_MS, START_MS, YEAR_MS, account_of, domains, issue};

cases! {
    named_entries_go_and_no_others,
    personal_data_goes_and_the_account_stays,
    all_entries_go_in_steps_and_are_counted_once,
    what_is_asked_of_the_warehouse_waits_for_it,
    nothing_is_erased_before_its_time,
    a_scheduled_erasure_is_cancelled_and_a_begun_one_isnt,
    cancelled_and_begun_at_one_time_an_erasure_is_one_of_both,
    receipts_of_a_domain_that_was_transferred_are_not_erased,
    each_step_of_an_erasure_sends_one_mail,
    who_has_no_address_gets_no_mail,
    the_number_of_open_erasures_is_bounded,
    an_account_goes_whole_once_its_time_is_over,
    another_accounts_erasure_is_none,
}

const KEY: &str = "key:0123456789abcdef";

async fn entries(accounts: &Accounts, account: &str, numbers: std::ops::Range<u64>) -> Vec<Uuid> {
    let new = |number: u64| NewEntry {
        id: Uuid::from_u128(0x0e00_0000_0000_4000_8000_0000_0000_0000 | u128::from(number)),
        content: EntryContent {
            url: EntryUrl::parse(&format!("https://example.com/{number}")).unwrap(),
            title: EntryTitle::parse("An article".to_owned()).unwrap(),
            authors: EntryAuthors::parse(vec!["Ada".to_owned()]).unwrap(),
        },
    };
    let all: Vec<NewEntry> = numbers.map(new).collect();
    let ids = all.iter().map(|entry| entry.id).collect();
    for some in all.chunks(500) {
        accounts
            .create_entries(account, KEY, some.to_vec(), 1_000_000)
            .await
            .unwrap();
    }
    ids
}

/// Requests an erasure that begins `delay_ms` later.
async fn schedule(accounts: &Accounts, account: &str, erasure_request: NewErasure, delay_ms: i64) -> Erasure {
    match accounts
        .request_erasure(account, KEY, erasure_request, delay_ms)
        .await
        .unwrap()
    {
        RequestedErasure::Taken(erasure) => *erasure,
        refused => panic!("{refused:?}"),
    }
}

/// Requests an erasure, and begins it.
async fn request(accounts: &Accounts, account: &str, erasure_request: NewErasure) -> Erasure {
    let scheduled = schedule(accounts, account, erasure_request, 0).await;
    accounts.begin_scheduled_erasures().await.unwrap();
    state(accounts, &scheduled).await
}

/// An erasure as it is stored.
async fn state(accounts: &Accounts, erasure: &Erasure) -> Erasure {
    let stored = accounts.erasure(&erasure.account_id, &erasure.id).await;
    stored.unwrap().unwrap()
}

/// Goes through all steps in this store, and certifies.
async fn finish(accounts: &Accounts, erasure: &Erasure) -> Erasure {
    while accounts.erase_some(&erasure.id).await.unwrap() {}
    assert!(accounts.finish_erasure(&erasure.id).await.unwrap());
    accounts
        .erasure(&erasure.account_id, &erasure.id)
        .await
        .unwrap()
        .unwrap()
}

async fn rows(fixture: &Fixture, question: &str) -> i64 {
    let row = sqlx::query(sqlx::AssertSqlSafe(question.to_owned()));
    row.fetch_one(&fixture.raw().await).await.unwrap().get(0)
}

async fn named_entries_go_and_no_others(fixture: Fixture) {
    let accounts = fixture.open().await;
    let mine = issue(&accounts, "example.com").await.account_id;
    let other = issue(&accounts, "example.org").await.account_id;
    let ids = entries(&accounts, &mine, 0..3).await;
    let foreign = entries(&accounts, &other, 10..11).await;
    let erasure_request = NewErasure {
        entries: ErasedEntries::These(vec![ids[1], foreign[0], Uuid::nil()]),
        ..NewErasure::default()
    };
    let asked = request(&accounts, &mine, erasure_request.clone()).await;
    assert_eq!(
        (asked.state, asked.requested_at_ms, &asked.request),
        (ErasureState::Store, START_MS, &erasure_request)
    );
    assert_eq!(accounts.open_erasures().await.unwrap(), std::slice::from_ref(&asked));
    let done = finish(&accounts, &asked).await;
    assert_eq!(done.counts.get("entries"), Some(&1));
    assert_eq!(
        (done.state, done.finished_at_ms),
        (ErasureState::Settled, Some(START_MS))
    );
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM entries").await, 3);
    assert!(accounts.open_erasures().await.unwrap().is_empty());
    assert!(!accounts.finish_erasure(&asked.id).await.unwrap());
}

async fn personal_data_goes_and_the_account_stays(fixture: Fixture) {
    let accounts = fixture.open().await;
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: "ada".to_owned(),
        email: Some("ada@example.com".parse().unwrap()),
        name: Some("Ada".parse().unwrap()),
    };
    let user = accounts.sign_in(&subject).await.unwrap();
    let erasure_request = KeyRequest {
        domains: None,
        name: "Ada's laptop".to_owned(),
        scopes: vec![Scope::Read],
        expires_at_ms: START_MS + YEAR_MS,
    };
    let account_id = account_of(&accounts, &user).await;
    let key = accounts.create_key(&account_id, erasure_request, KEY).await.unwrap();
    entries(&accounts, &account_id, 0..2).await;
    let erasure_request = NewErasure {
        personal_data: true,
        ..NewErasure::default()
    };
    let asked = request(&accounts, &account_id, erasure_request).await;
    let done = finish(&accounts, &asked).await;
    assert_eq!((done.counts["users"], done.counts["api_keys"]), (1, 1));
    assert_eq!(done.counts.get("entries"), None);
    accounts.authenticate(&key.api_key).await.unwrap();
    assert_eq!(
        rows(
            &fixture,
            "SELECT COUNT(*) FROM users WHERE email IS NULL AND name IS NULL"
        )
        .await,
        1
    );
    assert_eq!(
        rows(&fixture, "SELECT COUNT(*) FROM api_keys WHERE name = 'erased'").await,
        1
    );
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM entries").await, 2);
}

async fn all_entries_go_in_steps_and_are_counted_once(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    entries(&accounts, &account, 0..1_200).await;
    let erasure_request = NewErasure {
        entries: ErasedEntries::All,
        ..NewErasure::default()
    };
    let asked = request(&accounts, &account, erasure_request).await;
    assert!(
        accounts.erase_some(&asked.id).await.unwrap(),
        "a bounded number at a time"
    );
    let left = rows(&fixture, "SELECT COUNT(*) FROM entries").await;
    assert_eq!(left, 200);
    // As by two replicas at once, one of which comes again after its successor.
    let stores = [accounts.clone(), fixture.open().await];
    let mut steps = Vec::new();
    for store in stores {
        let id = asked.id.clone();
        steps.push(tokio::spawn(
            async move { while store.erase_some(&id).await.unwrap() {} },
        ));
    }
    for step in steps {
        step.await.unwrap();
    }
    assert!(!accounts.erase_some(&asked.id).await.unwrap());
    let stored = accounts.erasure(&account, &asked.id).await.unwrap().unwrap();
    assert_eq!(
        (stored.counts["entries"], stored.state),
        (1_200, ErasureState::Warehouse)
    );
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM entries").await, 0);
}

async fn what_is_asked_of_the_warehouse_waits_for_it(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    let erasure_request = NewErasure {
        receipt_metadata: Some(Coverage {
            domains: vec!["example.com".to_owned()],
            inherited: Vec::new(),
        }),
        person: Some(Person {
            kind: PersonKind::Researcher,
            id: "doctor".to_owned(),
        }),
        ..NewErasure::default()
    };
    let asked = request(&accounts, &account, erasure_request.clone()).await;
    accounts.note_erased_rows(&asked.id, &[("receipts", 9)]).await.unwrap();
    assert!(!accounts.finish_erasure(&asked.id).await.unwrap());
    assert!(!accounts.erase_some(&asked.id).await.unwrap());
    accounts
        .note_erasure_problem(&asked.id, "the warehouse is away")
        .await
        .unwrap();
    let stored = accounts.erasure(&account, &asked.id).await.unwrap().unwrap();
    assert_eq!(stored.problem.as_deref(), Some("the warehouse is away"));
    assert_eq!((stored.state, stored.counts.len()), (ErasureState::Warehouse, 0));
    accounts.note_erased_rows(&asked.id, &[("receipts", 7)]).await.unwrap();
    // After a crash, what was erased already isn't found again.
    accounts.note_erased_rows(&asked.id, &[("receipts", 0)]).await.unwrap();
    fixture.pass_ms(HOUR_MS);
    let done = finish(&accounts, &asked).await;
    assert_eq!(
        (done.counts["receipts"], done.state, done.problem),
        (7, ErasureState::Done, None)
    );
    let due = START_MS + HOUR_MS;
    assert!(accounts.erasures_to_look_after(due).await.unwrap().is_empty());
    let found = accounts.erasures_to_look_after(due + 1).await.unwrap();
    assert_eq!(
        found.iter().map(|one| &one.request).collect::<Vec<_>>(),
        [&erasure_request]
    );
    fixture.pass_ms(HOUR_MS);
    accounts.note_erasure_check(&asked.id, false).await.unwrap();
    assert!(accounts.erasures_to_look_after(due + 1).await.unwrap().is_empty());
    accounts.note_erasure_check(&asked.id, true).await.unwrap();
    assert!(accounts.erasures_to_look_after(i64::MAX).await.unwrap().is_empty());
    let settled = accounts.erasure(&account, &asked.id).await.unwrap().unwrap();
    assert_eq!(
        (settled.state, settled.request.receipt_metadata),
        (ErasureState::Settled, Some(Coverage::default()))
    );
    // What the erasure was of is seen, and not of whom.
    assert_eq!(settled.request.person.unwrap().id, "");
    let second = request(&accounts, &account, erasure_request).await;
    assert_eq!(second.request.person.unwrap().id, "doctor");
}

fn all_entries() -> NewErasure {
    NewErasure {
        entries: ErasedEntries::All,
        ..NewErasure::default()
    }
}

async fn nothing_is_erased_before_its_time(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    entries(&accounts, &account, 0..3).await;
    let asked = schedule(&accounts, &account, all_entries(), 24 * HOUR_MS).await;
    assert_eq!(
        (asked.state, asked.execute_at_ms, asked.cancelled_at_ms),
        (ErasureState::Scheduled, START_MS + 24 * HOUR_MS, None)
    );
    assert_eq!(state(&accounts, &asked).await, asked);
    let untouched = async || {
        assert_eq!(accounts.begin_scheduled_erasures().await.unwrap(), 0);
        assert_eq!(accounts.open_erasures().await.unwrap(), []);
        // Not even for who comes with its ID.
        assert!(!accounts.erase_some(&asked.id).await.unwrap());
        accounts.note_erased_rows(&asked.id, &[("receipts", 1)]).await.unwrap();
        assert!(!accounts.finish_erasure(&asked.id).await.unwrap());
        assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM entries").await, 3);
        assert_eq!(state(&accounts, &asked).await, asked);
    };
    untouched().await;
    fixture.pass_ms(24 * HOUR_MS - 1);
    untouched().await;
    fixture.pass_ms(1);
    assert_eq!(accounts.begin_scheduled_erasures().await.unwrap(), 1);
    assert_eq!(accounts.begin_scheduled_erasures().await.unwrap(), 0, "once");
    let done = finish(&accounts, &asked).await;
    assert_eq!((done.counts["entries"], done.execute_at_ms), (3, asked.execute_at_ms));
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM entries").await, 0);
}

async fn a_scheduled_erasure_is_cancelled_and_a_begun_one_isnt(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    let other = issue(&accounts, "example.org").await.account_id;
    entries(&accounts, &account, 0..3).await;
    let asked = schedule(&accounts, &account, all_entries(), HOUR_MS).await;
    for (account, id) in [(&other, asked.id.as_str()), (&account, "era_0")] {
        let cancelled = accounts.cancel_erasure(account, id, KEY).await.unwrap();
        assert_eq!(cancelled, CancelledErasure::Unknown);
    }
    fixture.pass_ms(1);
    let expected = Erasure {
        state: ErasureState::Cancelled,
        cancelled_at_ms: Some(START_MS + 1),
        ..asked.clone()
    };
    for _ in 0..2 {
        let cancelled = accounts.cancel_erasure(&account, &asked.id, KEY).await.unwrap();
        assert_eq!(cancelled, CancelledErasure::Cancelled(Box::new(expected.clone())));
        fixture.pass_ms(1);
    }
    fixture.pass_ms(HOUR_MS);
    assert_eq!(accounts.begin_scheduled_erasures().await.unwrap(), 0);
    assert!(!accounts.erase_some(&asked.id).await.unwrap());
    assert!(!accounts.finish_erasure(&asked.id).await.unwrap());
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM entries").await, 3);
    let trail = accounts.trail_page(&account, None, 100).await.unwrap().items;
    let of_erasures: Vec<_> = trail.iter().filter(|one| one.subject == asked.id).collect();
    assert_eq!(
        of_erasures.iter().map(|one| one.action.as_str()).collect::<Vec<_>>(),
        ["erasure.cancel", "erasure.request"],
        "each once"
    );
    let begun = request(&accounts, &account, all_entries()).await;
    for _ in 0..2 {
        let cancelled = accounts.cancel_erasure(&account, &begun.id, KEY).await.unwrap();
        assert_eq!(cancelled, CancelledErasure::Begun);
        finish_once(&accounts, &begun).await;
    }
}

async fn receipts_of_a_domain_that_was_transferred_are_not_erased(fixture: Fixture) {
    let accounts = fixture.open().await;
    let made = issue(&accounts, "example.com,example.org").await;
    let (account, other) = (made.account_id, issue(&accounts, "other.example").await.account_id);
    let requested = accounts.authenticate(&made.api_key).await.unwrap().coverage();
    let of_receipts = NewErasure {
        receipt_metadata: Some(requested.clone()),
        ..NewErasure::default()
    };
    let asked = schedule(&accounts, &account, of_receipts, HOUR_MS).await;
    assert_eq!(asked.request.receipt_metadata, Some(requested));
    let lost = &domains("example.com")[0];
    assert!(accounts.transfer_domain(lost, &other, "operator").await.unwrap());
    fixture.pass_ms(HOUR_MS);
    assert_eq!(accounts.begin_scheduled_erasures().await.unwrap(), 1);
    let begun = state(&accounts, &asked).await.request.receipt_metadata.unwrap();
    let with_subdomains = Inherited {
        parent: "example.org".to_owned(),
        except: Vec::new(),
    };
    assert_eq!(
        (begun.domains, begun.inherited),
        (vec!["example.org".to_owned()], vec![with_subdomains])
    );
}

/// Goes through all steps in this store, and certifies, if that isn't done yet.
async fn finish_once(accounts: &Accounts, erasure: &Erasure) {
    while accounts.erase_some(&erasure.id).await.unwrap() {}
    accounts.finish_erasure(&erasure.id).await.unwrap();
}

async fn cancelled_and_begun_at_one_time_an_erasure_is_one_of_both(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let account = issue(&stores[0], "example.com").await.account_id;
    for _ in 0..20 {
        let asked = schedule(&stores[0], &account, all_entries(), 0).await;
        let (cancelling, beginning) = (stores[0].clone(), stores[1].clone());
        let (owner, id) = (account.clone(), asked.id.clone());
        let cancelling = tokio::spawn(async move { cancelling.cancel_erasure(&owner, &id, KEY).await.unwrap() });
        let beginning = tokio::spawn(async move { beginning.begin_scheduled_erasures().await.unwrap() });
        let (cancelled, begun) = (cancelling.await.unwrap(), beginning.await.unwrap());
        let is_cancelled = matches!(cancelled, CancelledErasure::Cancelled(_));
        assert_eq!(begun, u64::from(!is_cancelled), "{cancelled:?}");
        let state = state(&stores[0], &asked).await.state;
        let expected = if is_cancelled {
            ErasureState::Cancelled
        } else {
            ErasureState::Store
        };
        assert_eq!(state, expected);
        finish_once(&stores[0], &asked).await;
    }
}

/// A user with this address, if any, at the first sign-in.
async fn user(accounts: &Accounts, email: Option<&str>) -> User {
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: "ada".to_owned(),
        email: email.map(|email| email.parse().unwrap()),
        name: None,
    };
    accounts.sign_in(&subject).await.unwrap()
}

/// Kinds of the mails that can be sent now, each with the state of its erasure.
async fn sent(accounts: &Accounts) -> Vec<(MailKind, ErasureState)> {
    let mut sent = Vec::new();
    while let Some(mail) = accounts.claim_mail("here", HOUR_MS).await.unwrap() {
        assert_eq!(mail.to, "ada@example.com");
        let MailSubject::Erasure(erasure) = mail.about else {
            panic!("{mail:?}")
        };
        assert_eq!(mail.id, format!("{}.{}", erasure.id, mail.kind));
        sent.push((mail.kind, erasure.state));
        accounts.mail_sent(&mail.id, "here").await.unwrap();
    }
    sent
}

async fn each_step_of_an_erasure_sends_one_mail(fixture: Fixture) {
    use ErasureState::{Cancelled, Scheduled, Settled, Store};
    use MailKind::{ErasureCancelled, ErasureDone, ErasureRequested};
    let accounts = fixture.open().await;
    let account = account_of(&accounts, &user(&accounts, Some("ada@example.com")).await).await;
    let asked = schedule(&accounts, &account, all_entries(), HOUR_MS).await;
    assert_eq!(sent(&accounts).await, [(ErasureRequested, Scheduled)]);
    for _ in 0..2 {
        accounts.cancel_erasure(&account, &asked.id, KEY).await.unwrap();
    }
    assert_eq!(sent(&accounts).await, [(ErasureCancelled, Cancelled)]);
    let asked = request(&accounts, &account, all_entries()).await;
    assert_eq!(sent(&accounts).await, [(ErasureRequested, Store)]);
    finish(&accounts, &asked).await;
    assert_eq!(sent(&accounts).await, [(ErasureDone, Settled)]);
    // No server took the first mail: the cancellation's says enough.
    let asked = schedule(&accounts, &account, all_entries(), HOUR_MS).await;
    accounts.cancel_erasure(&account, &asked.id, KEY).await.unwrap();
    assert_eq!(sent(&accounts).await, [(ErasureCancelled, Cancelled)]);
    // Nor any mail for a long time.
    schedule(&accounts, &account, all_entries(), HOUR_MS).await;
    fixture.pass_ms(31 * 24 * HOUR_MS);
    assert_eq!(sent(&accounts).await, []);
    assert_eq!(accounts.outbox().await.unwrap().waiting, 0);
    let exported = COLLECTIONS.iter().find(|one| one.name == "mails").unwrap();
    let mails = accounts.collection_page(&account, exported, None, 100).await.unwrap();
    assert_eq!(mails.len(), 7);
    let column = |name: &str| exported.columns.iter().position(|one| one.name == name).unwrap();
    let cells = &mails[0].cells;
    assert!(
        matches!(&cells[column("erasureId")], ExportValue::Text(id) if id.starts_with("era_")),
        "{cells:?}"
    );
    assert_eq!(cells[column("domain")], ExportValue::Absent);
}

async fn who_has_no_address_gets_no_mail(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account_of(&accounts, &user(&accounts, None).await).await;
    let asked = request(&accounts, &account, all_entries()).await;
    finish(&accounts, &asked).await;
    let operators = issue(&accounts, "example.org").await.account_id;
    schedule(&accounts, &operators, all_entries(), HOUR_MS).await;
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM mails").await, 0);
    // An address that is erased gets the mail about the request, if it is sent in time, and no
    // other.
    let change = UserChange {
        email: Some(Some("ada@example.com".parse().unwrap())),
        name: None,
    };
    let user = user(&accounts, None).await;
    accounts.change_user(&user.id, &change, KEY).await.unwrap();
    let erasure_request = NewErasure {
        personal_data: true,
        ..NewErasure::default()
    };
    let asked = request(&accounts, &account, erasure_request).await;
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM mails").await, 1);
    finish(&accounts, &asked).await;
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM mails").await, 1);
    assert_eq!(sent(&accounts).await, []);
    assert_eq!(accounts.outbox().await.unwrap().waiting, 0, "none waits for an address");
}

async fn the_number_of_open_erasures_is_bounded(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    let erasure_request = NewErasure {
        personal_data: true,
        ..NewErasure::default()
    };
    let mut tasks = Vec::new();
    for _ in 0..ERASURES_OPEN_MAX + 3 {
        let (accounts, account, erasure_request) = (accounts.clone(), account.clone(), erasure_request.clone());
        tasks.push(tokio::spawn(async move {
            accounts
                .request_erasure(&account, KEY, erasure_request, HOUR_MS)
                .await
                .unwrap()
        }));
    }
    let mut refused = 0;
    for task in tasks {
        refused += i64::from(task.await.unwrap() == RequestedErasure::TooMany);
    }
    assert_eq!(refused, 3);
    assert_eq!(accounts.open_erasures().await.unwrap(), [], "none has begun");
    fixture.pass_ms(HOUR_MS);
    accounts.begin_scheduled_erasures().await.unwrap();
    let first = accounts.open_erasures().await.unwrap().remove(0);
    finish(&accounts, &first).await;
    // One that is done, or cancelled, makes room a day after its request.
    let request = async || {
        let requested = accounts
            .request_erasure(&account, KEY, erasure_request.clone(), HOUR_MS)
            .await;
        requested.unwrap()
    };
    assert_eq!(request().await, RequestedErasure::TooMany);
    fixture.pass_ms(23 * HOUR_MS);
    let RequestedErasure::Taken(next) = request().await else {
        panic!("there is room for one");
    };
    assert_eq!(request().await, RequestedErasure::TooMany);
    accounts.cancel_erasure(&account, &next.id, KEY).await.unwrap();
    assert_eq!(request().await, RequestedErasure::TooMany);
    fixture.pass_ms(24 * HOUR_MS);
    assert!(matches!(request().await, RequestedErasure::Taken(_)));
}

async fn an_account_goes_whole_once_its_time_is_over(fixture: Fixture) {
    let accounts = fixture.open().await;
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: "ada".to_owned(),
        email: None,
        name: None,
    };
    let user = accounts.sign_in(&subject).await.unwrap();
    let gone = account_of(&accounts, &user).await;
    let stays = issue(&accounts, "example.org,example.net").await;
    let erasure_request = KeyRequest {
        domains: None,
        name: "a key".to_owned(),
        scopes: vec![Scope::Read],
        expires_at_ms: START_MS + YEAR_MS,
    };
    let key = accounts.create_key(&gone, erasure_request, KEY).await.unwrap();
    accounts.authenticate(&key.api_key).await.unwrap();
    let user = accounts.sign_in(&subject).await.unwrap();
    let session = accounts.start_session(&user, SignInMethod::Provider, START_MS, None);
    session.await.unwrap();
    accounts
        .create_login_link(Some(&gone), AccountRole::Owner)
        .await
        .unwrap();
    entries(&accounts, &gone, 0..3).await;
    entries(&accounts, &stays.account_id, 10..12).await;
    let all_entries = NewErasure {
        entries: ErasedEntries::All,
        ..NewErasure::default()
    };
    let other = request(&accounts, &gone, all_entries.clone()).await;
    // A domain of its own, as a verification makes it.
    let domain = "INSERT INTO domains (domain, account_id, method, verified_at_ms, expires_at_ms, verification_id,
        first_verified_at_ms) VALUES ('news.example.com', $1, 'dns', 1, 2, 'ver_1', 1)";
    sqlx::query(domain)
        .bind(&gone)
        .execute(&fixture.raw().await)
        .await
        .unwrap();
    let ancestor = "INSERT INTO domain_ancestors (ancestor, domain) VALUES ('example.com', 'news.example.com')";
    sqlx::query(ancestor).execute(&fixture.raw().await).await.unwrap();
    assert!(
        !accounts.begin_account_erasure(&gone).await.unwrap(),
        "nobody asked for it"
    );
    accounts.request_deletion(&gone, HOUR_MS, KEY).await.unwrap();
    assert!(
        !accounts.begin_account_erasure(&gone).await.unwrap(),
        "it may be retained after all"
    );
    fixture.pass_ms(HOUR_MS);
    assert!(accounts.begin_account_erasure(&gone).await.unwrap());
    assert!(
        accounts.begin_account_erasure(&gone).await.unwrap(),
        "by another replica"
    );
    fixture.pass_ms(-HOUR_MS);
    assert_eq!(
        accounts.cancel_deletion(&gone, KEY).await.unwrap(),
        Cancellation::TooLate,
        "by a replica whose clock is behind"
    );
    fixture.pass_ms(HOUR_MS);
    let mut open = accounts.open_erasures().await.unwrap();
    open.retain(|erasure| erasure.id != other.id);
    let [erasure] = &open[..] else { panic!("one") };
    assert!(erasure.whole_account);
    let done = finish(&accounts, erasure).await;
    for (table, count) in [
        ("entries", 3),
        ("api_keys", 1),
        ("members", 1),
        ("users", 1),
        ("domains", 1),
        ("accounts", 1),
    ] {
        assert_eq!(done.counts[table], count, "{table}");
    }
    assert!(accounts.authenticate(&key.api_key).await.is_err());
    assert!(!accounts.begin_account_erasure(&gone).await.unwrap());
    for table in [
        "entries",
        "api_keys",
        "members",
        "domains",
        "challenges",
        "sessions",
        "login_links",
    ] {
        let left = format!("SELECT COUNT(*) FROM {table} WHERE account_id = '{gone}'");
        assert_eq!(rows(&fixture, &left).await, 0, "{table}");
    }
    let left = format!("SELECT COUNT(*) FROM accounts WHERE id = '{gone}'");
    assert_eq!(rows(&fixture, &left).await, 0);
    let tombstone = accounts.trail_page(&gone, None, 10).await.unwrap().items;
    assert_eq!(
        tombstone.iter().map(|one| one.action.as_str()).collect::<Vec<_>>(),
        ["account.erase"]
    );
    accounts.authenticate(&stays.api_key).await.unwrap();
    assert_eq!(rows(&fixture, "SELECT COUNT(*) FROM entries").await, 2);
    // What was requested before ends too, and a key that is in memory yet requests nothing more.
    assert_eq!(finish(&accounts, &other).await.state, ErasureState::Settled);
    let late = accounts.request_erasure(&gone, KEY, all_entries, 0).await.unwrap();
    assert_eq!(late, RequestedErasure::Gone);
    assert!(accounts.open_erasures().await.unwrap().is_empty());
    // Who comes again is new.
    assert_ne!(
        account_of(&accounts, &accounts.sign_in(&subject).await.unwrap()).await,
        gone
    );
}

async fn another_accounts_erasure_is_none(fixture: Fixture) {
    let accounts = fixture.open().await;
    let mine = issue(&accounts, "example.com").await.account_id;
    let other = issue(&accounts, "example.org").await.account_id;
    let erasure_request = NewErasure {
        personal_data: true,
        ..NewErasure::default()
    };
    let asked = request(&accounts, &mine, erasure_request).await;
    assert_eq!(accounts.erasure(&other, &asked.id).await.unwrap(), None);
    assert_eq!(accounts.erasure(&mine, "era_0").await.unwrap(), None);
}

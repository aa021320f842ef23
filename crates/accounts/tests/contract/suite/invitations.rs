//! Invitations: made by owners, accepted once.

use accounts::{
    ACCOUNTS_PER_USER_MAX, AccountRole, Accounts, Email, INVITATION_MAILS_PER_DAY_MAX, INVITATION_MS,
    INVITATIONS_OPEN_MAX, MEMBERS_MAX, MailSubject, MemberError, NewErasure, RequestedErasure, SecretToken, Subject,
    User,
};
use sqlx::Row;

use super::members::{add, owner, person, roles};
use crate::{Fixture, HOUR_MS, START_MS, account_of};

cases! {
    an_invitation_is_accepted_once,
    only_an_owner_invites_and_withdraws,
    accepted_at_one_time_one_person_joins,
    an_invitation_ends_by_its_time_or_withdrawn,
    who_is_a_member_keeps_the_role_and_the_invitation,
    a_former_owners_invitations_are_withdrawn,
    invitations_are_bounded,
    members_and_accounts_are_bounded,
    each_attempt_of_a_mail_has_a_link_that_works,
    without_a_provider_an_invitation_is_a_login_link,
    addresses_of_invitations_are_erased,
}

fn subject(name: &str) -> Subject {
    Subject {
        issuer: "https://id.example".to_owned(),
        subject: name.to_owned(),
        email: None,
        name: Some(name.parse().unwrap()),
    }
}

async fn invite(accounts: &Accounts, account: &str, by: &User, role: AccountRole) -> SecretToken {
    accounts.invite(account, &by.id, role, None).await.unwrap().1.unwrap()
}

async fn accept(accounts: &Accounts, token: &SecretToken, name: &str) -> Option<User> {
    accounts.accept_invitation(token, Some(&subject(name))).await.unwrap()
}

async fn an_invitation_is_accepted_once(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let token = invite(&accounts, &account, &anna, AccountRole::Editor).await;
    // However often it is resolved, which a mail scanner does too.
    for _ in 0..3 {
        let offer = accounts.invitation(&token).await.unwrap().unwrap();
        assert_eq!((&offer.account_id, offer.role), (&account, AccountRole::Editor));
        assert_eq!(offer.invited_by, anna.email);
    }
    let bert = accept(&accounts, &token, "bert").await.unwrap();
    let held = accounts.memberships(&bert.id).await.unwrap();
    assert_eq!(held.len(), 1, "no account of his own beside it");
    assert_eq!((&held[0].account_id, held[0].role), (&account, AccountRole::Editor));
    assert_eq!(accounts.list_accounts().await.unwrap().len(), 1);
    assert_eq!(accept(&accounts, &token, "carl").await, None);
    assert_eq!(accept(&accounts, &token, "bert").await, None);
    assert_eq!(accounts.invitation(&token).await.unwrap(), None);
    let left = "SELECT COUNT(*) FROM users WHERE subject = 'carl'";
    let left: i64 = sqlx::query(left).fetch_one(&fixture.raw().await).await.unwrap().get(0);
    assert_eq!(left, 0, "nothing is made for who comes too late");
    let trail = accounts.trail_page(&account, None, 100).await.unwrap().items;
    let noted: Vec<_> = trail
        .iter()
        .rev()
        .map(|one| format!("{} {} {}", one.actor, one.action, one.detail))
        .collect();
    assert_eq!(
        noted[1..],
        [
            format!("user:{} invitation.create editor", anna.id),
            format!("user:{} member.join editor", bert.id),
        ]
    );
    // A person with an account has another one then, and both are there.
    let (carl, carls) = owner(&accounts, "carl").await;
    let token = invite(&accounts, &account, &anna, AccountRole::Reader).await;
    assert_eq!(accept(&accounts, &token, "carl").await.unwrap().id, carl.id);
    let held = accounts.memberships(&carl.id).await.unwrap();
    let held: Vec<_> = held.iter().map(|one| (one.account_id.as_str(), one.role)).collect();
    assert!(
        held.contains(&(account.as_str(), AccountRole::Reader)) && held.contains(&(carls.as_str(), AccountRole::Owner))
    );
}

async fn only_an_owner_invites_and_withdraws(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let (bert, berts) = owner(&accounts, "bert").await;
    let (editor, reader) = (person(&accounts, "edith").await, person(&accounts, "rita").await);
    add(&fixture, &account, &editor, AccountRole::Editor).await;
    add(&fixture, &account, &reader, AccountRole::Reader).await;
    let (open, _) = accounts
        .invite(&account, &anna.id, AccountRole::Reader, None)
        .await
        .unwrap();
    // An editor who invites an owner, and another account's owner.
    for by in [&editor, &reader, &bert] {
        let refused = accounts.invite(&account, &by.id, AccountRole::Owner, None).await;
        assert!(matches!(refused, Err(MemberError::NotOwner)), "{refused:?}");
        let refused = accounts.withdraw_invitation(&account, &by.id, &open.id).await;
        assert!(matches!(refused, Err(MemberError::NotOwner)), "{refused:?}");
    }
    // Of another account: as if it didn't exist.
    let unknown = accounts.withdraw_invitation(&berts, &bert.id, &open.id).await;
    assert!(matches!(unknown, Err(MemberError::Unknown)), "{unknown:?}");
    assert_eq!(accounts.invitations(&account).await.unwrap(), [open]);
    assert_eq!(accounts.invitations(&berts).await.unwrap(), []);
}

async fn accepted_at_one_time_one_person_joins(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let (anna, account) = owner(&stores[0], "anna").await;
    for turn in 0..5 {
        let token = invite(&stores[0], &account, &anna, AccountRole::Reader).await;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (store, token) = (stores[number % 2].clone(), token.clone());
            tasks.spawn(async move {
                accept(&store, &token, &format!("guest {turn} {number}"))
                    .await
                    .is_some()
            });
        }
        let joined = tasks.join_all().await.into_iter().filter(|joined| *joined).count();
        assert_eq!(joined, 1);
    }
    assert_eq!(roles(&stores[0], &account).await.len(), 6);
    // The account and those who didn't join: nothing is left of them.
    let users = sqlx::query("SELECT COUNT(*) FROM users")
        .fetch_one(&fixture.raw().await)
        .await;
    assert_eq!(users.unwrap().get::<i64, _>(0), 6);
}

async fn an_invitation_ends_by_its_time_or_withdrawn(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let late = invite(&accounts, &account, &anna, AccountRole::Reader).await;
    fixture.pass_ms(INVITATION_MS - 1);
    assert!(accounts.invitation(&late).await.unwrap().is_some());
    fixture.pass_ms(1);
    assert_eq!(accounts.invitation(&late).await.unwrap(), None);
    assert_eq!(accept(&accounts, &late, "bert").await, None);
    assert_eq!(accounts.invitations(&account).await.unwrap(), []);
    accounts.tidy_invitations().await.unwrap();
    let (withdrawn, token) = accounts
        .invite(&account, &anna.id, AccountRole::Reader, None)
        .await
        .unwrap();
    let left = "SELECT (SELECT COUNT(*) FROM invitations), (SELECT COUNT(*) FROM invitation_tokens)";
    let left = sqlx::query(left).fetch_one(&fixture.raw().await).await.unwrap();
    assert_eq!(
        (left.get::<i64, _>(0), left.get::<i64, _>(1)),
        (1, 1),
        "the expired one is gone"
    );
    accounts
        .withdraw_invitation(&account, &anna.id, &withdrawn.id)
        .await
        .unwrap();
    assert_eq!(accept(&accounts, &token.unwrap(), "bert").await, None);
    let again = accounts.withdraw_invitation(&account, &anna.id, &withdrawn.id).await;
    assert!(matches!(again, Err(MemberError::Unknown)), "{again:?}");
    let unknown = SecretToken::generate().unwrap();
    assert_eq!(accept(&accounts, &unknown, "bert").await, None);
}

async fn who_is_a_member_keeps_the_role_and_the_invitation(fixture: Fixture) {
    use AccountRole::{Owner, Reader};
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let bert = person(&accounts, "bert").await;
    add(&fixture, &account, &bert, Reader).await;
    // A reader who finds a link for owners isn't one. An owner who tries her own link stays one.
    let token = invite(&accounts, &account, &anna, Owner).await;
    assert_eq!(accept(&accounts, &token, "bert").await.unwrap().id, bert.id);
    let lower = invite(&accounts, &account, &anna, Reader).await;
    assert_eq!(accept(&accounts, &lower, "anna").await.unwrap().id, anna.id);
    let before = [("anna".to_owned(), Owner), ("bert".to_owned(), Reader)];
    assert_eq!(roles(&accounts, &account).await, before);
    assert!(accept(&accounts, &lower, "carl").await.is_some(), "it is still open");
}

async fn a_former_owners_invitations_are_withdrawn(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let stays = invite(&accounts, &account, &anna, AccountRole::Reader).await;
    for (name, is_removed) in [("bert", true), ("carl", false)] {
        let other = person(&accounts, name).await;
        add(&fixture, &account, &other, AccountRole::Owner).await;
        // A way back that he makes in time.
        let back = invite(&accounts, &account, &other, AccountRole::Owner).await;
        match is_removed {
            true => accounts.remove_member(&account, &anna.id, &other.id).await.unwrap(),
            false => {
                let demoted = accounts.set_role(&account, &anna.id, &other.id, AccountRole::Reader);
                demoted.await.unwrap();
            }
        }
        assert_eq!(accept(&accounts, &back, name).await, None);
    }
    assert!(accept(&accounts, &stays, "dora").await.is_some());
}

async fn invitations_are_bounded(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let email: Email = "bert@mail.test".parse().unwrap();
    let by_mail = async || {
        accounts
            .invite(&account, &anna.id, AccountRole::Reader, Some(&email))
            .await
    };
    for _ in 0..INVITATION_MAILS_PER_DAY_MAX {
        let (invitation, token) = by_mail().await.unwrap();
        assert_eq!(token, None);
        // Withdrawn ones count too: the mails were sent.
        accounts
            .withdraw_invitation(&account, &anna.id, &invitation.id)
            .await
            .unwrap();
        fixture.pass_ms(1);
    }
    let refused = by_mail().await;
    assert!(matches!(refused, Err(MemberError::Limit(_))), "{refused:?}");
    for _ in 0..INVITATIONS_OPEN_MAX {
        invite(&accounts, &account, &anna, AccountRole::Reader).await;
    }
    let refused = accounts.invite(&account, &anna.id, AccountRole::Reader, None).await;
    assert!(matches!(refused, Err(MemberError::Limit(_))), "{refused:?}");
    assert_eq!(accounts.invitations(&account).await.unwrap().len(), 20);
    let (bert, berts) = owner(&accounts, "bert").await;
    invite(&accounts, &berts, &bert, AccountRole::Reader).await;
    fixture.pass_ms(INVITATION_MS);
    by_mail().await.unwrap();
}

async fn members_and_accounts_are_bounded(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let raw = fixture.raw().await;
    let (bert, _) = owner(&accounts, "bert").await;
    for number in 1..ACCOUNTS_PER_USER_MAX {
        let name = format!("acc_{number}");
        let insert = sqlx::query("INSERT INTO accounts (id, name, tier, created_at_ms) VALUES ($1, $1, 'free', 1)");
        insert.bind(&name).execute(&raw).await.unwrap();
        add(&fixture, &name, &bert, AccountRole::Reader).await;
    }
    let token = invite(&accounts, &account, &anna, AccountRole::Reader).await;
    let refused = accounts.accept_invitation(&token, Some(&subject("bert"))).await;
    assert!(matches!(refused, Err(MemberError::Limit(_))), "{refused:?}");
    for number in 1..MEMBERS_MAX {
        let name = format!("usr_{number}");
        let insert = "INSERT INTO users (id, issuer, subject, name, created_at_ms) VALUES ($1, 'i', $1, $1, 1)";
        sqlx::query(insert).bind(&name).execute(&raw).await.unwrap();
        let insert = "INSERT INTO members (account_id, user_id, role, created_at_ms, chosen_at_ms)
            VALUES ($1, $2, 'reader', 1, 1)";
        sqlx::query(insert)
            .bind(&account)
            .bind(&name)
            .execute(&raw)
            .await
            .unwrap();
    }
    let refused = accounts.accept_invitation(&token, Some(&subject("carl"))).await;
    assert!(matches!(refused, Err(MemberError::Limit(_))), "{refused:?}");
    // Nothing has changed, and a place that is free is taken.
    assert_eq!(roles(&accounts, &account).await.len(), 100);
    accounts.remove_member(&account, &anna.id, "usr_1").await.unwrap();
    assert!(accept(&accounts, &token, "carl").await.is_some());
}

async fn each_attempt_of_a_mail_has_a_link_that_works(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let email: Email = "bert@mail.test".parse().unwrap();
    let (invitation, _) = accounts
        .invite(&account, &anna.id, AccountRole::Editor, Some(&email))
        .await
        .unwrap();
    let raw = fixture.raw().await;
    let stored =
        sqlx::query("SELECT COUNT(*) FROM mails WHERE id LIKE '%@%' OR domain LIKE '%@%' OR verification_id <> ''");
    assert_eq!(stored.fetch_one(&raw).await.unwrap().get::<i64, _>(0), 0);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mail = accounts.claim_mail("here", HOUR_MS).await.unwrap().unwrap();
        assert_eq!(
            (mail.to.as_str(), mail.id),
            ("bert@mail.test", format!("{}.invitation", invitation.id))
        );
        let MailSubject::Invitation { offer, token, .. } = mail.about else {
            panic!("another mail")
        };
        assert_eq!(offer.account_id, account);
        // The first sender died after the server had taken the mail: its reader may have either.
        tokens.push(token);
        fixture.pass_ms(HOUR_MS);
    }
    assert_ne!(tokens[0], tokens[1]);
    let hashes = sqlx::query("SELECT token_hash FROM invitation_tokens")
        .fetch_all(&raw)
        .await
        .unwrap();
    for row in &hashes {
        let hash: String = row.get(0);
        assert!(tokens.iter().all(|token| token.reveal() != hash));
    }
    assert_eq!(hashes.len(), 2);
    assert!(accept(&accounts, &tokens[0], "bert").await.is_some());
    assert_eq!(accept(&accounts, &tokens[1], "carl").await, None, "one use, by either");
    // A mail whose invitation has ended isn't sent.
    assert_eq!(accounts.claim_mail("here", HOUR_MS).await.unwrap(), None);
    assert_eq!(accounts.outbox().await.unwrap().waiting, 0);
}

async fn without_a_provider_an_invitation_is_a_login_link(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let token = invite(&accounts, &account, &anna, AccountRole::Editor).await;
    let editor = accounts.accept_invitation(&token, None).await.unwrap().unwrap();
    assert_eq!(accounts.accept_invitation(&token, None).await.unwrap(), None);
    let members = accounts.members(&account).await.unwrap();
    let link: Vec<_> = members.iter().filter(|one| one.is_login_link).collect();
    assert_eq!(
        (link.len(), &link[0].user_id, link[0].role),
        (1, &editor.id, AccountRole::Editor)
    );
    // The next one of this role is the same user, as with login links.
    let token = invite(&accounts, &account, &anna, AccountRole::Editor).await;
    assert_eq!(accounts.accept_invitation(&token, None).await.unwrap().unwrap(), editor);
    assert_eq!(accounts.accept_invitation(&token, None).await.unwrap(), None);
    let login = accounts
        .create_login_link(Some(&account), AccountRole::Editor)
        .await
        .unwrap();
    assert_eq!(accounts.use_login_link(&login).await.unwrap().unwrap(), editor);
}

async fn addresses_of_invitations_are_erased(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let email: Email = "bert@mail.test".parse().unwrap();
    accounts
        .invite(&account, &anna.id, AccountRole::Reader, Some(&email))
        .await
        .unwrap();
    let by_link = invite(&accounts, &account, &anna, AccountRole::Reader).await;
    let request = NewErasure {
        personal_data: true,
        ..NewErasure::default()
    };
    let requested = accounts.request_erasure(&account, "key:1", request, 0).await.unwrap();
    let RequestedErasure::Taken(erasure) = requested else {
        panic!("it isn't taken")
    };
    accounts.begin_scheduled_erasures().await.unwrap();
    while accounts.erase_some(&erasure.id).await.unwrap() {}
    let open = accounts.invitations(&account).await.unwrap();
    assert!(open.len() == 1 && open[0].email.is_none() && open[0].created_at_ms == START_MS);
    assert!(accounts.invitation(&by_link).await.unwrap().is_some());
    // With the account, everything goes.
    let request = accounts.request_deletion(&account, 0, "user:anna").await.unwrap();
    assert!(request.is_some() && accounts.begin_account_erasure(&account).await.unwrap());
    for erasure in accounts.open_erasures().await.unwrap() {
        while accounts.erase_some(&erasure.id).await.unwrap() {}
    }
    assert_eq!(accounts.invitation(&by_link).await.unwrap(), None);
    let left = "SELECT (SELECT COUNT(*) FROM invitations), (SELECT COUNT(*) FROM invitation_tokens)";
    let left = sqlx::query(left).fetch_one(&fixture.raw().await).await.unwrap();
    assert_eq!((left.get::<i64, _>(0), left.get::<i64, _>(1)), (0, 0));
    let again = person(&accounts, "anna").await;
    assert_ne!(account_of(&accounts, &again).await, account);
}

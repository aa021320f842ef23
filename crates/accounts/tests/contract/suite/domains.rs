//! The life cycle of domains: proofs that are checked again, suspensions, contests, transfers.

use accounts::{
    Accounts, Challenge, ChallengeRequest, Outbox, Proof, SUSPENDED_AFTER, Subject, TOKEN_PREFIX, TransferError,
    Verification, VerificationMethod, VerifyError,
};
use sqlx::Row;

use crate::{Fixture, HOUR_MS, START_MS, YEAR_MS, account_of, domains, issue};

cases! {
    a_proof_is_due_every_week_and_known_by_its_token,
    three_missing_proofs_suspend_a_domain_and_one_found_restores_it,
    a_result_counts_once,
    a_suspended_domain_is_anybodys_who_proves_it,
    what_has_no_stored_token_is_never_due,
    another_accounts_proof_puts_the_holders_on_daily_checks,
    a_contested_domain_without_its_proof_becomes_the_other_accounts,
    mails_about_a_contest_are_sent_while_they_are_true,
    a_domain_on_the_operators_word_is_contested_and_stays,
    the_operator_transfers_a_domain,
    an_erased_account_contests_nothing,
    the_first_verification_of_a_domain_stays,
}

const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;

/// An account with a person who gets mails, and a key of it.
async fn account(accounts: &Accounts, name: &str) -> (String, String) {
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: name.to_owned(),
        email: Some(format!("{name}@mail.test").parse().unwrap()),
        name: None,
    };
    let account_id = account_of(accounts, &accounts.sign_in(&subject).await.unwrap()).await;
    let request = accounts::KeyRequest {
        domains: None,
        name: "test".to_owned(),
        scopes: vec![accounts::Scope::Read],
        expires_at_ms: START_MS + YEAR_MS,
    };
    let key = accounts.create_key(&account_id, request, "user:test").await.unwrap();
    (account_id, key.api_key)
}

async fn challenge(accounts: &Accounts, account_id: &str, name: &str) -> (Challenge, String) {
    let names = domains(name);
    let request = ChallengeRequest {
        account_id,
        actor: "key:test",
        domains: &names,
        method: VerificationMethod::Dns,
        include_subdomains: Some(false),
    };
    let issued = accounts.create_challenges(&request).await.unwrap().remove(0);
    let token = issued.token.strip_prefix(TOKEN_PREFIX).unwrap().to_owned();
    (issued.challenge, token)
}

/// When these hosts were verified first.
async fn first(accounts: &Accounts, hosts: &[&str]) -> Vec<Option<i64>> {
    let hosts: Vec<std::sync::Arc<str>> = hosts.iter().map(|host| (*host).into()).collect();
    accounts.first_verifications(&hosts).await.unwrap()
}

/// Proves a domain; its token.
async fn prove(accounts: &Accounts, account_id: &str, name: &str) -> String {
    let (challenge, token) = challenge(accounts, account_id, name).await;
    accounts.verify("key:test", &challenge).await.unwrap();
    token
}

/// Proves a domain that is another account's; the challenge and its token.
async fn contest(accounts: &Accounts, account_id: &str, name: &str) -> (Challenge, String) {
    let (challenge, token) = challenge(accounts, account_id, name).await;
    match accounts.verify("key:test", &challenge).await {
        Err(VerifyError::DomainHeld(domain)) => assert_eq!(domain, challenge.domain),
        other => panic!("{other:?}"),
    }
    (challenge, token)
}

/// When the proof of `example.com` is checked next.
async fn next_check(accounts: &Accounts) -> Option<i64> {
    let owned = accounts.owned_domain(&domains("example.com")[0]).await.unwrap();
    owned.unwrap().proof_next_at_ms
}

async fn due(accounts: &Accounts) -> Vec<Proof> {
    accounts.due_proofs(10).await.unwrap()
}

async fn stored(accounts: &Accounts, account_id: &str) -> Option<Verification> {
    let name = &domains("example.com")[0];
    accounts.verification(account_id, name).await.unwrap()
}

async fn holds(accounts: &Accounts, key: &str) -> bool {
    accounts.authenticate(key).await.unwrap().covers("example.com")
}

/// The mails there are of each kind, as kind and address of the account, in order.
async fn mails(fixture: &Fixture) -> Vec<(String, String)> {
    let query = "SELECT m.kind, u.subject FROM mails m JOIN members p ON p.account_id = m.account_id
        JOIN users u ON u.id = p.user_id ORDER BY m.kind, u.subject";
    let rows = sqlx::query(query).fetch_all(&fixture.raw().await).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = wanted
        .iter()
        .map(|(one, other)| ((*one).to_owned(), (*other).to_owned()))
        .collect();
    pairs.sort();
    pairs
}

/// Claims and sends all mails that are still true; their kinds in order.
async fn sent(accounts: &Accounts) -> Vec<String> {
    let mut kinds = Vec::new();
    while let Some(mail) = accounts.claim_mail("postman", HOUR_MS).await.unwrap() {
        accounts.mail_sent(&mail.id, "postman").await.unwrap();
        kinds.push(mail.kind.to_string());
    }
    kinds.sort();
    kinds
}

async fn a_proof_is_due_every_week_and_known_by_its_token(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine").await;
    let token = prove(&accounts, &mine, "example.com").await;
    let other = prove(&accounts, &mine, "example.org").await;
    fixture.pass_ms(WEEK_MS - 1);
    assert!(due(&accounts).await.is_empty());
    fixture.pass_ms(1);
    let proofs = due(&accounts).await;
    assert_eq!(proofs.len(), 2);
    let proof = proofs
        .iter()
        .find(|proof| proof.domain.as_str() == "example.com")
        .unwrap();
    assert_eq!(
        (proof.account_id.as_str(), proof.method),
        (mine.as_str(), VerificationMethod::Dns)
    );
    assert!(proof.is_met_by(&token) && !proof.is_met_by(&other) && !proof.is_met_by(""));
    assert!(accounts.proof_found(proof, "service").await.unwrap());
    assert_eq!(due(&accounts).await.len(), 1, "the other one");
    let witnesses = accounts.witness_proofs([VerificationMethod::Dns; 2], 10).await.unwrap();
    let witnesses: Vec<_> = witnesses.iter().map(|proof| proof.domain.as_str()).collect();
    assert_eq!(witnesses, ["example.com"]);
    let others = [VerificationMethod::Https, VerificationMethod::Meta];
    assert!(accounts.witness_proofs(others, 10).await.unwrap().is_empty());
    fixture.pass_ms(WEEK_MS);
    assert_eq!(due(&accounts).await.len(), 2);
    // A renewal brings another token, and is checked a week later.
    let renewed = prove(&accounts, &mine, "example.com").await;
    assert_eq!(due(&accounts).await.len(), 1);
    let proof = accounts.proof(&domains("example.com")[0]).await.unwrap().unwrap();
    assert!(proof.is_met_by(&renewed) && !proof.is_met_by(&token));
}

async fn three_missing_proofs_suspend_a_domain_and_one_found_restores_it(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, key) = account(&accounts, "mine").await;
    prove(&accounts, &mine, "example.com").await;
    let before = stored(&accounts, &mine).await.unwrap();
    fixture.pass_ms(WEEK_MS);
    for turn in 1..=SUSPENDED_AFTER {
        assert!(holds(&accounts, &key).await, "turn {turn}");
        let proof = due(&accounts).await.remove(0);
        let suspended = accounts.proof_missing(&proof, "dns: nothing").await.unwrap();
        assert_eq!(suspended, turn == SUSPENDED_AFTER);
        assert!(due(&accounts).await.is_empty(), "a day later");
        fixture.pass_ms(DAY_MS);
    }
    assert!(!holds(&accounts, &key).await);
    let now_ms = accounts.now_ms();
    let suspended = stored(&accounts, &mine).await.unwrap();
    assert!(suspended.is_suspended(now_ms) && !suspended.holds(now_ms));
    assert_eq!(suspended.suspended_expires_at_ms, Some(before.expires_at_ms));
    assert_eq!(accounts.domain_account(&domains("example.com")[0]).await.unwrap(), None);
    assert_eq!(accounts.look_for_expiries().await.unwrap().ended, 0, "it isn't expired");
    assert_eq!(mails(&fixture).await, pairs(&[("suspended", "mine")]));
    assert_eq!(sent(&accounts).await, ["suspended"]);
    // It is still searched for, and what is found restores it to its own end.
    let proof = due(&accounts).await.remove(0);
    assert!(accounts.proof_found(&proof, "service").await.unwrap());
    assert!(holds(&accounts, &key).await, "at once");
    assert_eq!(stored(&accounts, &mine).await, Some(before.clone()));
    // A second time is mailed a second time, and two failures with a success between don't count.
    fixture.pass_ms(WEEK_MS);
    for missing in [true, true, false, true, true, true] {
        let proof = due(&accounts).await.remove(0);
        if missing {
            accounts.proof_missing(&proof, "dns: nothing").await.unwrap();
            fixture.pass_ms(DAY_MS);
        } else {
            accounts.proof_found(&proof, "service").await.unwrap();
            assert!(holds(&accounts, &key).await);
            fixture.pass_ms(WEEK_MS);
        }
    }
    assert!(!holds(&accounts, &key).await);
    assert_eq!(
        mails(&fixture).await,
        pairs(&[("suspended", "mine"), ("suspended", "mine")])
    );
    // Past its own end nothing restores it.
    fixture.pass_ms(YEAR_MS);
    assert!(due(&accounts).await.is_empty());
    assert!(!accounts.proof_found(&proof, "service").await.unwrap());
    let ended = stored(&accounts, &mine).await.unwrap();
    assert!(!ended.is_suspended(accounts.now_ms()) && !ended.holds(accounts.now_ms()));
}

async fn a_result_counts_once(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine").await;
    prove(&accounts, &mine, "example.com").await;
    fixture.pass_ms(WEEK_MS);
    let proof = due(&accounts).await.remove(0);
    for _ in 0..5 {
        assert!(!accounts.proof_missing(&proof, "dns: nothing").await.unwrap());
    }
    assert_eq!(stored(&accounts, &mine).await.unwrap().proof_failures, 1);
    fixture.pass_ms(DAY_MS);
    let proof = due(&accounts).await.remove(0);
    accounts.proof_postponed(&proof).await.unwrap();
    assert!(due(&accounts).await.is_empty());
    assert_eq!(
        stored(&accounts, &mine).await.unwrap().proof_failures,
        1,
        "that counts nothing"
    );
    fixture.pass_ms(HOUR_MS);
    assert_eq!(due(&accounts).await.len(), 1);
}

async fn a_suspended_domain_is_anybodys_who_proves_it(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine").await;
    let (theirs, their_key) = account(&accounts, "theirs").await;
    prove(&accounts, &mine, "example.com").await;
    fixture.pass_ms(WEEK_MS);
    for _ in 0..SUSPENDED_AFTER {
        let proof = due(&accounts).await.remove(0);
        accounts.proof_missing(&proof, "dns: nothing").await.unwrap();
        fixture.pass_ms(DAY_MS);
    }
    prove(&accounts, &theirs, "example.com").await;
    assert!(holds(&accounts, &their_key).await);
    assert_eq!(stored(&accounts, &mine).await, None);
    assert_eq!(stored(&accounts, &theirs).await.unwrap().suspended_expires_at_ms, None);
    assert_eq!(
        sent(&accounts).await,
        [""; 0],
        "that it is suspended isn't true any more"
    );
}

async fn what_has_no_stored_token_is_never_due(fixture: Fixture) {
    let accounts = fixture.open().await;
    let vouched = issue(&accounts, "example.com").await.account_id;
    let (mine, _) = account(&accounts, "mine").await;
    prove(&accounts, &mine, "example.org").await;
    // As a version before stored it.
    let older = "UPDATE domains SET token_hash = NULL, proof_next_at_ms = NULL WHERE domain = 'example.org'";
    sqlx::query(older).execute(&fixture.raw().await).await.unwrap();
    fixture.pass_ms(2 * WEEK_MS);
    assert!(due(&accounts).await.is_empty());
    assert!(stored(&accounts, &vouched).await.unwrap().holds(accounts.now_ms()));
    assert!(accounts.proof(&domains("example.org")[0]).await.unwrap().is_none());
}

async fn another_accounts_proof_puts_the_holders_on_daily_checks(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, my_key) = account(&accounts, "mine").await;
    let (theirs, their_key) = account(&accounts, "theirs").await;
    prove(&accounts, &mine, "example.com").await;
    assert_eq!(next_check(&accounts).await, Some(START_MS + WEEK_MS));
    fixture.pass_ms(HOUR_MS);
    let (open, _) = contest(&accounts, &theirs, "example.com").await;
    assert_eq!(next_check(&accounts).await, Some(START_MS + HOUR_MS + DAY_MS));
    assert!(stored(&accounts, &mine).await.unwrap().is_contested);
    assert_eq!(stored(&accounts, &theirs).await, None);
    // What each of them gets names neither the other account nor the other's verification.
    let verification_id = stored(&accounts, &mine).await.unwrap().id;
    let query = "SELECT m.id, m.verification_id FROM mails m JOIN members p ON p.account_id = m.account_id
        JOIN users u ON u.id = p.user_id WHERE u.subject = 'theirs'";
    for row in sqlx::query(query).fetch_all(&fixture.raw().await).await.unwrap() {
        let texts: [String; 2] = [row.get(0), row.get(1)];
        assert!(
            texts
                .iter()
                .all(|text| !text.contains(&mine) && !text.contains(&verification_id))
        );
    }
    assert_eq!(
        mails(&fixture).await,
        pairs(&[("contested", "mine"), ("domain_held", "theirs")])
    );
    assert_eq!(sent(&accounts).await, ["contested", "domain_held"], "at once");
    // Repeated checks send nothing more, and bring no check forward, whichever account's they are.
    let (third, _) = account(&accounts, "third").await;
    fixture.pass_ms(HOUR_MS);
    let held = accounts.verify("key:test", &open).await.unwrap_err();
    assert!(matches!(held, VerifyError::DomainHeld(_)), "{held:?}");
    for other in [&theirs, &third, &theirs] {
        contest(&accounts, other, "example.com").await;
    }
    assert_eq!(mails(&fixture).await.len(), 2);
    assert_eq!(next_check(&accounts).await, Some(START_MS + HOUR_MS + DAY_MS));
    let owned = accounts
        .owned_domain(&domains("example.com")[0])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(owned.contested_by, Some(theirs));
    // A proof that is there keeps the domain, however long this takes.
    for day in 0..20 {
        fixture.pass_ms(DAY_MS);
        let proof = due(&accounts).await.remove(0);
        assert!(accounts.proof_found(&proof, "service").await.unwrap());
        assert_eq!(
            next_check(&accounts).await,
            Some(accounts.now_ms() + DAY_MS),
            "day {day}"
        );
    }
    assert!(holds(&accounts, &my_key).await && !holds(&accounts, &their_key).await);
    assert_eq!(sent(&accounts).await, [""; 0]);
    // A renewal ends that.
    prove(&accounts, &mine, "example.com").await;
    assert!(!stored(&accounts, &mine).await.unwrap().is_contested);
    assert_eq!(next_check(&accounts).await, Some(accounts.now_ms() + WEEK_MS));
    assert_eq!(sent(&accounts).await, [""; 0]);
}

async fn a_contested_domain_without_its_proof_becomes_the_other_accounts(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, my_key) = account(&accounts, "mine").await;
    let (theirs, their_key) = account(&accounts, "theirs").await;
    prove(&accounts, &mine, "example.com").await;
    let (open, token) = challenge(&accounts, &theirs, "example.com").await;
    // The token is found on its last day, and is still good when the domain is free.
    fixture.pass_ms(accounts::CHALLENGE_MS - 1);
    accounts.verify("key:test", &open).await.unwrap_err();
    sent(&accounts).await;
    for failures in 1..=SUSPENDED_AFTER {
        fixture.pass_ms(DAY_MS);
        let held = accounts.verify("key:test", &open).await.unwrap_err();
        assert!(matches!(held, VerifyError::DomainHeld(_)), "{failures}: {held:?}");
        assert!(holds(&accounts, &my_key).await);
        let proof = due(&accounts).await.remove(0);
        accounts.proof_missing(&proof, "dns: nothing").await.unwrap();
        assert!(due(&accounts).await.is_empty(), "a day later");
    }
    assert!(!stored(&accounts, &mine).await.unwrap().is_contested);
    assert_eq!(sent(&accounts).await, ["domain_free", "suspended"]);
    let open = accounts.open_challenges(&theirs, Some(&open.domain)).await.unwrap();
    assert!(open[0].is_met_by(&token));
    accounts.verify("key:test", &open[0]).await.unwrap();
    assert!(!holds(&accounts, &my_key).await && holds(&accounts, &their_key).await);
    assert!(!stored(&accounts, &theirs).await.unwrap().is_contested);
    assert_eq!(sent(&accounts).await, [""; 0]);
}

async fn mails_about_a_contest_are_sent_while_they_are_true(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine").await;
    let (theirs, _) = account(&accounts, "theirs").await;
    let name = &domains("example.com")[0];
    prove(&accounts, &mine, "example.com").await;
    contest(&accounts, &theirs, "example.com").await;
    prove(&accounts, &mine, "example.com").await;
    assert_eq!(sent(&accounts).await, [""; 0], "renewed before they were sent");
    contest(&accounts, &theirs, "example.com").await;
    assert_eq!(sent(&accounts).await, ["contested", "domain_held"]);
    // Given back or ended, the domain is free too, unless it is somebody's by then.
    assert!(accounts.revoke_verification(&mine, "key:test", name).await.unwrap());
    assert_eq!(sent(&accounts).await, ["domain_free"]);
    prove(&accounts, &mine, "example.com").await;
    contest(&accounts, &theirs, "example.com").await;
    sent(&accounts).await;
    fixture.pass_ms(YEAR_MS);
    assert_eq!(accounts.look_for_expiries().await.unwrap().ended, 1);
    assert_eq!(sent(&accounts).await, ["domain_free", "expired"]);
    prove(&accounts, &mine, "example.com").await;
    contest(&accounts, &theirs, "example.com").await;
    sent(&accounts).await;
    assert!(accounts.revoke_verification(&mine, "key:test", name).await.unwrap());
    prove(&accounts, &theirs, "example.com").await;
    assert_eq!(sent(&accounts).await, [""; 0]);
}

async fn a_domain_on_the_operators_word_is_contested_and_stays(fixture: Fixture) {
    let accounts = fixture.open().await;
    let vouched = issue(&accounts, "example.com").await.account_id;
    let (theirs, _) = account(&accounts, "theirs").await;
    contest(&accounts, &theirs, "example.com").await;
    assert_eq!(next_check(&accounts).await, None, "it has no proof");
    fixture.pass_ms(4 * WEEK_MS);
    assert!(due(&accounts).await.is_empty());
    contest(&accounts, &theirs, "example.com").await;
    assert!(stored(&accounts, &vouched).await.unwrap().holds(accounts.now_ms()));
    let owned = accounts
        .owned_domain(&domains("example.com")[0])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(owned.contested_by, Some(theirs), "the operator can see it and decide");
}

async fn the_operator_transfers_a_domain(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, my_key) = account(&accounts, "mine").await;
    let (theirs, their_key) = account(&accounts, "theirs").await;
    let (third, _) = account(&accounts, "third").await;
    prove(&accounts, &mine, "example.com").await;
    contest(&accounts, &third, "example.com").await;
    sent(&accounts).await;
    let name = &domains("example.com")[0];
    let owned = accounts.owned_domain(name).await.unwrap().unwrap();
    assert_eq!((&owned.account_id, owned.contested_by), (&mine, Some(third)));
    assert!(
        !accounts.transfer_domain(name, &mine, "operator").await.unwrap(),
        "it is theirs"
    );
    assert!(accounts.transfer_domain(name, &theirs, "operator").await.unwrap());
    assert!(!holds(&accounts, &my_key).await && holds(&accounts, &their_key).await);
    assert_eq!(sent(&accounts).await, ["lost", "won"]);
    let owned = accounts.owned_domain(name).await.unwrap().unwrap();
    assert_eq!(
        (&owned.account_id, owned.contested_by, owned.proof_next_at_ms),
        (&theirs, None, None)
    );
    assert_eq!(owned.verification.method, "local");
    let unknown = accounts
        .transfer_domain(&domains("none.example")[0], &mine, "operator")
        .await;
    assert!(matches!(unknown, Err(TransferError::UnknownDomain(_))), "{unknown:?}");
    let nobody = accounts.transfer_domain(name, "acc_nobody", "operator").await;
    assert!(nobody.unwrap_err().to_string().contains("acc_nobody"));
    let listed = accounts.owned_domains(Some(&mine)).await.unwrap();
    assert!(listed.is_empty());
    assert_eq!(accounts.owned_domains(None).await.unwrap().len(), 1);
    assert_eq!(accounts.outbox().await.unwrap(), Outbox::default());
}

async fn an_erased_account_contests_nothing(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine").await;
    let (theirs, _) = account(&accounts, "theirs").await;
    prove(&accounts, &mine, "example.com").await;
    contest(&accounts, &theirs, "example.com").await;
    accounts.request_deletion(&theirs, 0, "user:test").await.unwrap();
    fixture.pass_ms(1);
    accounts.begin_account_erasure(&theirs).await.unwrap();
    for erasure in accounts.open_erasures().await.unwrap() {
        while accounts.erase_some(&erasure.id).await.unwrap() {}
    }
    assert!(!stored(&accounts, &mine).await.unwrap().is_contested);
    for _ in 0..SUSPENDED_AFTER {
        fixture.pass_ms(DAY_MS);
        let proof = due(&accounts).await.remove(0);
        accounts.proof_missing(&proof, "dns: nothing").await.unwrap();
    }
    assert!(stored(&accounts, &mine).await.unwrap().is_suspended(accounts.now_ms()));
}

async fn the_first_verification_of_a_domain_stays(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine").await;
    let (theirs, _) = account(&accounts, "theirs").await;
    let hosts = [
        "example.com",
        "www.example.com",
        "com",
        "shop.example",
        "a.b.shop.example",
    ];
    assert_eq!(first(&accounts, &hosts).await, [None; 5]);
    assert_eq!(first(&accounts, &[]).await, []);

    // Renewals, suspensions, revocations and other owners leave it as it is.
    let version = accounts.registry_versions().await.unwrap().operators;
    prove(&accounts, &mine, "example.com").await;
    assert!(accounts.registry_versions().await.unwrap().operators > version);
    fixture.pass_ms(DAY_MS);
    prove(&accounts, &mine, "example.com").await;
    let name = &domains("example.com")[0];
    assert!(accounts.revoke_verification(&mine, "key:test", name).await.unwrap());
    fixture.pass_ms(DAY_MS);
    prove(&accounts, &theirs, "example.com").await;
    accounts.transfer_domain(name, &mine, "operator").await.unwrap();
    let at_first = first(&accounts, &hosts).await;
    assert_eq!(at_first, [Some(START_MS), None, None, None, None]);

    // The operator's word is a verification, also of subdomains.
    let version = accounts.registry_versions().await.unwrap().operators;
    issue(&accounts, "shop.example").await;
    assert!(accounts.registry_versions().await.unwrap().operators > version);
    let later = Some(START_MS + 2 * DAY_MS);
    assert_eq!(first(&accounts, &hosts).await[3..], [later, later]);
    fixture.pass_ms(DAY_MS);
    issue(&accounts, "b.shop.example").await;
    assert_eq!(first(&accounts, &hosts).await[3..], [later, later]);

    // More hosts than one statement has.
    let mut many: Vec<String> = (0..700).map(|number| format!("{number}.shop.example")).collect();
    many.push("example.com".to_owned());
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let found = first(&accounts, &many).await;
    assert_eq!((found.len(), found[700]), (701, Some(START_MS)));
    assert!(found[..700].iter().all(|first| *first == later));
}

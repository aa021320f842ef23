//! Challenges, verified domains and what they cover.

use accounts::{
    Accounts, AccountsError, CHALLENGE_MS, Challenge, ChallengeRequest, DOMAINS_MAX, IssuedChallenge, TOKEN_PREFIX,
    VERIFICATION_MS, VerificationMethod, VerifyError,
};
use sqlx::Row;

use crate::{Fixture, HOUR_MS, START_MS, YEAR_MS, domains, issue};

cases! {
    a_found_token_verifies_for_a_year,
    only_the_hash_of_a_token_is_stored,
    a_challenge_is_met_once_and_in_its_time,
    the_newest_challenges_of_a_domain_stay_open,
    open_challenges_are_bounded,
    a_domain_belongs_to_one_account_while_its_verification_holds,
    a_verification_is_renewed_and_given_back,
    what_has_ended_takes_no_slot,
    concurrent_checks_make_one_verification,
    two_accounts_at_once_and_one_gets_the_domain,
    subdomains_are_inherited_unless_another_account_has_them,
    old_domains_get_ancestors_and_ids,
}

fn challenge_request<'a>(account_id: &'a str, domains: &'a [accounts::Domain]) -> ChallengeRequest<'a> {
    ChallengeRequest {
        account_id,
        actor: "key:test",
        domains,
        method: VerificationMethod::Dns,
        include_subdomains: Some(false),
    }
}

/// An account without anything to do with `example.*`.
async fn account(accounts: &Accounts, name: &str) -> (String, String) {
    let key = issue(accounts, name).await;
    (key.account_id, key.api_key)
}

async fn challenge(accounts: &Accounts, account_id: &str, name: &str) -> Challenge {
    let names = domains(name);
    let mut issued = accounts
        .create_challenges(&challenge_request(account_id, &names))
        .await
        .unwrap();
    issued.remove(0).challenge
}

async fn verify_with_subdomains(accounts: &Accounts, account_id: &str, name: &str) {
    let names = domains(name);
    let request = ChallengeRequest {
        include_subdomains: Some(true),
        ..challenge_request(account_id, &names)
    };
    let issued = accounts.create_challenges(&request).await.unwrap();
    assert!(
        accounts
            .verify("key:test", &issued[0].challenge)
            .await
            .unwrap()
            .include_subdomains
    );
}

async fn trail(fixture: &Fixture) -> Vec<(String, String, String)> {
    let question = "SELECT actor, action, subject FROM trail WHERE action LIKE 'domain.%' ORDER BY id";
    let rows = sqlx::query(question).fetch_all(&fixture.raw().await).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

async fn a_found_token_verifies_for_a_year(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, key) = account(&accounts, "mine.test").await;
    let names = domains("example.com,example.org");
    let issued = accounts
        .create_challenges(&challenge_request(&mine, &names))
        .await
        .unwrap();
    assert_ne!(issued[0].token, issued[1].token, "each domain has its own");
    let bare = |issued: &IssuedChallenge| issued.token.strip_prefix(TOKEN_PREFIX).unwrap().to_owned();
    assert_eq!(bare(&issued[0]).len(), 64, "256 bits");
    let open = accounts.open_challenges(&mine, Some(&names[0])).await.unwrap();
    assert_eq!(open.len(), 1);
    assert!(open[0].is_met_by(&bare(&issued[0])) && !open[0].is_met_by(&bare(&issued[1])));
    assert!(!open[0].is_met_by("") && !open[0].is_met_by(&issued[0].token));
    assert_eq!(accounts.verification(&mine, &names[0]).await.unwrap(), None);
    assert!(!accounts.authenticate(&key).await.unwrap().covers("example.com"));
    fixture.pass_ms(HOUR_MS);
    let verification = accounts.verify("key:test", &open[0]).await.unwrap();
    assert!(verification.id.starts_with("ver_"));
    assert_eq!(verification.verified_at_ms, START_MS + HOUR_MS);
    assert_eq!(verification.expires_at_ms, START_MS + HOUR_MS + VERIFICATION_MS);
    assert_eq!(
        (verification.method.as_str(), verification.include_subdomains),
        ("dns", false)
    );
    assert_eq!(
        accounts.verification(&mine, &names[0]).await.unwrap(),
        Some(verification)
    );
    let principal = accounts.authenticate(&key).await.unwrap();
    assert!(
        principal.covers("example.com") && !principal.covers("www.example.com"),
        "at once"
    );
    let listed = accounts.verifications(&mine).await.unwrap();
    let listed: Vec<&str> = listed.iter().map(|one| one.domain.as_str()).collect();
    assert_eq!(listed, ["example.com", "mine.test"]);
    let noted = |actor: &str, action: &str, subject: &str| (actor.to_owned(), action.to_owned(), subject.to_owned());
    assert_eq!(
        trail(&fixture).await,
        [
            noted("key:test", "domain.challenge", "example.com"),
            noted("key:test", "domain.challenge", "example.org"),
            noted("key:test", "domain.verify", "example.com")
        ]
    );
}

async fn only_the_hash_of_a_token_is_stored(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine.test").await;
    let names = domains("example.com");
    let issued = accounts
        .create_challenges(&challenge_request(&mine, &names))
        .await
        .unwrap();
    let bare = issued[0].token.strip_prefix(TOKEN_PREFIX).unwrap();
    assert!(!format!("{issued:?}").contains(bare), "nor shown by a log");
    let row = sqlx::query("SELECT token_hash FROM challenges")
        .fetch_one(&fixture.raw().await)
        .await
        .unwrap();
    let stored: String = row.get(0);
    assert_eq!(stored.len(), 64);
    assert_ne!(stored, bare);
    if fixture.url.is_none() {
        for entry in std::fs::read_dir(&fixture.data).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(bare.len()).any(|window| window == bare.as_bytes()));
        }
    }
}

async fn a_challenge_is_met_once_and_in_its_time(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine.test").await;
    let first = challenge(&accounts, &mine, "example.com").await;
    fixture.pass_ms(CHALLENGE_MS - 1);
    assert_eq!(accounts.open_challenges(&mine, None).await.unwrap().len(), 1);
    fixture.pass_ms(1);
    assert!(accounts.open_challenges(&mine, None).await.unwrap().is_empty());
    let late = accounts.verify("key:test", &first).await;
    assert!(matches!(late, Err(VerifyError::ChallengeGone)), "{late:?}");
    let second = challenge(&accounts, &mine, "example.com").await;
    let done = accounts.verify("key:test", &second).await.unwrap();
    fixture.pass_ms(HOUR_MS);
    let again = accounts.verify("key:test", &second).await.unwrap();
    assert_eq!(again, done, "it isn't a second verification");
    assert!(accounts.open_challenges(&mine, None).await.unwrap().is_empty());
}

async fn the_newest_challenges_of_a_domain_stay_open(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine.test").await;
    let first = challenge(&accounts, &mine, "example.com").await;
    let mut last = None;
    for _ in 0..accounts::CHALLENGES_PER_DOMAIN_MAX {
        fixture.pass_ms(1);
        last = Some(challenge(&accounts, &mine, "example.com").await);
    }
    let open = accounts.open_challenges(&mine, Some(&first.domain)).await.unwrap();
    assert_eq!(
        open.len(),
        usize::try_from(accounts::CHALLENGES_PER_DOMAIN_MAX).unwrap()
    );
    assert_eq!(open[0].created_at_ms, last.unwrap().created_at_ms, "newest first");
    assert!(matches!(
        accounts.verify("key:test", &first).await,
        Err(VerifyError::ChallengeGone)
    ));
    accounts.verify("key:test", &open[4]).await.unwrap();
    assert!(
        accounts.open_challenges(&mine, None).await.unwrap().is_empty(),
        "all of them end"
    );
}

async fn open_challenges_are_bounded(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "mine.test").await;
    let mut others = fixture.raw().await.begin().await.unwrap();
    for number in 0..accounts::CHALLENGES_MAX {
        let insert = "INSERT INTO challenges
            (id, account_id, domain, method, include_subdomains, token_hash, created_at_ms, expires_at_ms)
            VALUES ($1, $2, $1, 'dns', 0, '', $3, $4)";
        let insert = sqlx::query(insert).bind(format!("d{number}.test")).bind(&mine);
        insert
            .bind(START_MS)
            .bind(START_MS + 1)
            .execute(&mut *others)
            .await
            .unwrap();
    }
    others.commit().await.unwrap();
    let names = domains("example.com");
    let refused = accounts.create_challenges(&challenge_request(&mine, &names)).await;
    assert!(matches!(refused, Err(AccountsError::TooManyChallenges)), "{refused:?}");
    fixture.pass_ms(1);
    challenge(&accounts, &mine, "example.com").await;
}

async fn a_domain_belongs_to_one_account_while_its_verification_holds(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, my_key) = account(&accounts, "mine.test").await;
    let (theirs, their_key) = account(&accounts, "theirs.test").await;
    accounts
        .verify("key:test", &challenge(&accounts, &mine, "example.com").await)
        .await
        .unwrap();
    let early = challenge(&accounts, &theirs, "example.com").await;
    let refused = accounts.verify("key:test", &early).await.unwrap_err();
    assert!(matches!(refused, VerifyError::DomainHeld(_)), "{refused:?}");
    assert!(!refused.to_string().contains(&mine), "{refused}");
    let revoked = accounts.revoke_verification(&theirs, "key:test", &early.domain).await;
    assert!(!revoked.unwrap(), "it isn't theirs to give back");
    assert_eq!(accounts.verification(&theirs, &early.domain).await.unwrap(), None);
    assert!(accounts.authenticate(&my_key).await.unwrap().covers("example.com"));
    fixture.pass_ms(YEAR_MS - HOUR_MS);
    let late = challenge(&accounts, &theirs, "example.com").await;
    fixture.pass_ms(HOUR_MS);
    accounts.verify("key:test", &late).await.unwrap();
    assert_eq!(
        accounts.verification(&mine, &late.domain).await.unwrap(),
        None,
        "it is theirs now"
    );
    assert!(
        !accounts
            .revoke_verification(&mine, "key:test", &late.domain)
            .await
            .unwrap()
    );
    assert!(
        accounts
            .revoke_verification(&theirs, "key:test", &late.domain)
            .await
            .unwrap()
    );
    accounts
        .verify("key:test", &challenge(&accounts, &mine, "example.com").await)
        .await
        .unwrap();
    let row = "SELECT COUNT(*) FROM domains WHERE domain = 'example.com'";
    assert_eq!(
        sqlx::query(row)
            .fetch_one(&fixture.raw().await)
            .await
            .unwrap()
            .get::<i64, _>(0),
        1
    );
    drop(their_key);
}

async fn a_verification_is_renewed_and_given_back(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, key) = account(&accounts, "mine.test").await;
    let first = accounts
        .verify("key:test", &challenge(&accounts, &mine, "example.com").await)
        .await
        .unwrap();
    fixture.pass_ms(HOUR_MS);
    let rotated = challenge(&accounts, &mine, "example.com").await;
    assert!(
        accounts
            .verification(&mine, &rotated.domain)
            .await
            .unwrap()
            .unwrap()
            .holds(START_MS + HOUR_MS)
    );
    let renewed = accounts.verify("key:test", &rotated).await.unwrap();
    assert_ne!(renewed.id, first.id);
    assert_eq!(renewed.expires_at_ms, START_MS + HOUR_MS + VERIFICATION_MS);
    let open = challenge(&accounts, &mine, "example.com").await;
    assert!(
        accounts
            .revoke_verification(&mine, "key:test", &open.domain)
            .await
            .unwrap()
    );
    assert!(
        !accounts
            .revoke_verification(&mine, "key:test", &open.domain)
            .await
            .unwrap(),
        "once"
    );
    assert!(
        !accounts.authenticate(&key).await.unwrap().covers("example.com"),
        "at once"
    );
    let shown = accounts.verification(&mine, &open.domain).await.unwrap().unwrap();
    assert_eq!(shown.revoked_at_ms, Some(START_MS + HOUR_MS));
    assert!(!shown.holds(START_MS + HOUR_MS));
    assert!(
        matches!(
            accounts.verify("key:test", &open).await,
            Err(VerifyError::ChallengeGone)
        ),
        "its token too"
    );
    let actions: Vec<String> = trail(&fixture).await.into_iter().map(|(_, action, _)| action).collect();
    let wanted =
        ["challenge", "verify", "challenge", "renew", "challenge", "revoke"].map(|verb| format!("domain.{verb}"));
    assert_eq!(actions, wanted);
    // The operator's word takes it back.
    let again = issue(&accounts, "example.com,mine.test").await;
    assert_eq!(again.account_id, mine);
    let shown = accounts.verification(&mine, &open.domain).await.unwrap().unwrap();
    assert_eq!((shown.method.as_str(), shown.revoked_at_ms), ("local", None));
    assert_ne!(shown.id, renewed.id);
}

/// Of as many domains as an account may hold, all but its own have ended; they come first by name.
async fn what_has_ended_takes_no_slot(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, key) = account(&accounts, "mine.test").await;
    let (ended, held) = (START_MS - 1, START_MS + YEAR_MS);
    let ended = |number: i64| {
        let (until, revoked) = if number % 2 == 0 {
            (ended, "NULL".to_owned())
        } else {
            (held, ended.to_string())
        };
        format!("('a{number}.test', '{mine}', 'dns', 1, {until}, {revoked}, 'ver_{number}', 1)")
    };
    let rows: Vec<String> = (1..DOMAINS_MAX).map(ended).collect();
    let insert = format!(
        "INSERT INTO domains (domain, account_id, method, verified_at_ms, expires_at_ms, revoked_at_ms, \
         verification_id, first_verified_at_ms) VALUES {}",
        rows.join(", ")
    );
    sqlx::query(sqlx::AssertSqlSafe(insert))
        .execute(&fixture.raw().await)
        .await
        .unwrap();
    let new = challenge(&accounts, &mine, "new.test").await;
    accounts.verify("key:test", &new).await.unwrap();
    let issued = issue(&accounts, "mine.test,newest.test").await;
    assert_eq!(issued.account_id, mine);
    let holding = ["mine.test", "new.test", "newest.test"];
    assert_eq!(accounts.authenticate(&issued.api_key).await.unwrap().domains, holding);
    assert_eq!(accounts.authenticate(&key).await.unwrap().domains, holding);
    let listed = accounts.verifications(&mine).await.unwrap();
    let listed = listed.iter().filter(|one| one.holds(START_MS));
    assert_eq!(listed.map(|one| one.domain.as_str()).collect::<Vec<_>>(), holding);
    // Those that hold count.
    sqlx::query("UPDATE domains SET expires_at_ms = $1, revoked_at_ms = NULL")
        .bind(held)
        .execute(&fixture.raw().await)
        .await
        .unwrap();
    let more = challenge(&accounts, &mine, "more.test").await;
    let refused = accounts.verify("key:test", &more).await;
    assert!(matches!(refused, Err(VerifyError::TooManyDomains)), "{refused:?}");
}

async fn concurrent_checks_make_one_verification(fixture: Fixture) {
    let replicas = [fixture.open().await, fixture.open().await];
    let (mine, _) = account(&replicas[0], "mine.test").await;
    for turn in 0..5 {
        let names = domains(&format!("d{turn}.example"));
        let mut found = Vec::new();
        for method in [VerificationMethod::Dns, VerificationMethod::Https] {
            let request = ChallengeRequest {
                method,
                ..challenge_request(&mine, &names)
            };
            found.push(
                replicas[0]
                    .create_challenges(&request)
                    .await
                    .unwrap()
                    .remove(0)
                    .challenge,
            );
        }
        // Both tokens are published, and every check finds another one of them first.
        let tasks: Vec<_> = (0..6)
            .map(|number| (replicas[number % 2].clone(), found[number / 2 % 2].clone()))
            .map(|(replica, challenge)| {
                tokio::spawn(async move { replica.verify("key:test", &challenge).await.unwrap().id })
            })
            .collect();
        let mut ids = std::collections::HashSet::new();
        for task in tasks {
            ids.insert(task.await.unwrap());
        }
        assert_eq!(ids.len(), 1, "turn {turn}");
    }
}

async fn two_accounts_at_once_and_one_gets_the_domain(fixture: Fixture) {
    let replicas = [fixture.open().await, fixture.open().await];
    let owners = [
        account(&replicas[0], "mine.test").await.0,
        account(&replicas[0], "theirs.test").await.0,
    ];
    for turn in 0..5 {
        let name = format!("d{turn}.example");
        let mut tasks = Vec::new();
        for (replica, owner) in replicas.iter().zip(&owners) {
            let (replica, challenge) = (replica.clone(), challenge(replica, owner, &name).await);
            tasks.push(tokio::spawn(
                async move { replica.verify("key:test", &challenge).await },
            ));
        }
        let (mut got, mut refused) = (0, 0);
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => got += 1,
                Err(VerifyError::DomainHeld(_)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((got, refused), (1, 1), "turn {turn}");
    }
}

async fn subdomains_are_inherited_unless_another_account_has_them(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, my_key) = account(&accounts, "mine.test").await;
    let (theirs, their_key) = account(&accounts, "theirs.test").await;
    verify_with_subdomains(&accounts, &mine, "example.com").await;
    let principal = accounts.authenticate(&my_key).await.unwrap();
    assert!(principal.covers("example.com") && principal.covers("a.blog.example.com"));
    assert_eq!(principal.inherited.len(), 2);
    assert!(!principal.covers("other.test") && principal.covers("sub.mine.test"));
    accounts
        .verify("key:test", &challenge(&accounts, &theirs, "blog.example.com").await)
        .await
        .unwrap();
    fixture.pass_ms(i64::try_from(fixture.config().cache_ms_max).unwrap());
    let principal = accounts.authenticate(&my_key).await.unwrap();
    assert!(principal.covers("news.example.com"));
    assert!(!principal.covers("blog.example.com") && !principal.covers("a.blog.example.com"));
    assert_eq!(principal.inherited[0].except, ["blog.example.com"]);
    let other = accounts.authenticate(&their_key).await.unwrap();
    assert!(other.covers("blog.example.com") && !other.covers("a.blog.example.com") && !other.covers("example.com"));
    // When theirs ends, it is mine again, also from memory.
    accounts
        .revoke_verification(&theirs, "key:test", &domains("blog.example.com")[0])
        .await
        .unwrap();
    fixture.pass_ms(i64::try_from(fixture.config().cache_ms_max).unwrap());
    assert!(accounts.authenticate(&my_key).await.unwrap().covers("blog.example.com"));
    // What is mine below mine needs no exception.
    accounts
        .verify("key:test", &challenge(&accounts, &mine, "shop.example.com").await)
        .await
        .unwrap();
    let principal = accounts.authenticate(&my_key).await.unwrap();
    assert!(principal.covers("shop.example.com") && principal.inherited[0].except.is_empty());
    fixture.pass_ms(YEAR_MS - HOUR_MS);
    let key = issue(&accounts, "mine.test").await.api_key;
    drop(key);
    accounts
        .revoke_verification(&mine, "key:test", &domains("example.com")[0])
        .await
        .unwrap();
    let open = accounts.verifications(&mine).await.unwrap();
    assert!(
        open.iter()
            .any(|one| one.domain == "example.com" && one.revoked_at_ms.is_some())
    );
}

/// Tables of the version before had neither.
async fn old_domains_get_ancestors_and_ids(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (mine, _) = account(&accounts, "a.b.example.com").await;
    let question = "SELECT ancestor FROM domain_ancestors WHERE domain = 'a.b.example.com' ORDER BY ancestor";
    let raw = fixture.raw().await;
    let stored: Vec<String> = sqlx::query(question)
        .fetch_all(&raw)
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(stored, ["b.example.com", "example.com"]);
    sqlx::query("DELETE FROM domain_ancestors").execute(&raw).await.unwrap();
    // What the version's statement does, on rows that were there before it.
    sqlx::query(BACKFILL).execute(&raw).await.unwrap();
    let filled: Vec<String> = sqlx::query(question)
        .fetch_all(&raw)
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(filled, stored);
    assert!(accounts.verifications(&mine).await.unwrap()[0].id.starts_with("ver_"));
}

const BACKFILL: &str = "INSERT INTO domain_ancestors (ancestor, domain)
    WITH RECURSIVE walk (domain, rest) AS (
        SELECT domain, domain FROM domains
        UNION ALL
        SELECT domain, substr(rest, 2) FROM walk WHERE length(rest) > 1
    )
    SELECT substr(rest, 2), domain FROM walk WHERE rest LIKE '.%.%'";

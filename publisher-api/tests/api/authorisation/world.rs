//! Four accounts: two with a verified domain, one whose verification ran out, one that gave its
//! domain back.

use std::cell::Cell;
use std::sync::Arc;

use accounts::{
    AccountRole, COLLECTIONS, ChallengeRequest, EntryAuthors, EntryContent, EntryTitle, EntryUrl, ErasedEntries,
    ExportValue as Shown, ExportedRow, Fingerprint, KeyRequest, KeySource, NewEntry, NewErasure, NewOperatorKey,
    RequestedErasure, Scope, Subject, Tier, User, VerificationMethod,
};
use publisher_api::{Authority, PublisherConfig};
use serde_json::json;
use uuid::Uuid;

use super::questions::Questions;
use super::table::{CLIENT, Noun, Row, THUMBPRINT};
use crate::browser::Browser;
use crate::engine;
use crate::provider::{ISSUER, Provider, claims};
use crate::signer::Signer;
use crate::stack::{ALL, Answer, DAY_MS, READ, START_MS, Stack};

/// When the test is: verifications of the beginning have run out.
const NOW_MS: i64 = START_MS + 366 * DAY_MS;

pub(super) struct World {
    pub(super) stack: Stack,
    pub(super) provider: Provider,
    pub(super) questions: Questions,
    pub(super) anna: Account,
    pub(super) bert: Account,
    /// Her verification ran out.
    pub(super) lotte: Account,
    /// He gave his domain back.
    pub(super) gary: Account,
    /// Keys of anna's that don't work any more.
    pub(super) expired: String,
    pub(super) revoked: String,
    /// Numbers what is made.
    next: Cell<u32>,
}

/// Everything of an account says its name.
pub(super) struct Account {
    pub(super) name: &'static str,
    pub(super) id: String,
    pub(super) token: String,
    /// With every scope.
    pub(super) key: String,
    /// With one scope each, and with all but one: in the order of [`ALL`].
    only: Vec<String>,
    without: Vec<String>,
    /// Parent of its domains: this one and those below it.
    pub(super) domain: String,
    /// Whether a new domain can be had for each request.
    verifies: bool,
    erasure: String,
    /// An operator, of who can't have a new one for each request.
    operator: String,
}

/// An answer, and what was asked of the store for it.
pub(super) struct Asked {
    pub(super) answer: Answer,
    /// Path and body.
    pub(super) sent: String,
    pub(super) questions: Vec<String>,
}

impl World {
    pub(super) async fn new(questions: Questions) -> Self {
        let (provider, warehouse) = (Provider::new(), engine::warehouse().await);
        for (domain, number) in [("anna.example", 1_000), ("bert.example", 2_000)] {
            engine::insert(&warehouse, domain, NOW_MS - DAY_MS, number..number + 3).await;
            engine::refuse(&warehouse, domain, NOW_MS - DAY_MS, number + 3).await;
        }
        let config = PublisherConfig {
            health_interval_ms: 600_000,
            directory_interval_ms: 600_000,
            ..PublisherConfig::default()
        };
        let stack = Stack::start_with(config, |deps| {
            let dir = provider.jwks_file();
            let authority = Authority::new(&provider.config(), dir.parent().unwrap(), &deps.outbound);
            deps.authority = Arc::new(authority.unwrap());
            deps.warehouse = warehouse;
            // Nobody answers there: a key directory's name isn't found, and that at once.
            let nowhere = outbound::Config {
                dns_ms_max: 10,
                test_resolver: Some("127.0.0.1:9".parse().unwrap()),
                ..outbound::Config::default()
            };
            deps.outbound = outbound::OutboundClient::new(&nowhere).unwrap();
            deps.quotas.enterprise_per_minute = 100_000;
        })
        .await;
        let mut accounts = Vec::new();
        for name in ["anna", "bert", "lotte", "gary"] {
            accounts.push(Account::new(&stack, &provider, name).await);
        }
        let [anna, bert, mut lotte, mut gary] = <[Account; 4]>::try_from(accounts).ok().unwrap();
        let expired = anna.make_key(&stack, ALL, 30).await;
        let revoked = anna.make_key(&stack, ALL, 800).await;
        let store = &stack.deps.accounts;
        let revoked_id = revoked.split('_').nth(1).unwrap();
        store.revoke_key(Some(&anna.id), revoked_id, "user:test").await.unwrap();
        lotte.verify(&stack, &lotte.domain).await;
        lotte.operator = lotte.make_operator(&stack, &lotte.domain, 1).await;
        stack.pass_ms(NOW_MS - START_MS);
        for account in [&anna, &bert, &gary] {
            account.verify(&stack, &account.domain).await;
        }
        gary.operator = gary.make_operator(&stack, &gary.domain, 2).await;
        let given_back = gary.domain.parse().unwrap();
        assert!(
            store
                .revoke_verification(&gary.id, "user:test", &given_back)
                .await
                .unwrap()
        );
        // Nobody carries erasures out during the test.
        assert!(store.claim("erasures", "the test", 3_600_000).await.unwrap());
        Self {
            stack,
            provider,
            questions,
            anna,
            bert,
            lotte,
            gary,
            expired,
            revoked,
            next: Cell::new(0),
        }
    }

    /// The row's request about `id`.
    pub(super) async fn ask(&self, row: &Row, id: &str, authorization: &[String]) -> Asked {
        let headers: Vec<_> = authorization
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        self.ask_with(row, id, &headers).await
    }

    /// The row's request about `id`, with these headers.
    pub(super) async fn ask_with(&self, row: &Row, id: &str, headers: &[(&str, &str)]) -> Asked {
        let (path, mut body) = row.request(id);
        let mut proof = Vec::new();
        if row.is_signed {
            self.next.set(self.next.get() + 1);
            let (signer, now_s) = (
                Signer::new(self.next.get().into()),
                self.stack.deps.accounts.now_ms() / 1_000,
            );
            body = json!({"jwk": signer.jwk()}).to_string();
            let target = format!("http://{}{path}", self.stack.server.address);
            let times = format!(";created={now_s};expires={}", now_s + 60);
            proof.extend(signer.sign_request(&target, &body, &times));
        }
        let mut headers = headers.to_vec();
        if !body.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        headers.extend(proof.iter().map(|(name, value)| (*name, value.as_str())));
        self.questions.take();
        let answer = self.stack.server.send(row.method, &path, &headers, &body).await;
        Asked {
            answer,
            sent: path + &body,
            questions: self.questions.take(),
        }
    }

    /// The identifier of something of the account's, new where it can be used up.
    pub(super) async fn target(&self, noun: Noun, account: &Account) -> String {
        self.next.set(self.next.get() + 1);
        let (store, number) = (&self.stack.deps.accounts, self.next.get());
        match noun {
            Noun::Nothing => String::new(),
            Noun::Account => account.id.clone(),
            Noun::Entry => {
                let url = format!("https://{}/{number}", account.domain);
                let content = EntryContent {
                    url: EntryUrl::parse(&url).unwrap(),
                    title: EntryTitle::parse(format!("{} writes", account.name)).unwrap(),
                    authors: EntryAuthors::parse(vec![account.name.to_owned()]).unwrap(),
                };
                let id = Uuid::now_v7();
                let new = vec![NewEntry { id, content }];
                store
                    .create_entries(&account.id, "user:test", new, 1_000)
                    .await
                    .unwrap();
                id.to_string()
            }
            Noun::Key => {
                let key = account.make_key(&self.stack, READ, 30).await;
                key.split('_').nth(1).unwrap().to_owned()
            }
            Noun::Domain if account.verifies => {
                let domain = format!("d{number}.{}", account.domain);
                account.verify(&self.stack, &domain).await;
                domain
            }
            Noun::Domain => account.domain.clone(),
            Noun::Erasure => account.erasure.clone(),
            Noun::Session => {
                let user = account.user(&self.stack).await;
                let session = Browser::start(&self.stack, &user).await;
                let sessions = store.sessions(&user.id, None).await.unwrap();
                assert!(!session.cookie.is_empty());
                sessions[0].id.clone()
            }
            Noun::Member => {
                let link = store.create_login_link(Some(&account.id), AccountRole::Editor);
                let member = store.use_login_link(&link.await.unwrap()).await.unwrap();
                member.unwrap().id
            }
            Noun::Invitation | Noun::Join => {
                let owner = account.user(&self.stack).await;
                let made = store.invite(&account.id, &owner.id, AccountRole::Reader, None).await;
                let (invitation, token) = made.unwrap();
                match noun {
                    Noun::Join => token.unwrap().reveal(),
                    _ => invitation.id,
                }
            }
            Noun::LoginLink => {
                let link = store.create_login_link(None, AccountRole::Owner).await.unwrap();
                link.reveal()
            }
            Noun::Operator if account.verifies => {
                let domain = format!("d{number}.{}", account.domain);
                account.verify(&self.stack, &domain).await;
                account.make_operator(&self.stack, &domain, number + 2).await
            }
            Noun::Operator => account.operator.clone(),
        }
    }

    /// An identifier of the same form that names nothing.
    pub(super) fn nothing(&self, noun: Noun) -> String {
        let id = Uuid::now_v7();
        let text = id.simple().to_string();
        match noun {
            Noun::Nothing => String::new(),
            Noun::Entry | Noun::Operator => id.to_string(),
            Noun::Key => text[16..].to_owned(),
            Noun::Domain => format!("d{}.nobody.example", &text[20..]),
            Noun::Erasure => format!("era_{text}"),
            Noun::Session => format!("ses_{text}"),
            Noun::Member => format!("usr_{text}"),
            Noun::Account => format!("acc_{text}"),
            Noun::Invitation => format!("inv_{text}"),
            Noun::LoginLink | Noun::Join => text.repeat(2),
        }
    }

    /// Everything that the store has of an account.
    pub(super) async fn state(&self, account: &Account) -> Vec<Vec<ExportedRow>> {
        let mut state = Vec::new();
        for collection in COLLECTIONS {
            let rows = self
                .stack
                .deps
                .accounts
                .collection_page(&account.id, collection, None, 10_000);
            let mut rows = rows.await.unwrap();
            // A key is used by a request that is refused, too.
            let used = collection.columns.iter().position(|column| column.name == "lastUsedAt");
            if let Some(used) = used {
                rows.iter_mut().for_each(|row| row.cells[used] = Shown::Absent);
            }
            state.push(rows);
        }
        state
    }

    /// Texts that nobody else may see: the account's name, and the identifier of everything it has.
    pub(super) async fn marks(&self, account: &Account) -> Vec<String> {
        let mut marks = vec![account.name.to_owned()];
        for (collection, rows) in COLLECTIONS.iter().zip(self.state(account).await) {
            for row in rows {
                for (column, cell) in collection.columns.iter().zip(row.cells) {
                    // Any operator may claim the same client ID.
                    if let Shown::Text(text) = cell
                        && column.name.to_ascii_lowercase().ends_with("id")
                        && text != CLIENT
                    {
                        marks.push(text);
                    }
                }
            }
        }
        assert!(
            marks.len() > 10 && marks.iter().all(|mark| mark.len() >= 4),
            "{marks:?}"
        );
        marks
    }
}

impl Account {
    /// A key that may do this alone.
    pub(super) fn only(&self, scope: Scope) -> &str {
        &self.only[position(scope)]
    }

    /// A key that may do everything else.
    pub(super) fn without(&self, scope: Scope) -> &str {
        &self.without[position(scope)]
    }

    /// With keys, and nothing verified.
    async fn new(stack: &Stack, provider: &Provider, name: &'static str) -> Self {
        let mut claims = claims(name);
        claims["exp"] = json!(claims["exp"].as_i64().unwrap() + 400 * 86_400);
        claims["email"] = json!(format!("{name}@mail.example"));
        let token = provider.ed25519(&claims);
        let listed = stack.server.get("/api/v1/user/information", &token).await.expect(200);
        let mut account = Self {
            name,
            id: String::new(),
            token,
            key: String::new(),
            only: Vec::new(),
            without: Vec::new(),
            domain: format!("{name}.example"),
            verifies: ["anna", "bert"].contains(&name),
            erasure: String::new(),
            operator: String::new(),
        };
        let store = &stack.deps.accounts;
        let made = store.own_account(listed["id"].as_str().unwrap()).await;
        account.id = made.unwrap().unwrap();
        store.set_tier(&account.id, Tier::Enterprise, "operator").await.unwrap();
        account.key = account.make_key(stack, ALL, 800).await;
        for scope in ALL {
            account.only.push(account.make_key(stack, &[*scope], 800).await);
            let others: Vec<Scope> = ALL.iter().copied().filter(|other| other != scope).collect();
            account.without.push(account.make_key(stack, &others, 800).await);
        }
        let request = NewErasure {
            entries: ErasedEntries::These(vec![Uuid::now_v7()]),
            personal_data: false,
            receipt_metadata: None,
            person: None,
        };
        let requested = store.request_erasure(&account.id, "user:test", request, DAY_MS).await;
        let RequestedErasure::Taken(erasure) = requested.unwrap() else {
            panic!("it isn't taken");
        };
        account.erasure = erasure.id;
        account
    }

    /// The user of its JWT, who owns it.
    pub(super) async fn user(&self, stack: &Stack) -> User {
        let subject = Subject {
            issuer: ISSUER.to_owned(),
            subject: self.name.to_owned(),
            email: None,
            name: None,
        };
        stack.deps.accounts.sign_in(&subject).await.unwrap()
    }

    async fn make_key(&self, stack: &Stack, scopes: &[Scope], days: i64) -> String {
        let store = &stack.deps.accounts;
        let request = KeyRequest {
            domains: None,
            name: format!("{}'s key", self.name),
            scopes: scopes.to_vec(),
            expires_at_ms: store.now_ms() + days * DAY_MS,
        };
        store.create_key(&self.id, request, "user:test").await.unwrap().api_key
    }

    /// The operator of a domain of the account's, with a key of this number and a client ID.
    async fn make_operator(&self, stack: &Stack, domain: &str, number: u32) -> String {
        let (store, actor) = (&stack.deps.accounts, "user:test");
        let mut fingerprint = [0; 32];
        fingerprint[..4].copy_from_slice(&number.to_le_bytes());
        let created = store.create_operator(&self.id, actor, &domain.parse().unwrap()).await;
        let operator = created.unwrap();
        let key = NewOperatorKey {
            fingerprint: Fingerprint(fingerprint),
            thumbprint: THUMBPRINT.to_owned(),
            pem: String::new(),
            algorithm: "Ed25519".to_owned(),
            source: KeySource::Registered,
        };
        assert!(store.add_operator_key(&operator, actor, &key).await.unwrap());
        assert!(
            store
                .claim_client(&operator, actor, CLIENT.parse().unwrap())
                .await
                .unwrap()
        );
        operator.id.to_string()
    }

    async fn verify(&self, stack: &Stack, domain: &str) {
        let request = ChallengeRequest {
            account_id: &self.id,
            actor: "user:test",
            domains: &[domain.parse().unwrap()],
            method: VerificationMethod::Dns,
            include_subdomains: Some(false),
        };
        let store = &stack.deps.accounts;
        let issued = store.create_challenges(&request).await.unwrap();
        store.verify("user:test", &issued[0].challenge).await.unwrap();
    }
}

fn position(scope: Scope) -> usize {
    ALL.iter().position(|one| *one == scope).unwrap()
}

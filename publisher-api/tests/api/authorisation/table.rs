//! Every address, and what it answers to whom.

use accounts::{AccountRole, Scope};
use uuid::Uuid;

/// Credential that an address wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Open,
    /// Without a credential, counted by address.
    Public,
    Key,
    Jwt,
    /// A session's cookie alone.
    Session,
}

/// Noun that the identifier in a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noun {
    Nothing,
    Entry,
    Key,
    Domain,
    Erasure,
    Session,
    Account,
    Member,
    Invitation,
    /// The secret of its link.
    Join,
    LoginLink,
    /// With a key and a claimed client ID.
    Operator,
}

/// The thumbprint of every operator's key, and the client ID that each one claims.
pub(super) const THUMBPRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";
pub(super) const CLIENT: &str = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10";

/// A status, and the problem's code; none for what isn't a problem.
pub(super) type Expected = (u16, &'static str);

pub(super) const NOT_FOUND: Expected = (404, "not_found");
pub(super) const NOT_VERIFIED: Expected = (403, "domain_not_verified");

/// A request. `{id}` in query and body is the identifier, as it is in the path; `{new}` in the body
/// is another UUID each time.
pub(super) struct Row {
    pub(super) method: &'static str,
    /// As the document has it.
    pub(super) path: &'static str,
    pub(super) query: &'static str,
    pub(super) body: &'static str,
    /// Whether the request registers a key, which has signed it.
    pub(super) is_signed: bool,
    is_erasing: bool,
    /// Least role of a person with a session who may ask.
    pub(super) role: AccountRole,
    pub(super) access: Access,
    pub(super) noun: Noun,
    /// Whether a person's sign-in must be fresh.
    pub(super) is_fresh: bool,
    /// To whom may ask, about what is their own.
    pub(super) good: u16,
    /// And the problem's code, if that is one.
    pub(super) good_code: &'static str,
    /// To whose account has no domain whose verification holds, about what is their own.
    pub(super) unverified: Expected,
    /// About what is another's.
    pub(super) foreign: Expected,
}

impl Row {
    fn new(access: Access, method: &'static str, path: &'static str, good: u16) -> Self {
        Self {
            method,
            path,
            query: "",
            body: "",
            is_signed: false,
            is_erasing: false,
            role: AccountRole::Reader,
            is_fresh: false,
            good_code: "",
            access,
            noun: Noun::Nothing,
            good,
            unverified: (good, ""),
            foreign: NOT_FOUND,
        }
    }

    fn about(self, noun: Noun) -> Self {
        Self { noun, ..self }
    }

    fn query(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    fn json(self, body: &'static str) -> Self {
        Self { body, ..self }
    }

    fn signed(self) -> Self {
        Self {
            is_signed: true,
            ..self
        }
    }

    fn unverified(self, unverified: Expected) -> Self {
        Self { unverified, ..self }
    }

    fn foreign(self, foreign: Expected) -> Self {
        Self { foreign, ..self }
    }

    /// A request that needs the scope `erase`.
    fn erasing(self) -> Self {
        Self {
            is_erasing: true,
            ..self.role(AccountRole::Owner)
        }
    }

    fn role(self, role: AccountRole) -> Self {
        let is_fresh = role == AccountRole::Owner;
        Self { role, is_fresh, ..self }
    }

    /// The scope that it needs.
    pub(super) fn scope(&self) -> Scope {
        match self.method {
            _ if self.is_erasing => Scope::Erase,
            "GET" => Scope::Read,
            _ => Scope::Write,
        }
    }

    /// The path with its query, and the body, about `id`.
    pub(super) fn request(&self, id: &str) -> (String, String) {
        let path = self.path.replace("{domain}", "{id}") + self.query;
        let path = path
            .replace("{token}", "{id}")
            .replace("{userId}", "{id}")
            .replace("{thumbprint}", THUMBPRINT)
            .replace("{clientId}", CLIENT);
        let body = self.body.replace("{new}", &Uuid::new_v4().to_string());
        (path.replace("{id}", id), body.replace("{id}", id))
    }
}

fn open(path: &'static str) -> Row {
    Row::new(Access::Open, "GET", path, 200)
}

fn public(method: &'static str, path: &'static str) -> Row {
    Row::new(Access::Public, method, path, 200)
}

fn key(method: &'static str, path: &'static str, good: u16) -> Row {
    let row = Row::new(Access::Key, method, path, good);
    if method == "GET" {
        row
    } else {
        row.role(AccountRole::Editor)
    }
}

fn jwt(method: &'static str, path: &'static str, good: u16) -> Row {
    let row = Row::new(Access::Jwt, method, path, good);
    if method == "GET" {
        row
    } else {
        row.role(AccountRole::Owner)
    }
}

fn session(method: &'static str, path: &'static str, good: u16) -> Row {
    Row::new(Access::Session, method, path, good)
}

/// In this order: a deletion is taken back after it was requested, and domains are checked before
/// they have an open token, for which a check would look outside.
pub(super) fn rows() -> Vec<Row> {
    const KEYS: &str = "/api/v1/auth/keys";
    const KEY: &str = "/api/v1/auth/keys/{id}";
    const INVITATIONS: &str = "/api/v1/auth/invitations";
    const MEMBER: &str = "/api/v1/auth/members/{userId}";
    const ENTRIES: &str = "/api/v1/publisher/entries";
    const ENTRY: &str = "/api/v1/publisher/entries/{id}";
    const ERASURES: &str = "/api/v1/publisher/erasures";
    const OPERATORS: &str = "/api/v1/operators";
    const CLAIM: &str = "/api/v1/operators/{id}/clients/{clientId}";
    vec![
        open("/"),
        open("/healthz"),
        open("/readyz"),
        open("/api/v1/auth/join/{token}").about(Noun::Join),
        Row::new(Access::Open, "POST", "/api/v1/auth/join/{token}", 403).about(Noun::Join),
        open("/api/v1/auth/link/{token}").about(Noun::LoginLink),
        // Without what only a browser on the link's page sends.
        Row::new(Access::Open, "POST", "/api/v1/auth/link/{token}", 403).about(Noun::LoginLink),
        Row::new(Access::Open, "GET", "/api/v1/auth/login", 403),
        // Without a provider, a page says so.
        Row::new(Access::Open, "GET", "/api/v1/auth/callback", 404),
        session("GET", "/api/v1/auth/session", 200),
        // One's own account.
        session("PUT", "/api/v1/auth/session/account", 200)
            .about(Noun::Account)
            .json(r#"{"accountId": "{id}"}"#),
        session("GET", "/api/v1/auth/sessions", 200),
        session("DELETE", "/api/v1/auth/sessions/{id}", 204).about(Noun::Session),
        session("DELETE", "/api/v1/auth/session", 204),
        // Nothing of an account but its domain, which the caller names.
        public("GET", "/api/v1/entries").query("?url=https://other.example/an-article"),
        public("POST", "/api/v1/entries/lookup").json(r#"{"urls": ["https://other.example/an-article"]}"#),
        jwt("GET", KEYS, 200),
        jwt("POST", KEYS, 201).json(r#"{"name": "one more", "scope": ["read"], "expiresIn": "30d"}"#),
        jwt("GET", KEY, 200).about(Noun::Key),
        jwt("DELETE", KEY, 204).about(Noun::Key),
        jwt("POST", "/api/v1/auth/keys/{id}/rotate", 201)
            .about(Noun::Key)
            .json("{}"),
        jwt("GET", INVITATIONS, 200),
        jwt("POST", INVITATIONS, 201).json(r#"{"role": "reader"}"#),
        jwt("DELETE", "/api/v1/auth/invitations/{id}", 204).about(Noun::Invitation),
        jwt("GET", "/api/v1/auth/members", 200),
        jwt("PATCH", MEMBER, 204)
            .about(Noun::Member)
            .json(r#"{"role": "reader"}"#),
        jwt("DELETE", MEMBER, 204).about(Noun::Member),
        jwt("GET", "/api/v1/user/information", 200),
        // One's own data.
        jwt("PATCH", "/api/v1/user/information", 200)
            .json(r#"{"email": null}"#)
            .role(AccountRole::Reader),
        Row {
            is_fresh: true,
            good_code: "last_owner",
            ..jwt("DELETE", "/api/v1/user/information", 409).role(AccountRole::Reader)
        },
        // One's own mails, whatever the role.
        jwt("GET", "/api/v1/user/reports", 200),
        jwt("PUT", "/api/v1/user/reports", 200)
            .json(r#"{"weekly": true, "silentHours": 24}"#)
            .role(AccountRole::Reader),
        jwt("DELETE", "/api/v1/user/account", 202),
        jwt("POST", "/api/v1/user/account/cancel-deletion", 200),
        key("GET", "/api/v1/publisher/data", 200),
        key("GET", "/api/v1/publisher/export", 200),
        key("GET", "/api/v1/publisher/export", 200).query("?format=ndjson"),
        key("GET", "/api/v1/publisher/export", 200).query("?format=csv&collection=receipts"),
        key("GET", "/api/v1/publisher/trail", 200),
        key("GET", ENTRIES, 200),
        key("GET", ENTRIES, 200)
            .query("?domain={id}")
            .about(Noun::Domain)
            .foreign((200, "")),
        // Nobody may list content on someone else's domain.
        key("POST", ENTRIES, 201)
            .json(r#"{"entryId": "{new}", "url": "https://{id}/an-article", "title": "An article"}"#)
            .about(Noun::Domain)
            .unverified(NOT_VERIFIED)
            .foreign(NOT_VERIFIED),
        key("GET", ENTRY, 200).about(Noun::Entry),
        key("PATCH", ENTRY, 200)
            .json(r#"{"title": "Another title"}"#)
            .about(Noun::Entry),
        // What is one's own can always be read, put right and erased.
        key("DELETE", ENTRY, 204).erasing().about(Noun::Entry),
        key("POST", ERASURES, 202)
            .erasing()
            .json(r#"{"receiptClientMetadata": true}"#)
            .unverified((403, "no_verified_domain")),
        // What isn't one's own is passed over, without a word.
        key("POST", ERASURES, 202)
            .erasing()
            .json(r#"{"entryIds": ["{id}"]}"#)
            .about(Noun::Entry)
            .foreign((202, "")),
        key("GET", ERASURES, 200),
        key("GET", "/api/v1/publisher/erasures/{id}", 200).about(Noun::Erasure),
        key("DELETE", "/api/v1/publisher/erasures/{id}", 200)
            .erasing()
            .about(Noun::Erasure),
        key("GET", OPERATORS, 200),
        key("POST", OPERATORS, 200)
            .json(r#"{"domain": "{id}"}"#)
            .about(Noun::Domain)
            .unverified(NOT_VERIFIED)
            .foreign(NOT_VERIFIED),
        key("GET", "/api/v1/operators/trusted", 200),
        key("PUT", "/api/v1/operators/trusted", 200).json(r#"{"operators": ["lab.example"]}"#),
        key("GET", "/api/v1/operators/{id}", 200).about(Noun::Operator),
        key("POST", "/api/v1/operators/{id}/keys", 200)
            .signed()
            .about(Noun::Operator)
            .unverified(NOT_VERIFIED),
        // What is one's own can always be ended.
        key("DELETE", "/api/v1/operators/{id}/keys/{thumbprint}", 204).about(Noun::Operator),
        key("PUT", CLAIM, 204).about(Noun::Operator).unverified(NOT_VERIFIED),
        key("DELETE", CLAIM, 204).about(Noun::Operator),
        key("POST", "/api/v1/operators/{id}/directory/fetch", 200)
            .about(Noun::Operator)
            .unverified(NOT_VERIFIED),
        key("GET", "/api/v1/verification/status", 200),
        key("GET", "/api/v1/verification/status", 200)
            .query("?domain={id}")
            .about(Noun::Domain),
        key("GET", "/api/v1/verification/check", 200)
            .query("?domain={id}")
            .about(Noun::Domain)
            .foreign((200, "")),
        key("POST", "/api/v1/verification/generate", 200).json(r#"{"domain": "new.example"}"#),
        key("POST", "/api/v1/verification/renew", 200)
            .json(r#"{"domain": "{id}"}"#)
            .about(Noun::Domain),
        key("DELETE", "/api/v1/verification/{domain}", 204)
            .about(Noun::Domain)
            .unverified(NOT_FOUND),
    ]
}

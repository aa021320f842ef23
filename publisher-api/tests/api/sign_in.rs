//! Signing in at a real OpenID Connect provider: `oidc-provider` from npm, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use publisher_api::{AuthConfig, Authority, IdentityProvider, PublisherConfig};
use serde_json::json;
use tempfile::TempDir;
use test_engines::Certificates;

use crate::browser::{Browser, HERE, SESSION};
use crate::invitations::{INVITATIONS, invite, path};
use crate::members::owner;
use crate::stack::{Answer, Stack};

const LOGIN: &str = "/api/v1/auth/login";
const PUBLIC_URL: &str = "https://receipts.example";
const MINUTE_MS: i64 = 60_000;

/// The provider, at which anna signs in. It ends with its standard input.
struct OidcProvider {
    child: Child,
    lines: BufReader<ChildStdout>,
    issuer: String,
    certificates: Certificates,
    dir: TempDir,
}

impl OidcProvider {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let certificates = Certificates::make(dir.path()).unwrap();
        let fetch = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/fetch-oidc-provider");
        let fetched = Command::new(fetch).arg("--path").output().unwrap();
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
        std::fs::write(dir.path().join("secret"), "a client's s3cret/:%\n").unwrap();
        let mut child = Command::new("node")
            .arg(String::from_utf8(fetched.stdout).unwrap().trim())
            .args([&certificates.key, &certificates.certificate])
            .args([&format!("{PUBLIC_URL}/api/v1/auth/callback"), "a client's s3cret/:%"])
            .env("NODE_EXTRA_CA_CERTS", &certificates.ca)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is needed: scripts/install-deps installs it");
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut issuer = String::new();
        lines.read_line(&mut issuer).unwrap();
        Self {
            child,
            lines,
            issuer: issuer.trim().to_owned(),
            certificates,
            dir,
        }
    }

    /// An API whose people sign in here, with a configuration that `change` makes something else.
    async fn stack(&self, change: impl FnOnce(&mut AuthConfig)) -> Stack {
        let port = self.issuer.rsplit(':').next().unwrap().parse().unwrap();
        let outbound = outbound::Config {
            ports: vec![port],
            test_root_ca: Some(self.certificates.ca.clone()),
            test_allow_addresses: vec!["127.0.0.0/8".parse().unwrap()],
            ..outbound::Config::default()
        };
        let outbound = outbound::OutboundClient::new(&outbound).unwrap();
        let mut auth = AuthConfig {
            issuer: self.issuer.clone(),
            audience: "for the API".to_owned(),
            jwks_url: format!("{}/jwks", self.issuer),
            client_id: "receipts".to_owned(),
            client_secret_file: self.dir.path().join("secret").display().to_string(),
            ..AuthConfig::default()
        };
        change(&mut auth);
        let config = PublisherConfig {
            public_url: Some(PUBLIC_URL.to_owned()),
            ..PublisherConfig::default()
        };
        let stack = Stack::start_with(config, |deps| {
            deps.authority = Arc::new(Authority::new(&auth, self.dir.path(), &outbound).unwrap());
            deps.provider = IdentityProvider::new(&auth, &outbound).unwrap().map(Arc::new);
        })
        .await;
        // The provider's clock is the system's.
        let now_ms = jiff::Timestamp::now().as_millisecond();
        stack.clock.store(now_ms, std::sync::atomic::Ordering::SeqCst);
        stack
    }

    /// Signs anna in at the provider; returns path and query at which she comes back.
    fn sign_in(&mut self, url: &str) -> String {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{url}").unwrap();
        let mut back = String::new();
        self.lines.read_line(&mut back).unwrap();
        let path = back.trim().strip_prefix(PUBLIC_URL);
        path.unwrap_or_else(|| panic!("{url}: {back}")).to_owned()
    }
}

impl Drop for OidcProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Begins a sign-in: the provider's URL, and the cookie of the sign-in.
async fn begin(stack: &Stack, query: &str, headers: &[(&str, &str)]) -> (String, String) {
    let headers = [&[HERE], headers].concat();
    let answer = stack.server.send("GET", &format!("{LOGIN}{query}"), &headers, "").await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let (cookie, attributes) = answer.header("set-cookie").split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600");
    (answer.header("location").to_owned(), cookie.to_owned())
}

/// Comes back from the provider, which is another site.
async fn come_back(stack: &Stack, path: &str, cookie: &str) -> Answer {
    let headers = [("sec-fetch-site", "cross-site"), ("cookie", cookie)];
    stack.server.send("GET", path, &headers, "").await
}

fn refused(answer: &Answer) {
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies.len(), 1, "no session: {cookies:?}");
    assert!(
        cookies[0].to_str().unwrap().starts_with("__Host-receipts-sign-in=; "),
        "{cookies:?}"
    );
}

async fn browser(stack: &Stack, answer: &Answer) -> Browser {
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, "/dashboard?session"),
        "{}",
        answer.text()
    );
    let cookies = answer.headers.get_all("set-cookie").iter();
    let cookies: Vec<_> = cookies.map(|cookie| cookie.to_str().unwrap()).collect();
    let session = cookies
        .iter()
        .find(|cookie| cookie.starts_with("__Host-receipts="))
        .unwrap();
    assert!(
        session.ends_with("; Path=/; Secure; HttpOnly; SameSite=Strict"),
        "{session}"
    );
    assert!(
        cookies
            .iter()
            .any(|cookie| cookie.starts_with("__Host-receipts-sign-in=; ")),
        "{cookies:?}"
    );
    Browser::of(stack, session.split(';').next().unwrap().to_owned()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_signs_in_at_the_provider() {
    let mut provider = OidcProvider::start();
    let stack = provider.stack(|_| {}).await;
    let (url, cookie) = begin(&stack, "", &[]).await;
    for part in [
        "response_type=code",
        "code_challenge_method=S256",
        "&nonce=",
        "&state=",
        "max_age=604800",
    ] {
        assert!(url.contains(part), "{url}");
    }
    let back = provider.sign_in(&url);
    let first = browser(&stack, &come_back(&stack, &back, &cookie).await).await;
    let me = first.ask(&stack, "GET", SESSION).await.expect(200);
    assert_eq!(
        (&me["email"], &me["name"]),
        (&json!("anna@news.example"), &json!("Anna"))
    );
    assert_eq!(me["role"], "owner");
    first.ask(&stack, "GET", "/api/v1/publisher/data").await.expect(200);
    // Her account is made by the first change.
    assert_eq!(me["accountId"], serde_json::Value::Null);
    let domain = json!({"domain": "news.example"});
    let generated = first
        .json(&stack, "POST", "/api/v1/verification/generate", &domain)
        .await;
    generated.expect(200);
    // The same answer again, even with the cookie that a browser has dropped: the code was used.
    refused(&come_back(&stack, &back, &cookie).await);
    first.ask(&stack, "GET", SESSION).await.expect(200);
    // Again in the same browser: the same person, a new token, and the one before has ended.
    let (url, cookie) = begin(&stack, "?fresh=true", &[("cookie", &first.cookie)]).await;
    assert!(url.contains("max_age=600"), "{url}");
    let back = provider.sign_in(&url);
    let second = browser(&stack, &come_back(&stack, &back, &cookie).await).await;
    let again = second.ask(&stack, "GET", SESSION).await.expect(200);
    assert_eq!(again["userId"], me["userId"]);
    first.ask(&stack, "GET", SESSION).await.refused(401, "no_session");
    // When the provider says that she signed in is when it counts from.
    let trail = second.ask(&stack, "GET", "/api/v1/publisher/trail").await.expect(200);
    let starts = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["action"] == "session.start");
    assert_eq!(
        starts.filter(|one| one["detail"] == "identity provider").count(),
        1,
        "{trail}"
    );
}

/// An invitation is accepted by the sign-in itself: its person gets no account of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invitation_is_accepted_by_a_sign_in_at_the_provider() {
    let mut provider = OidcProvider::start();
    let stack = provider.stack(|_| {}).await;
    let (bert, account_id) = owner(&stack, "bert").await;
    let (store, here) = (&stack.deps.accounts, [HERE]);
    let made = invite(&stack, &bert, "editor").await;
    let page = stack.server.send("POST", &path(&made), &here, "").await;
    let text = page.text();
    let secret = path(&made).rsplit('/').next().unwrap().to_owned();
    let query = format!("?invitation={secret}");
    assert!(
        text.contains(&format!("href=\"{LOGIN}{query}\"")) && page.status == 200,
        "{text}"
    );
    // A link to the sign-in that skips the page: on another site, or in a mail that somebody opens.
    for site in ["cross-site", "same-site", "none"] {
        let headers = [("sec-fetch-site", site)];
        let answer = stack.server.send("GET", &format!("{LOGIN}{query}"), &headers, "").await;
        answer.refused(403, "cross_site");
    }
    let wrong = format!("{LOGIN}?invitation=x");
    stack
        .server
        .send("GET", &wrong, &here, "")
        .await
        .refused(400, "invalid_query");
    // Withdrawn while anna is at the provider: no session, and nobody is made.
    let (url, cookie) = begin(&stack, &query, &[]).await;
    let back = provider.sign_in(&url);
    let withdraw = format!("{INVITATIONS}/{}", made["invitationId"].as_str().unwrap());
    assert_eq!(bert.ask(&stack, "DELETE", &withdraw).await.status, 204);
    let late = come_back(&stack, &back, &cookie).await;
    assert_eq!(late.status, 404, "{}", late.text());
    assert!(
        late.headers
            .get_all("set-cookie")
            .iter()
            .all(|one| !one.to_str().unwrap().starts_with("__Host-receipts="))
    );
    assert_eq!(store.members(&account_id).await.unwrap().len(), 1);
    let made = invite(&stack, &bert, "editor").await;
    let query = format!("?invitation={}", path(&made).rsplit('/').next().unwrap());
    let (url, cookie) = begin(&stack, &query, &[]).await;
    let back = provider.sign_in(&url);
    // Without the invitation in its cookie, or with another one, the answer is to no sign-in.
    let begun = cookie.rsplit_once('.').unwrap().0;
    refused(&come_back(&stack, &back, &format!("{begun}.")).await);
    refused(&come_back(&stack, &back, &format!("{begun}.{}", "0".repeat(64))).await);
    let anna = browser(&stack, &come_back(&stack, &back, &cookie).await).await;
    let me = anna.ask(&stack, "GET", SESSION).await.expect(200);
    assert_eq!(
        (&me["email"], &me["role"], &me["accountId"]),
        (&json!("anna@news.example"), &json!("editor"), &json!(account_id))
    );
    assert_eq!(me["accounts"].as_array().unwrap().len(), 1);
    assert_eq!(store.list_accounts().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_for_the_browser_and_the_sign_in_that_it_was_begun_by() {
    let mut provider = OidcProvider::start();
    let stack = provider.stack(|_| {}).await;
    // The attacker's own answer in the victim's browser: login CSRF.
    let (url, attackers) = begin(&stack, "", &[]).await;
    let (_, victims) = begin(&stack, "", &[]).await;
    let back = provider.sign_in(&url);
    refused(&come_back(&stack, &back, &victims).await);
    refused(&come_back(&stack, &back, "").await);
    // A code of one sign-in with the state of another: `nonce` and PKCE are others.
    let code = |back: &str| {
        back.split("code=")
            .nth(1)
            .unwrap()
            .split('&')
            .next()
            .unwrap()
            .to_owned()
    };
    let (url, _) = begin(&stack, "", &[]).await;
    let others = provider.sign_in(&url);
    refused(&come_back(&stack, &back.replace(&code(&back), &code(&others)), &attackers).await);
    // Another issuer's name, a repeated parameter, a refusal, and no code at all.
    let (url, cookie) = begin(&stack, "", &[]).await;
    let back = provider.sign_in(&url);
    let state = back.split("state=").nth(1).unwrap().split('&').next().unwrap();
    for changed in [
        back.replace("iss=https", "iss=http"),
        back.split("&iss=").next().unwrap().to_owned(),
        format!("{back}&state={state}"),
        format!("{back}&code=x"),
        format!("{back}&error=access_denied"),
        format!("/api/v1/auth/callback?state={state}"),
        "/api/v1/auth/callback".to_owned(),
    ] {
        refused(&come_back(&stack, &changed, &cookie).await);
    }
    // Too late, though the provider would still take the code.
    stack.pass_ms(10 * MINUTE_MS);
    refused(&come_back(&stack, &back, &cookie).await);
    stack.pass_ms(-10 * MINUTE_MS);
    browser(&stack, &come_back(&stack, &back, &cookie).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_configured_issuer_and_client_sign_people_in() {
    let mut provider = OidcProvider::start();
    let unavailable = async |stack: Stack| {
        let answer = stack.server.send("GET", LOGIN, &[HERE], "").await;
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.header("location").is_empty());
    };
    // Its document must name the issuer exactly as it is configured.
    unavailable(provider.stack(|auth| auth.issuer.push('/')).await).await;
    let nowhere = "https://127.0.0.1:1".to_owned();
    unavailable(provider.stack(|auth| auth.issuer = nowhere).await).await;
    // A wrong secret: the provider gives no token.
    let wrong = provider.dir.path().join("wrong");
    std::fs::write(&wrong, "wrong").unwrap();
    let stack = provider
        .stack(|auth| auth.client_secret_file = wrong.display().to_string())
        .await;
    let (url, cookie) = begin(&stack, "", &[]).await;
    let back = provider.sign_in(&url);
    refused(&come_back(&stack, &back, &cookie).await);
    // An ID token is no token for the API: it is for another audience.
    let stack = provider.stack(|auth| auth.client_id.clear()).await;
    for path in [LOGIN, "/api/v1/auth/callback?code=a&state=b"] {
        let answer = stack.server.send("GET", path, &[HERE], "").await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("receipts login-link"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_sign_in_leads_nowhere_else_and_begins_here_alone() {
    let stack = Stack::start().await;
    for parameter in ["return_to", "next", "redirect_uri", "url"] {
        let path = format!("{LOGIN}?{parameter}=https://evil.example");
        stack
            .server
            .send("GET", &path, &[HERE], "")
            .await
            .refused(400, "invalid_query");
    }
    stack
        .server
        .send("GET", &format!("{LOGIN}?fresh=1"), &[HERE], "")
        .await
        .refused(400, "invalid_query");
    for site in ["cross-site", "same-site", ""] {
        let answer = stack.server.send("GET", LOGIN, &[("sec-fetch-site", site)], "").await;
        answer.refused(403, "cross_site");
    }
    stack
        .server
        .send("GET", LOGIN, &[], "")
        .await
        .refused(403, "cross_site");
}

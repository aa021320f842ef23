//! A browser with a session: its cookie, and what its requests bring.

use accounts::{SignInMethod, User};
use serde_json::Value;

use crate::stack::{Answer, Stack};

pub(crate) const SESSION: &str = "/api/v1/auth/session";
/// Sent by a page of the same origin.
pub(crate) const HERE: (&str, &str) = ("sec-fetch-site", "same-origin");

/// A browser in which a user is signed in.
pub(crate) struct Browser {
    /// Value of the header `Cookie`.
    pub(crate) cookie: String,
    pub(crate) csrf_token: String,
}

impl Browser {
    /// A browser of a user who has just signed in.
    pub(crate) async fn start(stack: &Stack, user: &User) -> Self {
        let store = &stack.deps.accounts;
        let token = store.start_session(user, SignInMethod::Provider, store.now_ms(), None);
        Self::of(stack, format!("__Host-receipts={}", token.await.unwrap().reveal())).await
    }

    /// A browser that an answer gave a session.
    pub(crate) async fn signed_in(stack: &Stack, answer: &Answer) -> Self {
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, "/dashboard?session"),
            "{}",
            answer.text()
        );
        let cookie = answer.header("set-cookie");
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Strict");
        Self::of(stack, pair.to_owned()).await
    }

    /// A browser with this cookie.
    pub(crate) async fn of(stack: &Stack, cookie: String) -> Self {
        let answer = stack
            .server
            .send("GET", SESSION, &[HERE, ("cookie", &cookie)], "")
            .await;
        let csrf_token = answer.expect(200)["csrfToken"].as_str().unwrap().to_owned();
        Self { cookie, csrf_token }
    }

    /// Header fields of a request of the dashboard.
    pub(crate) fn headers(&self) -> [(&str, &str); 3] {
        [HERE, ("cookie", &self.cookie), ("x-csrf-token", &self.csrf_token)]
    }

    /// A request with a JSON body.
    pub(crate) async fn json(&self, stack: &Stack, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [&self.headers()[..], &[("content-type", "application/json")]].concat();
        stack.server.send(method, path, &headers, &body.to_string()).await
    }

    pub(crate) async fn ask(&self, stack: &Stack, method: &str, path: &str) -> Answer {
        stack.server.send(method, path, &self.headers(), "").await
    }
}

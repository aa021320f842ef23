//! The provider's keys by HTTPS, from a server that shares no code with us.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use publisher_api::{AuthConfig, Authority, PublisherConfig};
use serde_json::json;
use test_engines::Certificates;

use crate::provider::{Provider, claims, signed};
use crate::stack::Stack;

const ME: &str = "/api/v1/user/information";

/// Answers every request with what is in a file then, and says its port.
const SCRIPT: &str = r#"
const { readFileSync } = require('node:fs');
const [key, cert, file] = process.argv.slice(1);
const server = require('node:https').createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
  response.writeHead(200, { 'content-type': 'application/jwk-set+json' });
  response.end(readFileSync(file));
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit()).resume();
"#;

/// Gone when dropped, and with the test's process, whose end closes its standard input.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(certificates: &Certificates, file: &Path) -> Self {
        let mut child = Command::new("node")
            .args(["-e", SCRIPT])
            .args([&certificates.key, &certificates.certificate])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is needed: scripts/install-deps installs it");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_come_by_https_rotate_and_outlive_the_server() {
    let (provider, next) = (Provider::new(), Provider::new());
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path()).unwrap();
    let server = Server::start(&certificates, &provider.jwks_file());
    let outbound = outbound::OutboundClient::new(&outbound::Config {
        test_root_ca: Some(certificates.ca.clone()),
        test_allow_addresses: vec!["127.0.0.0/8".parse().unwrap()],
        test_https_port: Some(server.port),
        ..outbound::Config::default()
    });
    let outbound = outbound.unwrap();
    let auth = AuthConfig {
        jwks_file: String::new(),
        jwks_url: "https://127.0.0.1/jwks.json".to_owned(),
        ..provider.config()
    };
    let stack = Stack::start_with(PublisherConfig::default(), |deps| {
        deps.authority = Arc::new(Authority::new(&auth, folder.path(), &outbound).unwrap());
    })
    .await;
    for token in provider.one_of_each(&claims("anna")).iter().take(3) {
        stack.server.get(ME, token).await.expect(200);
    }
    // The next key, under a name that nobody knew.
    let mut key = next.jwks()["keys"][2].clone();
    key["kid"] = json!("next");
    std::fs::write(provider.jwks_file(), json!({"keys": [key]}).to_string()).unwrap();
    let new = signed(&json!({"alg": "EdDSA", "kid": "next"}), &claims("anna"), |text| {
        next.sign_ed(text)
    });
    stack.server.get(ME, &new).await.refused(401, "invalid_token");
    stack.pass_ms(10_000);
    stack.server.get(ME, &new).await.expect(200);
    stack
        .server
        .get(ME, &provider.token("anna"))
        .await
        .refused(401, "invalid_token");
    drop(server);
    stack.pass_ms(60_000);
    let unknown = signed(&json!({"alg": "EdDSA", "kid": "newer"}), &claims("anna"), |text| {
        next.sign_ed(text)
    });
    stack.server.get(ME, &unknown).await.refused(401, "invalid_token");
    stack.server.get(ME, &new).await.expect(200);
}

/// Told before anything starts, not at the first token.
#[tokio::test]
async fn a_url_that_may_not_be_asked_is_refused() {
    let provider = Provider::new();
    let outbound = outbound::OutboundClient::new(&outbound::Config::default()).unwrap();
    for url in [
        "https://127.0.0.1/jwks.json",
        "https://[::1]/",
        "http://id.example/",
        "https://id.example:8443/",
    ] {
        let auth = AuthConfig {
            jwks_file: String::new(),
            jwks_url: url.to_owned(),
            ..provider.config()
        };
        let refused = Authority::new(&auth, Path::new("."), &outbound).unwrap_err();
        assert!(refused.to_string().starts_with("auth.jwks_url: "), "{refused}");
    }
}

//! A small internet on this machine: names, an authority, and a web server that says for each host
//! and path what a test wants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbound::{Config, OutboundClient};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use test_engines::Dns;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Hosts that the web server has a certificate for.
const HOSTS: [&str; 7] = [
    "*.hang.test",
    "file.test",
    "lab.test",
    "other.test",
    "page.test",
    "shop.test",
    "www.file.test",
];

/// Heads of requests.
type Heads = Arc<Mutex<Vec<String>>>;
type Pages = Arc<Mutex<HashMap<String, Page>>>;

/// An answer.
#[derive(Clone, Default)]
pub(crate) struct Page {
    pub(crate) status: u16,
    /// Fields, each with its line's end.
    pub(crate) fields: String,
    pub(crate) body: String,
    /// Time before the answer.
    pub(crate) delay: Duration,
}

pub(crate) struct World {
    pub(crate) dns: Dns,
    pages: Pages,
    heads: Heads,
    port: u16,
    serving: JoinHandle<()>,
    folder: TempDir,
}

impl World {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("root.pem"), authority.pem()).unwrap();
        let pages = Pages::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Heads::default();
        let serving = tokio::spawn(serve(
            listener,
            acceptor(&authority),
            Arc::clone(&pages),
            Arc::clone(&heads),
        ));
        let world = Self {
            dns: Dns::start("").unwrap(),
            pages,
            heads,
            port,
            serving,
            folder,
        };
        world.texts(&[]);
        world
    }

    /// The TXT records there are, beside the hosts' addresses: name and text as a zone has it.
    pub(crate) fn texts(&self, texts: &[(&str, &str)]) {
        let hosts = HOSTS.iter().map(|host| format!("{host}. 0 IN A 127.0.0.1\n"));
        let texts = texts.iter().map(|(name, text)| format!("{name}. 0 IN TXT {text}\n"));
        self.dns.set(&hosts.chain(texts).collect::<String>()).unwrap();
    }

    /// Sets the answer of `host` at `path`.
    pub(crate) fn page(&self, host: &str, path: &str, status: u16, body: &str) {
        let page = Page {
            status,
            body: body.to_owned(),
            ..Page::default()
        };
        self.answer(host, path, page);
    }

    /// Sets an answer whole.
    pub(crate) fn answer(&self, host: &str, path: &str, page: Page) {
        self.pages.lock().unwrap().insert(format!("{host}{path}"), page);
    }

    /// Heads of the requests since the last time.
    pub(crate) fn heads(&self) -> Vec<String> {
        std::mem::take(&mut *self.heads.lock().unwrap())
    }

    pub(crate) fn client(&self) -> OutboundClient {
        let config = Config {
            dns_ms_max: 300,
            test_root_ca: Some(self.folder.path().join("root.pem")),
            test_resolver: Some(self.dns.address()),
            test_allow_addresses: vec!["127.0.0.1/32".parse().unwrap()],
            test_https_port: Some(self.port),
            ..Config::default()
        };
        OutboundClient::new(&config).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn acceptor(authority: &CertifiedIssuer<'static, KeyPair>) -> TlsAcceptor {
    let names: Vec<String> = HOSTS.iter().map(|host| (*host).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, authority)
        .unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Serves one request a connection, which is how checks ask.
async fn serve(listener: TcpListener, tls: TlsAcceptor, pages: Pages, heads: Heads) {
    let mut under_way = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, pages, heads) = (tls.clone(), Arc::clone(&pages), Arc::clone(&heads));
        under_way.spawn(async move {
            let Ok(mut socket) = tls.accept(stream).await else {
                return;
            };
            let mut head = Vec::new();
            while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                if socket.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let head = String::from_utf8(head).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let host = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned));
            let wanted = format!("{}{path}", host.unwrap_or_default().trim_end_matches(":443"));
            let page = pages.lock().unwrap().get(&wanted).cloned();
            heads.lock().unwrap().push(head);
            let missing = || Page {
                status: 404,
                ..Page::default()
            };
            let Page {
                status,
                fields,
                body,
                delay,
            } = page.unwrap_or_else(missing);
            tokio::time::sleep(delay).await;
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{fields}\r\n{body}",
                body.len()
            );
            let _ = socket.write_all(answer.as_bytes()).await;
            let _ = socket.shutdown().await;
        });
    }
}

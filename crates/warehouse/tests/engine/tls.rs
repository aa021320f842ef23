//! TLS to a server: whom we trust, and who we say we are. The server is the endpoint behind
//! something that ends TLS.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use warehouse::{Target, Warehouse, WarehouseConfig, WarehouseError};

use crate::harness::{PASSWORD, Receipt, USER, config, insert, position, run, tcp};

/// An authority with its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = directory.join(format!("{name}.pem"));
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    /// A certificate for a name, and its key.
    fn issue(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (certificate_file, key_file) = (
            directory.join(format!("{name}.crt")),
            directory.join(format!("{name}.key")),
        );
        std::fs::write(&certificate_file, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        (certificate_file, key_file)
    }
}

/// Ends TLS as a server that requests a certificate of the authority's.
fn acceptor(authority: &Authority, (certificate, key): &(PathBuf, PathBuf)) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(certificate).unwrap().map(Result::unwrap);
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&authority.file).unwrap())
        .unwrap();
    let provider = Arc::new(default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .build()
        .unwrap();
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(chain.collect(), PrivateKeyDer::from_pem_file(key).unwrap())
        .unwrap();
    TlsAcceptor::from(Arc::new(server))
}

/// Puts TLS before the endpoint, for each connection the acceptor of that moment. Returns its port.
async fn serve(acceptor: Arc<Mutex<TlsAcceptor>>) -> u16 {
    let endpoint = tcp().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.lock().unwrap().clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut inner = TcpStream::connect(endpoint).await?;
                tokio::io::copy_bidirectional(&mut stream, &mut inner).await
            });
        }
    });
    port
}

#[test]
fn a_server_is_trusted_by_its_authority_and_trusts_us_by_our_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new(directory.path(), "ours");
    let other = Authority::new(directory.path(), "other");
    let server = ours.issue(directory.path(), "localhost");
    let client = ours.issue(directory.path(), "verifier");
    run(async {
        let port = serve(Arc::new(Mutex::new(acceptor(&ours, &server)))).await;
        let base = WarehouseConfig {
            url: Some(format!("https://localhost:{port}")),
            user: Some(USER.to_owned()),
            password: Some(PASSWORD.into()),
            ..config()
        };
        let with = |ca: &Authority, certificate: bool, host: &str| {
            let url = format!("https://{host}:{port}");
            let config = WarehouseConfig {
                url: Some(url.clone()),
                tls_ca_file: Some(ca.file.clone()),
                tls_certificate_file: certificate.then(|| client.0.clone()),
                tls_key_file: certificate.then(|| client.1.clone()),
                ..base.clone()
            };
            async move { Warehouse::connect(&Target::Url(url), &config).await }
        };
        let warehouse = with(&ours, true, "localhost").await.unwrap();
        warehouse.migrate().await.unwrap();
        insert(&warehouse, &[(Receipt::new(1), position(0, 0, 0))]).await;
        assert_eq!(warehouse.totals().await.unwrap().receipts, 1);

        for (refused, why) in [
            (with(&other, true, "localhost").await, "another authority's server"),
            (with(&ours, true, "127.0.0.1").await, "a certificate for another name"),
            (with(&ours, false, "localhost").await, "a client without a certificate"),
        ] {
            let error = refused.map(drop).unwrap_err();
            assert!(matches!(error, WarehouseError::Unavailable(_)), "{why}: {error}");
        }
    });
}

/// Server and client change to another authority while the client runs.
#[test]
fn files_that_are_read_again_are_for_further_connections() {
    let directory = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| {
        let directory = directory.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        let authority = Authority::new(&directory, "ca");
        let (server, client) = (
            authority.issue(&directory, "localhost"),
            authority.issue(&directory, "client"),
        );
        (authority, server, client)
    });
    let mounted = |name: &str| directory.path().join(name);
    let mount = |(authority, _, client): &(Authority, _, (PathBuf, PathBuf))| {
        for (from, to) in [(&authority.file, "ca"), (&client.0, "crt"), (&client.1, "key")] {
            std::fs::copy(from, mounted(to)).unwrap();
        }
    };
    mount(&before);
    run(async {
        let server = Arc::new(Mutex::new(acceptor(&before.0, &before.1)));
        let url = format!("https://localhost:{}", serve(Arc::clone(&server)).await);
        let config = WarehouseConfig {
            url: Some(url.clone()),
            user: Some(USER.to_owned()),
            password: Some(PASSWORD.into()),
            tls_ca_file: Some(mounted("ca")),
            tls_certificate_file: Some(mounted("crt")),
            tls_key_file: Some(mounted("key")),
            ..config()
        };
        let warehouse = Warehouse::connect(&Target::Url(url), &config).await.unwrap();
        *server.lock().unwrap() = acceptor(&after.0, &after.1);
        // Over the connection of before.
        warehouse.ping().await.unwrap();

        std::fs::write(mounted("ca"), "no certificate").unwrap();
        let error = warehouse.reload_tls().unwrap_err().to_string();
        assert!(error.contains("warehouse.tls_ca_file"), "{error}");
        warehouse.ping().await.unwrap();
        // Longer than a connection rests: the next one is new, and of the files of before.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let error = warehouse.ping().await.unwrap_err();
        assert!(matches!(error, WarehouseError::Unavailable(_)), "{error}");

        mount(&after);
        warehouse.outside().reload_tls().unwrap();
        warehouse.ping().await.unwrap();
    });
}

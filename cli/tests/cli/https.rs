//! `receipts send` over TLS, with an authority of the test's.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::answering::{accepted, answering};
use crate::command::{key, ndjson, receipt, receipts, sign};
use test_engines::Certificates;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Ends TLS before the server at `to`. Returns its port; ends with the test's process.
fn tls_before(certificates: &Certificates, to: SocketAddr) -> u16 {
    let chain = CertificateDer::pem_file_iter(&certificates.certificate).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let private = PrivateKeyDer::from_pem_file(&certificates.key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (port, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            port.send(listener.local_addr().unwrap().port()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut tls) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut plain = TcpStream::connect(to).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut tls, &mut plain).await;
                });
            }
        });
    });
    wait.recv().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn https_trusts_the_given_authority_and_names_the_option_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let (key, public) = key(dir.path(), "Ed25519");
    let signed = ndjson(&sign(&key, &[receipt(&public), receipt(&public)]));
    let (plain, came) = answering(|_| accepted());
    let to = plain.strip_prefix("http://").unwrap().parse().unwrap();
    let folders = ["ours", "other"].map(|name| dir.path().join(name));
    let [ours, other] = folders.map(|folder| {
        std::fs::create_dir(&folder).unwrap();
        Certificates::make(&folder).unwrap()
    });
    let port = tls_before(&ours, to);
    let send = |host: &str, cacert: Option<&Path>| {
        let url = format!("https://{host}:{port}");
        let mut args = vec!["send", "--url", &url, "--key", path(&key), "--json", "--attempts", "2"];
        args.extend(cacert.iter().flat_map(|file| ["--cacert", path(file)]));
        receipts(&args, signed.as_bytes())
    };

    let summary = send("localhost", Some(&ours.ca)).expect(0).json();
    assert_eq!(summary["accepted"]["receipts"], 2);
    send("127.0.0.1", Some(&ours.ca)).expect(0);
    assert_eq!(came.try_iter().count(), 4);

    for cacert in [Some(other.ca.as_path()), None] {
        let ran = send("localhost", cacert).expect(3);
        let line = ran.stderr.lines().find(|line| line.contains("error:")).unwrap();
        assert!(
            line.contains("isn't trusted") && line.contains("--cacert FILE"),
            "{line}"
        );
        assert_eq!(ran.json()["retries"], 0, "a certificate isn't better at the next try");
    }
    let named_otherwise = send("localhost.localdomain", Some(&ours.ca));
    assert!(named_otherwise.code == 3, "{}", named_otherwise.stderr);

    let ran = send("localhost", Some(&key)).expect(2);
    assert!(
        ran.stderr.contains("--cacert") && ran.stderr.contains("PEM certificate"),
        "{}",
        ran.stderr
    );
    let ran = receipts(
        &["send", "--url", &plain, "--key", path(&key), "--cacert", path(&ours.ca)],
        signed.as_bytes(),
    );
    assert!(ran.expect(2).stderr.contains("https://"), "an authority without TLS");
    assert_eq!(came.try_iter().count(), 0, "nothing was sent without trust");
}

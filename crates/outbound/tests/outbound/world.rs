//! A small internet on this machine: an authority, names, servers.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use outbound::{Config, OutboundClient};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use test_engines::Dns;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Zone of the tests' names. Servers listen on 127.0.0.1 and 127.0.0.2, which the tests'
/// configurations allow.
const ZONE: &str = r#"
good.test. 0 IN A 127.0.0.1
alias.test. 0 IN CNAME good.test.
other.test. 0 IN A 127.0.0.1
dead.test. 0 IN A 127.0.0.2
half.test. 0 IN A 127.0.0.2
half.test. 0 IN A 127.0.0.1
mixed.test. 0 IN A 127.0.0.1
mixed.test. 0 IN A 10.0.0.1
mixed6.test. 0 IN A 127.0.0.1
mixed6.test. 0 IN AAAA fd00::1
private.test. 0 IN A 192.168.1.1
metadata.test. 0 IN A 169.254.169.254
mapped.test. 0 IN AAAA ::ffff:127.0.0.1
nat64.test. 0 IN AAAA 64:ff9b::a9fe:a9fe
loopback6.test. 0 IN AAAA ::1
zero.test. 0 IN A 0.0.0.0
hidden.test. 0 IN CNAME private.test.
text.test. 0 IN TXT "service-verification=abc"
quoted.test. 0 IN TXT "\"service-verification=abc\""
split.test. 0 IN TXT "service-" "verification=" "abc"
many.test. 0 IN TXT "one"
many.test. 0 IN TXT "two" "2"
many.test. 0 IN TXT "\255"
textalias.test. 0 IN CNAME textalias2.test.
textalias2.test. 0 IN CNAME many.test.
dangling.test. 0 IN CNAME nowhere.test.
loop.test. 0 IN CNAME pool.test.
pool.test. 0 IN CNAME loop.test.
"#;

/// Shared by the tests of this binary.
pub struct World {
    pub dns: Dns,
    authority: CertifiedIssuer<'static, KeyPair>,
    pub root: PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    pub fn get() -> &'static Self {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
            let root = folder.path().join("root.pem");
            std::fs::write(&root, authority.pem()).unwrap();
            let records: String = ZONE.to_owned() + &long_texts();
            Self {
                dns: Dns::start(&records).unwrap(),
                authority,
                root,
                _folder: folder,
            }
        })
    }

    /// A server's side of TLS with a certificate for `names`.
    pub fn tls(&self, names: &[&str]) -> TlsAcceptor {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.tls_of(CertificateParams::new(names).unwrap())
    }

    pub fn tls_of(&self, params: CertificateParams) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Settings of a client that trusts the authority, queries the DNS server, may reach 127.0.0.1
    /// and 127.0.0.2, and takes `server`'s port for 443.
    pub fn config(&self, server: SocketAddr) -> Config {
        Config {
            test_root_ca: Some(self.root.clone()),
            test_resolver: Some(self.dns.address()),
            test_allow_addresses: vec!["127.0.0.1/32".parse().unwrap(), "127.0.0.2/32".parse().unwrap()],
            test_https_port: Some(server.port()),
            ..Config::default()
        }
    }
}

/// More TXT than a datagram carries: the answer comes over TCP.
fn long_texts() -> String {
    (0..40)
        .map(|number| format!("long.test. 0 IN TXT \"{number:03}{}\"\n", "x".repeat(200)))
        .collect()
}

/// A client of the world that takes `server`'s port for 443.
pub fn client(server: SocketAddr) -> OutboundClient {
    OutboundClient::new(&World::get().config(server)).unwrap()
}

/// An address nobody listens on.
pub fn nobody() -> SocketAddr {
    let [port] = test_engines::free_ports().unwrap();
    SocketAddr::from((IpAddr::from([127, 0, 0, 1]), port))
}

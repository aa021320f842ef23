//! A certificate authority for one test, and a server's certificate from it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::engine::run;

/// PEM files made by openssl: P-256, valid for a day, for `localhost` and 127.0.0.1.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// The authority's certificate: what a client must trust.
    pub ca: PathBuf,
    /// The server's certificate.
    pub certificate: PathBuf,
    /// Private key, PKCS#8.
    pub key: PathBuf,
}

impl Certificates {
    /// Makes them in `folder`.
    ///
    /// # Errors
    ///
    /// openssl is missing or refuses.
    pub fn make(folder: &Path) -> anyhow::Result<Self> {
        let made = Self {
            ca: folder.join("ca.pem"),
            certificate: folder.join("server.pem"),
            key: folder.join("server.key"),
        };
        let ca_key = folder.join("ca.key");
        let request = |name: &str, key: &Path, certificate: &Path| {
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
            openssl.args(["-nodes", "-days", "1", "-subj", name, "-keyout"]);
            openssl.arg(key).arg("-out").arg(certificate);
            openssl
        };
        run(request("/CN=receipts test authority", &ca_key, &made.ca)
            .args(["-addext", "keyUsage=critical,keyCertSign,cRLSign"]))?;
        run(request("/CN=localhost", &made.key, &made.certificate)
            .arg("-CA")
            .arg(&made.ca)
            .arg("-CAkey")
            .arg(&ca_key)
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-addext", "extendedKeyUsage=serverAuth"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]))?;
        Ok(made)
    }
}

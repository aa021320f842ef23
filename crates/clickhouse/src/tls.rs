//! TLS towards a ClickHouse server.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Files of certificates and keys, in PEM.
pub(crate) struct TlsFiles<'a> {
    /// Authorities to trust; without one, the system's.
    pub(crate) ca: Option<&'a Path>,
    /// The client's certificate.
    pub(crate) certificate: Option<&'a Path>,
    /// The certificate's key.
    pub(crate) key: Option<&'a Path>,
}

/// Settings of the TLS client: whom it trusts and who it is.
///
/// # Errors
/// A file that can't be read or holds something else, in words that name the key.
pub(crate) fn client_config(files: &TlsFiles<'_>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = files.ca {
        for certificate in certificates("tls_ca_file", path)? {
            let added = roots.add(certificate);
            added.map_err(|error| fault("tls_ca_file", path, &error.to_string()))?;
        }
    } else {
        // What of them can't be read is missing; a server that needs it then fails with a clear
        // error.
        let (good, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if good == 0 {
            return Err("warehouse.tls_ca_file is needed: this system has no certificates to trust".to_owned());
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("warehouse.url: TLS can't be used: {error}"))?
        .with_root_certificates(roots);
    let built = match (files.certificate, files.key) {
        (Some(certificate), Some(key)) => {
            let chain = certificates("tls_certificate_file", certificate)?;
            let private = PrivateKeyDer::from_pem_file(key);
            let private = private.map_err(|error| fault("tls_key_file", key, &error.to_string()))?;
            builder
                .with_client_auth_cert(chain, private)
                .map_err(|error| fault("tls_certificate_file", certificate, &error.to_string()))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(built))
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(fault(key, path, "it holds no PEM certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(fault(key, path, &error.to_string())),
    }
}

fn fault(key: &str, path: &Path, what: &str) -> String {
    format!("warehouse.{key}: {} can't be used: {what}", path.display())
}

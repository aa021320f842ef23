//! TLS towards a ClickHouse server.

use std::path::Path;
use std::sync::Arc;

use http_client::{TrustError, trust};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

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
    let roots = trust::roots(files.ca).map_err(|error| match error {
        TrustError::NoneInSystem => format!("warehouse.tls_ca_file is needed: {error}"),
        error => format!("warehouse.tls_ca_file: {error}"),
    })?;
    let builder = trust::client_config(roots).map_err(|error| format!("warehouse.url: {error}"))?;
    let built = match (files.certificate, files.key) {
        (Some(certificate), Some(key)) => {
            let chain = trust::certificates(certificate);
            let chain = chain.map_err(|error| format!("warehouse.tls_certificate_file: {error}"))?;
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

fn fault(key: &str, path: &Path, what: &str) -> String {
    format!("warehouse.{key}: {} can't be used: {what}", path.display())
}

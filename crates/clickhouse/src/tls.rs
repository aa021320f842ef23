//! TLS towards a ClickHouse server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http_client::{StreamConnector, TrustError, trust};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Files of certificates and keys, in PEM.
#[derive(Debug, Clone)]
pub(crate) struct TlsFiles {
    /// Authorities to trust; without one, the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The client's certificate.
    pub(crate) certificate: Option<PathBuf>,
    /// The certificate's key.
    pub(crate) key: Option<PathBuf>,
}

/// A connector whose files can be read again.
#[derive(Clone)]
pub(crate) struct ReloadableTls {
    pub(crate) files: TlsFiles,
    pub(crate) connector: StreamConnector,
}

impl ReloadableTls {
    /// Reads the files again, for further connections.
    ///
    /// # Errors
    /// As [`client_config`]; the connector stays as it is then.
    pub(crate) fn reload(&self) -> Result<(), String> {
        self.connector.replace_tls(client_config(&self.files)?);
        Ok(())
    }
}

impl fmt::Debug for ReloadableTls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(out)
    }
}

/// Settings of the TLS client: whom it trusts and who it is.
///
/// # Errors
/// A file that can't be read or holds something else, in words that name the key.
pub(crate) fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, String> {
    let roots = trust::roots(files.ca.as_deref()).map_err(|error| match error {
        TrustError::NoneInSystem => format!("warehouse.tls_ca_file is needed: {error}"),
        error => format!("warehouse.tls_ca_file: {error}"),
    })?;
    let builder = trust::client_config(roots).map_err(|error| format!("warehouse.url: {error}"))?;
    let built = match (&files.certificate, &files.key) {
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

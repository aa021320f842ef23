//! Certificate authorities: the system's, or those of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, ClientConfig, ConfigBuilder, RootCertStore};

/// Why nobody can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file that can't be read or contains something else.
    #[error("{} can't be used: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        reason: String,
    },
    /// The system has no authorities.
    #[error("this system has no certificates to trust")]
    NoneInSystem,
    /// TLS has no usable settings.
    #[error("TLS can't be used: {0}")]
    Tls(#[from] rustls::Error),
}

impl TrustError {
    fn of_file(path: &Path, reason: &str) -> Self {
        Self::File {
            path: path.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// Reads the authorities of a PEM file, or the system's without one. Those of the system's that
/// can't be parsed are left out: a server that needs one fails with a clear error.
///
/// # Errors
/// [`TrustError::File`], [`TrustError::NoneInSystem`].
pub fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        let (good, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if good == 0 {
            Err(TrustError::NoneInSystem)
        } else {
            Ok(roots)
        };
    };
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| TrustError::of_file(path, &error.to_string()))?;
    }
    Ok(roots)
}

/// Reads the certificates of a PEM file, at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(TrustError::of_file(path, "it has no PEM certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(TrustError::of_file(path, &error.to_string())),
    }
}

/// Begins the configuration of a client that trusts `roots`.
pub fn client_config(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TrustError> {
    Ok(
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots),
    )
}

//! Whom we trust.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::Config;
use crate::error::SetupError;

/// The system's authorities, or the ones that a test gave; HTTP/1.1 only, no client certificate.
pub(crate) fn connector(config: &Config) -> Result<TlsConnector, SetupError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &config.test_root_ca {
        for certificate in certificates(path)? {
            roots
                .add(certificate)
                .map_err(|error| fault(path, &error.to_string()))?;
        }
    } else {
        // What of them can't be read is missing; a server that needs it then fails with a clear
        // error.
        let (good, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if good == 0 {
            tracing::warn!("this system has no certificates to trust: every request to the outside will fail");
        }
    }
    let mut tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError(format!("test_root_ca: TLS can't be used: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(tls)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(fault(path, "it holds no PEM certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(fault(path, &error.to_string())),
    }
}

fn fault(path: &Path, what: &str) -> SetupError {
    SetupError(format!("test_root_ca: {} can't be used: {what}", path.display()))
}

//! Whom we trust.

use std::sync::Arc;

use http_client::{TrustError, trust};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::RootCertStore;

use crate::Config;
use crate::error::SetupError;

/// The system's authorities, or the ones that a test gave; HTTP/1.1 only, no client certificate.
pub(crate) fn connector(config: &Config) -> Result<TlsConnector, SetupError> {
    let fault = |error: TrustError| SetupError(format!("test_root_ca: {error}"));
    let roots = match trust::roots(config.test_root_ca.as_deref()) {
        Err(error @ TrustError::NoneInSystem) => {
            tracing::warn!("{error}: every request to the outside will fail");
            RootCertStore::empty()
        }
        roots => roots.map_err(fault)?,
    };
    let mut tls = trust::client_config(roots).map_err(fault)?.with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(tls)))
}

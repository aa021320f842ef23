//! Certificate authorities: the system's, or those of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spki::der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use spki::der::{self, Decode, Reader, SliceReader, Tag, Tagged};
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

/// When the first of a PEM file's certificates ends, in seconds since the Unix epoch.
pub fn first_end_s(path: &Path) -> Result<u64, TrustError> {
    let ends = certificates(path)?
        .iter()
        .map(|certificate| end_s(certificate))
        .collect::<der::Result<Vec<_>>>();
    let ends = ends.map_err(|error| TrustError::of_file(path, &error.to_string()))?;
    Ok(ends.into_iter().min().unwrap_or_default())
}

/// `notAfter` of a certificate (RFC 5280, section 4.1), in seconds since the Unix epoch.
fn end_s(certificate: &[u8]) -> der::Result<u64> {
    let certificate = AnyRef::from_der(certificate)?;
    let signed: AnyRef<'_> = SliceReader::new(certificate.value())?.decode()?;
    let mut fields = SliceReader::new(signed.value())?;
    let first: AnyRef<'_> = fields.decode()?;
    // Certificates of version 1 begin with the serial number.
    let before_validity = if first.tag().is_context_specific() { 3 } else { 2 };
    for _ in 0..before_validity {
        fields.tlv_bytes()?;
    }
    let validity: AnyRef<'_> = fields.decode()?;
    let mut times = SliceReader::new(validity.value())?;
    times.tlv_bytes()?;
    let not_after: AnyRef<'_> = times.decode()?;
    Ok(match not_after.tag() {
        Tag::UtcTime => not_after.decode_as::<UtcTime>()?.to_unix_duration(),
        _ => not_after.decode_as::<GeneralizedTime>()?.to_unix_duration(),
    }
    .as_secs())
}

/// Begins the configuration of a client that trusts `roots`.
pub fn client_config(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TrustError> {
    Ok(
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_file_ends_with_its_first_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chain.pem");
        let pem = |year| {
            let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 1, 2);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
        };
        // The first has another form of time: two digits of the year reach to 2049.
        std::fs::write(&file, pem(2060) + &pem(2030) + &pem(2031)).unwrap();
        assert_eq!(first_end_s(&file).unwrap(), 1_893_542_400);
        std::fs::write(&file, pem(2060)).unwrap();
        assert_eq!(first_end_s(&file).unwrap(), 2_840_227_200);
        std::fs::write(&file, "nothing").unwrap();
        assert!(first_end_s(&file).is_err());
    }
}

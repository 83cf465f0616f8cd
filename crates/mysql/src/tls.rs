//! The server's side of TLS: its certificate and key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// A certificate with its key, ready for connections. Never prints the key.
#[derive(Clone)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity(..)")
    }
}

/// Reason why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is missing or is not PEM of the expected kind.
    #[error("{what} {path:?}: {source}; expected PEM")]
    Pem {
        /// Certificate chain or private key.
        what: &'static str,
        /// The file.
        path: std::path::PathBuf,
        /// The fault.
        source: rustls::pki_types::pem::Error,
    },
    /// The certificate file holds no certificate.
    #[error("certificate {path:?}: no certificate in it")]
    NoCertificate {
        /// The file.
        path: std::path::PathBuf,
    },
    /// Certificate and key do not fit each other, or are of a kind that is not supported.
    #[error("certificate and key: {0}")]
    Identity(#[from] rustls::Error),
    /// No certificate could be made.
    #[error("self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
}

impl TlsIdentity {
    /// Makes a new self-signed certificate for `names` (DNS names or addresses), kept in memory only. Clients can
    /// encrypt with it, but not verify it.
    ///
    /// # Errors
    /// [`TlsError::SelfSigned`] if a certificate cannot carry a name; [`TlsError::Identity`] if the certificate cannot
    /// be used.
    pub fn self_signed(names: &[&str]) -> Result<Self, TlsError> {
        let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let made = rcgen::generate_simple_self_signed(names)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Self::new(vec![made.cert.der().clone()], key)
    }

    /// Reads the certificate chain (leaf first) and the private key from PEM files.
    ///
    /// # Errors
    /// [`TlsError::Pem`] if a file cannot be read, [`TlsError::NoCertificate`] if the first has no certificate,
    /// [`TlsError::Identity`] if the two do not fit each other.
    pub fn from_pem_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let pem = |what, path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Pem { what, path, source }
        };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(pem("certificate", certificate))?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate { path: certificate.to_owned() });
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(pem("private key", key))?;
        Self::new(chain, key)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Self { config: Arc::new(config) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_in_errors() {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        let error = TlsIdentity::from_pem_files(&certificate, &key).unwrap_err().to_string();
        assert!(error.starts_with("certificate \"") && error.contains("cert.pem"), "{error}");
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, "nothing").unwrap();
        let error = TlsIdentity::from_pem_files(&certificate, &key).unwrap_err().to_string();
        assert!(error.starts_with("private key \"") && error.contains("key.pem"), "{error}");
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        TlsIdentity::from_pem_files(&certificate, &key).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&key, other.signing_key.serialize_pem()).unwrap();
        assert!(matches!(TlsIdentity::from_pem_files(&certificate, &key), Err(TlsError::Identity(_))));
        std::fs::write(&certificate, "").unwrap();
        assert!(matches!(TlsIdentity::from_pem_files(&certificate, &key), Err(TlsError::NoCertificate { .. })));
        assert!(TlsIdentity::self_signed(&["localhost", "127.0.0.1"]).is_ok());
    }
}

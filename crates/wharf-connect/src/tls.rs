//! TLS (rustls) with the system's root certificates, additional roots and client certificates.

use std::{fmt, io, sync::Arc};

use tokio::sync::OnceCell;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, CertificateError, ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::{ConnectionError, ConnectionErrorKind, Origin, TlsProblem, stream::StreamLayer};

/// Client certificate and private key, for mutual TLS.
///
/// ```
/// use wharf_connect::TlsIdentity;
///
/// let error = TlsIdentity::from_pem("no certificate", "no key").unwrap_err();
/// assert!(error.to_string().contains("no certificate"));
/// ```
#[derive(Clone)]
pub struct TlsIdentity(Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>);

impl TlsIdentity {
    /// Reads a certificate with its chain, and its private key.
    ///
    /// # Errors
    /// If one of them is missing.
    pub fn from_pem(certificates: &str, key: &str) -> Result<TlsIdentity, ConnectionError> {
        let certificates = certificates_in(certificates)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| {
            ConnectionError::settings("no private key found in the PEM text").because(error)
        })?;
        Ok(TlsIdentity(Arc::new((certificates, key))))
    }
}

/// Omits the key.
impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsIdentity").field(&self.0.0.len()).finish()
    }
}

/// TLS configuration. The system's root certificates are loaded on first use, which takes milliseconds.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    config: Arc<OnceCell<Arc<ClientConfig>>>,
    /// Trusted beside the system's, or instead of them.
    roots: Vec<CertificateDer<'static>>,
    without_system_roots: bool,
    identity: Option<TlsIdentity>,
    /// Application protocols (ALPN).
    protocols: Vec<Vec<u8>>,
}

impl TlsSettings {
    /// A copy that is loaded anew.
    fn changed(&self, change: impl FnOnce(&mut TlsSettings)) -> TlsSettings {
        let mut settings = TlsSettings { config: Arc::default(), ..self.clone() };
        change(&mut settings);
        settings
    }

    pub(crate) fn with_roots(&self, pem: &str) -> Result<TlsSettings, ConnectionError> {
        let roots = certificates_in(pem)?;
        let mut valid = RootCertStore::empty();
        for root in &roots {
            valid.add(root.clone()).map_err(|error| {
                let problem = format!("the PEM text contains an invalid certificate: {error}");
                ConnectionError::settings(problem).because(error)
            })?;
        }
        Ok(self.changed(|it| it.roots.extend(roots)))
    }

    pub(crate) fn without_system_roots(&self) -> TlsSettings {
        self.changed(|it| it.without_system_roots = true)
    }

    pub(crate) fn with_identity(&self, identity: TlsIdentity) -> TlsSettings {
        self.changed(|it| it.identity = Some(identity))
    }

    pub(crate) fn with_protocols(&self, protocols: &[&[u8]]) -> TlsSettings {
        self.changed(|it| it.protocols = protocols.iter().map(|it| it.to_vec()).collect())
    }

    /// Loads the configuration, once.
    pub(crate) async fn load(&self) -> Result<Arc<ClientConfig>, ConnectionError> {
        let load = || async {
            let settings = self.clone();
            let loading = tokio::task::spawn_blocking(move || settings.load_config());
            loading
                .await
                .map_err(|error| ConnectionError::settings(error.to_string()).because(error))?
        };
        self.config.get_or_try_init(load).await.cloned()
    }

    /// Encrypts a connection to `origin`.
    pub(crate) async fn encrypt(
        &self,
        origin: &Origin,
        stream: StreamLayer,
    ) -> Result<TlsStream<StreamLayer>, ConnectionError> {
        let config = self.load().await?;
        let name = ServerName::try_from(origin.host()).map_err(|error| {
            ConnectionError::settings(format!("{origin}: {error}")).because(error)
        })?;
        let connected = TlsConnector::from(config).connect(name, stream).await;
        connected.map_err(|error| handshake_error(origin, &error).because(error))
    }

    fn load_config(&self) -> Result<Arc<ClientConfig>, ConnectionError> {
        let invalid =
            |error: rustls::Error| ConnectionError::settings(error.to_string()).because(error);
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_root_certificates(self.root_store()?);
        let mut config = match self.identity.as_ref().map(|it| &*it.0) {
            None => builder.with_no_client_auth(),
            Some((certificates, key)) => builder
                .with_client_auth_cert(certificates.clone(), key.clone_key())
                .map_err(invalid)?,
        };
        config.alpn_protocols.clone_from(&self.protocols);
        Ok(Arc::new(config))
    }

    fn root_store(&self) -> Result<RootCertStore, ConnectionError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.roots.iter().cloned());
        if self.without_system_roots {
            return match roots.is_empty() {
                true => Err(ConnectionError::settings("no valid root certificate is given")),
                false => Ok(roots),
            };
        }
        let found = rustls_native_certs::load_native_certs();
        // Systems have certificates that not every parser accepts.
        roots.add_parsable_certificates(found.certs);
        if !roots.is_empty() {
            return Ok(roots);
        }
        let why = found.errors.first().map_or(String::new(), |error| format!(": {error}"));
        let problem = ConnectionError::settings(format!(
            "no root certificates found on this system{why}; set SSL_CERT_FILE, or name a certificate"
        ));
        Err(match found.errors.into_iter().next() {
            Some(error) => problem.because(error),
            None => problem,
        })
    }
}

fn certificates_in(pem: &str) -> Result<Vec<CertificateDer<'static>>, ConnectionError> {
    let none = || ConnectionError::settings("no certificate found in the PEM text");
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.map_err(|error| none().because(error))?;
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

/// Converts the error of a handshake, with advice.
fn handshake_error(origin: &Origin, error: &io::Error) -> ConnectionError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let problem = match (inner, error.kind()) {
        (Some(rustls::Error::InvalidMessage(_)), _) => TlsProblem::NotTls,
        (None, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => TlsProblem::Closed,
        (Some(rustls::Error::AlertReceived(_)), _) => TlsProblem::Rejected,
        (Some(rustls::Error::InvalidCertificate(error)), _) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                TlsProblem::UnknownIssuer
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsProblem::WrongName
            }
            _ => TlsProblem::Other,
        },
        _ => TlsProblem::Other,
    };
    let plain = origin.unencrypted();
    let message = match problem {
        TlsProblem::NotTls => {
            format!("the server at {origin} does not speak TLS; try {plain}")
        }
        TlsProblem::Closed => format!(
            "{origin} ended the TLS handshake ({error}); if it does not speak TLS, try {plain}"
        ),
        TlsProblem::Rejected => format!(
            "{origin} rejected the TLS handshake ({error}); it may require a client certificate"
        ),
        _ if matches!(inner, Some(rustls::Error::InvalidCertificate(_))) => {
            format!("{origin} has no trusted certificate ({error})")
        }
        _ => format!("the TLS handshake with {origin} failed ({error})"),
    };
    ConnectionError::new(ConnectionErrorKind::Tls(problem), message)
}

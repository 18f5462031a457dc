//! TLS (rustls) with the system's root certificates, additional roots and client certificates.

use std::{io, sync::Arc};

use tokio::{net::TcpStream, sync::OnceCell};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use super::FetchError;

/// TLS configuration. The system's root certificates are loaded on first use, which takes milliseconds.
#[derive(Clone, Default)]
pub(super) struct TlsSettings {
    config: Arc<OnceCell<Arc<ClientConfig>>>,
    roots: Vec<CertificateDer<'static>>,
    identity: Option<Arc<TlsIdentity>>,
}

/// Client certificate and private key.
struct TlsIdentity {
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TlsSettings {
    pub(super) fn with_roots(&self, pem: &str) -> Result<TlsSettings, FetchError> {
        let mut trust = TlsSettings { config: Arc::default(), ..self.clone() };
        trust.roots.extend(certificates(pem)?);
        Ok(trust)
    }

    pub(super) fn with_identity(&self, pem: &str, key: &str) -> Result<TlsSettings, FetchError> {
        let certificates = certificates(pem)?;
        let no_key = |_| FetchError::Url("no private key found in the PEM text".into());
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(no_key)?;
        let identity = Some(Arc::new(TlsIdentity { certificates, key }));
        Ok(TlsSettings { config: Arc::default(), identity, ..self.clone() })
    }

    pub(super) async fn connect(
        &self,
        name: String,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let load = || async {
            let trust = self.clone();
            let loading = tokio::task::spawn_blocking(move || trust.load_config());
            loading.await.map_err(io::Error::other)?
        };
        let config = self.config.get_or_try_init(load).await?.clone();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        TlsConnector::from(config).connect(name, stream).await
    }

    fn load_config(&self) -> io::Result<Arc<ClientConfig>> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        roots.add_parsable_certificates(self.roots.iter().cloned());
        if roots.is_empty() {
            let why = found.errors.first().map_or(String::new(), |error| format!(": {error}"));
            return Err(io::Error::other(format!(
                "no root certificates found on this system{why}; set SSL_CERT_FILE"
            )));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some(identity) => config
                .with_client_auth_cert(identity.certificates.clone(), identity.key.clone_key())
                .map_err(io::Error::other)?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, FetchError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(FetchError::Url("no certificate found in the PEM text".into())),
    }
}

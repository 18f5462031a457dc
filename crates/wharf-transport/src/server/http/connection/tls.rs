//! TLS with rustls.

use std::{fmt, io, path::Path, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        DigitallySignedStruct, DistinguishedName, Error as TlsError, RootCertStore, ServerConfig,
        SignatureScheme,
        client::danger::HandshakeSignatureValid,
        crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
        server::{
            WebPkiClientVerifier,
            danger::{ClientCertVerified, ClientCertVerifier},
        },
    },
    server::TlsStream,
};
use wharf_model::ClientCertificate;

use crate::server::http::connection::NegotiatedProtocol;

/// Server certificate and key, and the policy for client certificates.
#[derive(Clone)]
pub struct Tls {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads a certificate chain and its key from PEM files.
    ///
    /// # Errors
    /// If the files cannot be read, contain no certificate or no key, or do not match.
    pub fn from_pem_files(
        certificates: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> io::Result<Tls> {
        let (certificates, key) = (certificates.as_ref(), key.as_ref());
        Tls::from_pem(&read(certificates)?, &read(key)?).map_err(|error| {
            let files = format!("{} and {}", certificates.display(), key.display());
            io::Error::new(error.kind(), format!("{files}: {error}"))
        })
    }

    /// Parses a certificate chain and its key from PEM.
    ///
    /// # Errors
    /// If there is no certificate or no key, or they do not match.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> io::Result<Tls> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(invalid_data)?;
        if chain.is_empty() {
            return Err(invalid_data("there is no certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| invalid_data("there is no private key"))?;
        Tls::assemble(chain, Arc::new(key), None)
    }

    /// Requests client certificates that are signed by one of these roots (PEM). A client without a certificate
    /// is still served, because the authenticator decides if one is required. A client with a certificate of
    /// another issuer is rejected.
    ///
    /// The certificate is in the extensions of each request as [`ClientCertificate`]: a token that is bound to
    /// it (RFC 8705, mutual TLS) is accepted only with it.
    ///
    /// # Errors
    /// If there is no certificate.
    pub fn trust_clients(self, roots: &[u8]) -> io::Result<Tls> {
        let mut store = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(roots) {
            store.add(root.map_err(invalid_data)?).map_err(invalid_data)?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider);
        let verifier = verifier.allow_unauthenticated().build().map_err(invalid_data)?;
        Tls::assemble(self.chain, self.key, Some(verifier))
    }

    /// Requests client certificates of any issuer: a client proves only that it has the key. This is sufficient
    /// for certificate-bound tokens (RFC 8705), see [`Tls::trust_clients`].
    ///
    /// # Errors
    /// Never, unless the certificate and the key of the server do not match.
    pub fn ask_clients(self) -> io::Result<Tls> {
        let any_client = AnyClientCert(ring::default_provider().signature_verification_algorithms);
        Tls::assemble(self.chain, self.key, Some(Arc::new(any_client)))
    }

    fn assemble(
        chain: Vec<CertificateDer<'static>>,
        key: Arc<PrivateKeyDer<'static>>,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> io::Result<Tls> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(invalid_data)?;
        let builder = match clients {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_single_cert(chain.clone(), key.clone_key()).map_err(invalid_data)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { chain, key, config: Arc::new(config) })
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.config.clone()).accept(stream).await
    }
}

/// Returns the certificate that the client presented.
pub(crate) fn client_certificate(stream: &TlsStream<TcpStream>) -> Option<ClientCertificate> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    Some(ClientCertificate(certificate.as_ref().into()))
}

/// Returns the version of HTTP that ALPN negotiated.
pub(crate) fn negotiated(stream: &TlsStream<TcpStream>) -> NegotiatedProtocol {
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => NegotiatedProtocol::Http2,
        Some(_) => NegotiatedProtocol::Http1,
        None => NegotiatedProtocol::Any,
    }
}

/// Accepts any client certificate, after the client has proved possession of its key.
#[derive(Debug)]
struct AnyClientCert(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for AnyClientCert {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn invalid_data(problem: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.to_string())
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

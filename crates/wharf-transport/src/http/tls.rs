//! Encryption by rustls.

use std::{fmt, io, path::Path, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    server::TlsStream,
};

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// A certificate, with the chain that leads to it, and its key, each in PEM.
    ///
    /// # Errors
    /// If the files cannot be read, hold no certificate or no key, or do not belong together.
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

    /// A certificate, with the chain that leads to it, and its key, each as the text of PEM.
    ///
    /// # Errors
    /// If there is no certificate or no key, or they do not belong together.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> io::Result<Tls> {
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().map_err(bad)?;
        if chain.is_empty() {
            return Err(bad("there is no certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| bad("there is no private key"))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(bad)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(bad)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(config)))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.0.clone()).accept(stream).await
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn bad(problem: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.to_string())
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

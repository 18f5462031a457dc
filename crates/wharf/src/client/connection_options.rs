//! Options of a client's connections: trusted certificates, client certificate and proxy.

use wharf_connect::{ConnectionError, ProxySettings};
#[cfg(feature = "tls")]
use wharf_connect::{Origin, TlsIdentity};
use wharf_model::{Error, ErrorKind};
#[cfg(feature = "tls")]
use wharf_transport::client::ClientTransportOptions;

use super::{ClientBuilder, Target};
use crate::client::connect::target_error;

impl ClientBuilder {
    /// Trusts the certificates in `pem` in addition to the system's, for `https` and `wss`; targets other than
    /// URLs reject it. For the requests of [`auth`](ClientBuilder::auth), set them on its `Fetch`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use wharf::Client;
    ///
    /// let authority = std::fs::read_to_string("company-ca.pem")?;
    /// let client =
    ///     Client::builder().trust_pem(&authority)?.connect("https://mcp.internal.example/mcp").await?;
    /// # let _ = client;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If `pem` contains no certificate, or an invalid one.
    #[cfg(feature = "tls")]
    pub fn trust_pem(mut self, pem: &str) -> Result<Self, Error> {
        self.connector = self.connector.trust_pem(pem).map_err(settings_error)?;
        self.url_option = Some("trust_pem");
        Ok(self)
    }

    /// Presents a client certificate to the server, if it requests one (mutual TLS). No other server receives
    /// it. Targets other than URLs reject it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use wharf::Client;
    ///
    /// let [certificate, key] = ["client.pem", "client.key"].map(std::fs::read_to_string);
    /// let builder = Client::builder().identity_pem(&certificate?, &key?)?;
    /// let client = builder.connect("https://mcp.example/mcp").await?;
    /// # let _ = client;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If a certificate or its key is missing.
    #[cfg(feature = "tls")]
    pub fn identity_pem(mut self, certificates: &str, key: &str) -> Result<Self, Error> {
        let identity = TlsIdentity::from_pem(certificates, key);
        self.identity = Some(identity.map_err(settings_error)?);
        self.url_option = Some("identity_pem");
        Ok(self)
    }

    /// Connects to URLs through the HTTP proxy at `url`, except to loopback, instead of the proxies that the
    /// environment names: `http://[USER:PASSWORD@]HOST:PORT`. Targets other than URLs reject it.
    ///
    /// ```
    /// use wharf::Client;
    ///
    /// let builder = Client::builder().proxy("http://me:secret@proxy.example:3128")?;
    /// # let _ = builder;
    /// # Ok::<(), wharf::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the URL is not that of an HTTP proxy.
    pub fn proxy(mut self, url: &str) -> Result<Self, Error> {
        self.connector = self.connector.proxy(ProxySettings::url(url).map_err(settings_error)?);
        self.url_option = Some("proxy");
        Ok(self)
    }

    /// Uses no proxy, whatever the environment names.
    pub fn no_proxy(mut self) -> Self {
        self.connector = self.connector.proxy(ProxySettings::none());
        self
    }

    /// Fails if an option for URLs is set and `target` is another one.
    pub(super) fn check_url_option(&self, target: &Target) -> Result<(), Error> {
        let is_url = |url: &str| {
            let scheme = url.split_once(':').map(|(scheme, _)| scheme.trim().to_ascii_lowercase());
            !matches!(scheme.as_deref(), Some("tcp" | "unix"))
        };
        match (self.url_option, target) {
            (None, _) => Ok(()),
            (_, Target::Url(url)) if is_url(url) => Ok(()),
            (Some(option), _) => Err(target_error(&format!(
                "`{option}` is for servers with a URL that begins with http, https, ws or wss"
            ))),
        }
    }

    /// Adds the client certificate, for the origin of `url` alone.
    #[cfg(feature = "tls")]
    pub(super) fn with_identity(
        &self,
        url: &str,
        mut options: ClientTransportOptions,
    ) -> ClientTransportOptions {
        let http = url.trim().replacen("ws", "http", usize::from(url.trim().starts_with("ws")));
        if let (Some(identity), Ok(origin)) = (&self.identity, Origin::parse(&http)) {
            options.connector = options.connector.identity(&origin, identity.clone());
        }
        options
    }
}

fn settings_error(error: ConnectionError) -> Error {
    Error::new(ErrorKind::InvalidParams).with_message(error.to_string()).with_source(error)
}

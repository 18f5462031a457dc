//! Options of connections to URLs: certificates of TLS, and the HTTP proxy, named as in curl.

use std::path::{Path, PathBuf};

use clap::Args;
use wharf::{auth::fetch::Fetch, client::ClientBuilder};

use crate::{common_options::with_secret, error::CliError};

/// Options of connections to URLs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsAndProxyOptions {
    /// Trust the certificates in this PEM file, beside the system's
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Options of every command that connects to a server"
    )]
    cacert: Option<PathBuf>,
    /// Present the client certificate in this PEM file to the server (mutual TLS)
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Options of every command that connects to a server"
    )]
    cert: Option<PathBuf>,
    /// Private key of --cert, if it is in another file
    #[arg(
        long,
        value_name = "FILE",
        requires = "cert",
        help_heading = "Options of every command that connects to a server"
    )]
    key: Option<PathBuf>,
    /// HTTP proxy, instead of those that the environment names; '' for none. @env:VARIABLE is read from
    /// the environment
    #[arg(long, value_parser = with_secret, value_name = "URL", help_heading = "Options of every command that connects to a server")]
    proxy: Option<String>,
}

impl TlsAndProxyOptions {
    /// True if an option is given.
    pub(crate) fn is_set(&self) -> bool {
        let files = [&self.cacert, &self.cert, &self.key];
        files.iter().any(|it| it.is_some()) || self.proxy.is_some()
    }

    /// Applies all options to the client.
    pub(crate) fn apply(&self, mut builder: ClientBuilder) -> Result<ClientBuilder, CliError> {
        if let Some(file) = &self.cacert {
            let trusted = builder.trust_pem(&read("--cacert", file)?);
            builder = trusted.map_err(|error| wrong("--cacert", file, &error.message))?;
        }
        if let Some(file) = &self.cert {
            let certificates = read("--cert", file)?;
            // As in curl, one file may contain both.
            let key = self.key.as_ref().map(|key| read("--key", key)).transpose()?;
            let key = key.as_ref().unwrap_or(&certificates);
            let presented = builder.identity_pem(&certificates, key);
            builder = presented.map_err(|error| {
                wrong("--cert", self.key.as_ref().unwrap_or(file), &error.message)
            })?;
        }
        match self.proxy.as_deref() {
            None => Ok(builder),
            Some("") => Ok(builder.no_proxy()),
            Some(url) => builder.proxy(url).map_err(|error| CliError::usage(error.message)),
        }
    }

    /// Applies the options to requests to authorization servers. They get no client certificate: it is for the
    /// server.
    pub(crate) fn apply_to_fetch(&self, mut fetch: Fetch) -> Result<Fetch, CliError> {
        if let Some(file) = &self.cacert {
            let trusted = fetch.trust_pem(&read("--cacert", file)?);
            fetch = trusted.map_err(|error| wrong("--cacert", file, &error.to_string()))?;
        }
        match self.proxy.as_deref() {
            None => Ok(fetch),
            Some("") => Ok(fetch.no_proxy()),
            Some(url) => fetch.proxy(url).map_err(|error| CliError::usage(error.to_string())),
        }
    }
}

fn read(option: &str, file: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(file).map_err(|error| wrong(option, file, &error.to_string()))
}

fn wrong(option: &str, file: &Path, why: &str) -> CliError {
    CliError::usage(format!("{option} {}: {why}", file.display()))
}

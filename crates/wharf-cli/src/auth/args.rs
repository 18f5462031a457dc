//! The command line of `wharf auth`.

use clap::{Args, Subcommand, ValueEnum};

use crate::tls_and_proxy_options::TlsAndProxyOptions;

const SERVERS: &str = "\
TARGET is the http, https, ws or wss URL of a server, or the name of a configured server.";

const LOGIN: &str = "\
All other commands use the login and renew it. Logging in again with --scope requests those scopes in
addition to the granted ones.

A SECRET is never passed on the command line, which other users of this machine can read:
  FILE         the file that contains it
  @env:NAME    the environment variable that contains it
  -            stdin";

/// Log in to servers that require authorization
#[derive(Debug, Args)]
pub(crate) struct Auth {
    #[command(subcommand)]
    pub(crate) what: AuthCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Log in to a server in the browser
    Login(Login),
    /// Show the stored logins with their scopes and expiry
    Status(Status),
    /// Log out: revoke the tokens, if the authorization server supports it, and remove them
    Logout(Logout),
}

#[derive(Debug, Args)]
#[command(after_help = format!("{LOGIN}\n\n{SERVERS}"))]
pub(crate) struct Login {
    /// The server
    pub(crate) target: String,
    /// Request this scope; may be repeated [default: the scopes that the server requires]
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    pub(crate) scope: Vec<String>,
    /// Client id at the authorization server [default: the client registers itself]
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Client secret: FILE, @env:NAME or -
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// The only authorization server that receives the id and the secret; required with
    /// --client-secret, unless you confirm the server's choice at the terminal
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,
    /// Allow authorization servers in a private network, such as a company's own; stored with the
    /// login for all other commands
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// Grant type: browser, or client-credentials for a program with an id and a secret
    #[arg(long, value_enum, default_value_t = Grant::Browser, hide_possible_values = true)]
    pub(crate) grant: Grant,
    /// Do not start a browser: print the URL, and prompt for the address of the redirect
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Port of the redirect on 127.0.0.1 [default: any free port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    #[command(flatten)]
    pub(crate) connection: TlsAndProxyOptions,
    /// Print JSON, at a terminal too
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grant {
    Browser,
    ClientCredentials,
}

#[derive(Debug, Args)]
#[command(after_help = SERVERS)]
pub(crate) struct Status {
    /// The server [default: all servers]
    pub(crate) target: Option<String>,
    /// Print JSON, at a terminal too
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = SERVERS)]
pub(crate) struct Logout {
    /// The server
    #[arg(required_unless_present = "all")]
    pub(crate) target: Option<String>,
    /// Log out of all servers
    #[arg(long, conflicts_with = "target")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) connection: TlsAndProxyOptions,
    /// Print JSON, at a terminal too
    #[arg(long)]
    pub(crate) json: bool,
}

impl Auth {
    pub(crate) fn connection(&self) -> TlsAndProxyOptions {
        match &self.what {
            AuthCommand::Login(login) => login.connection.clone(),
            AuthCommand::Status(_) => TlsAndProxyOptions::default(),
            AuthCommand::Logout(logout) => logout.connection.clone(),
        }
    }

    pub(crate) fn json(&self) -> bool {
        match &self.what {
            AuthCommand::Login(login) => login.json,
            AuthCommand::Status(status) => status.json,
            AuthCommand::Logout(logout) => logout.json,
        }
    }
}

/// Validates the characters of one scope, or of several separated by spaces.
fn scope(text: &str) -> Result<String, String> {
    let fits = |c: char| matches!(c, '!' | '#'..='[' | ']'..='~' | ' ');
    let text = text.trim();
    if text.is_empty() || !text.chars().all(fits) {
        return Err("a scope is a word without quotes and backslashes".to_owned());
    }
    Ok(text.to_owned())
}

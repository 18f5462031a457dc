//! The command line of `wharf auth`.

use clap::{Args, Subcommand, ValueEnum};

const SERVERS: &str = "\
TARGET is the http, https, ws or wss URL of a server, or the name of a configured one.";

const LOGIN: &str = "\
Every other verb uses the login by itself, and renews it. Logging in again with --scope asks for
those scopes besides what was granted before.

A SECRET is never written on the command line, which others on this machine can read:
  FILE         the file that holds it
  @env:NAME    the environment variable that holds it
  -            stdin";

/// Log in at servers that ask who calls
#[derive(Debug, Args)]
pub(crate) struct Auth {
    #[command(subcommand)]
    pub(crate) what: AuthVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthVerb {
    /// Log in at a server, in the browser
    Login(Login),
    /// Show where you are logged in, for what and how long
    Status(Status),
    /// Log out: what lets you in is revoked, where the server offers that, and forgotten
    Logout(Logout),
}

#[derive(Debug, Args)]
#[command(after_help = format!("{LOGIN}\n\n{SERVERS}"))]
pub(crate) struct Login {
    /// The server
    pub(crate) target: String,
    /// Ask for this scope; may be repeated [default: what the server says is needed]
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    pub(crate) scope: Vec<String>,
    /// The id under which the authorization server knows this client [default: it is told of us]
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Where the secret that goes with the id is: FILE, @env:NAME or -
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// The only authorization server that is shown the id and the secret; required with
    /// --client-secret, unless you confirm at the terminal the one that the server names
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,
    /// Get in also where that leads into a private network, as at a company's own servers; every
    /// other verb may from then on
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// How to get in: browser, or client-credentials for a program that has an id and a secret
    #[arg(long, value_enum, default_value_t = Grant::Browser, hide_possible_values = true)]
    pub(crate) grant: Grant,
    /// Start no browser: show the address, and take the one at which the browser ended
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Let the browser come back to this port of 127.0.0.1 [default: any that is free]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
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
    /// The server [default: all of them]
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
    /// Log out everywhere
    #[arg(long, conflicts_with = "target")]
    pub(crate) all: bool,
    /// Print JSON, at a terminal too
    #[arg(long)]
    pub(crate) json: bool,
}

impl Auth {
    pub(crate) fn json(&self) -> bool {
        match &self.what {
            AuthVerb::Login(login) => login.json,
            AuthVerb::Status(status) => status.json,
            AuthVerb::Logout(logout) => logout.json,
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

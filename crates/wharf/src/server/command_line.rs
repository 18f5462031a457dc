//! Command line of a server, which selects its transport.

use std::{
    ffi::OsString,
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use super::run_log::RunLog;
use crate::{Result, RunError};

/// Transport of a server that [runs](crate::Server::run_over) for the lifetime of its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Stdin and stdout.
    #[default]
    Stdio,
    /// HTTP, at the path of [`Http`](crate::http::Http).
    #[cfg(feature = "http")]
    Http(SocketAddr),
    /// Lines over TCP, at a loopback address.
    Tcp(SocketAddr),
    /// Lines over a Unix socket at this path.
    Unix(PathBuf),
}

/// Help text of `--help`.
pub(crate) struct HelpText<'a>(pub(crate) &'a str);

/// Option of the command line of a server.
///
/// ```
/// let help = wharf::server::CommandLine::options().iter().map(|it| format!("{} {}", it.name, it.help));
/// assert!(help.count() > 3);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CommandLineOption {
    /// Name with its dashes.
    pub name: &'static str,
    /// Name of its value; empty for an option without one.
    pub value: &'static str,
    /// Value if none is given.
    pub default: Option<&'static str>,
    /// Description on one line.
    pub help: &'static str,
    /// True for options that select the transport.
    pub selects_transport: bool,
}

const fn option(name: &'static str, value: &'static str, help: &'static str) -> CommandLineOption {
    CommandLineOption { name, value, default: None, help, selects_transport: false }
}

const fn transport(
    name: &'static str,
    value: &'static str,
    default: Option<&'static str>,
    help: &'static str,
) -> CommandLineOption {
    CommandLineOption { default, selects_transport: true, ..option(name, value, help) }
}

static OPTIONS: &[CommandLineOption] = &[
    transport("--stdio", "", None, "serve stdin and stdout (the default)"),
    #[cfg(feature = "http")]
    transport(
        "--http",
        "ADDRESS",
        Some("127.0.0.1:8000"),
        "serve HTTP at this address [default: 127.0.0.1:8000], with /live and /ready for load balancers",
    ),
    #[cfg(feature = "http")]
    option("--allow-host", "NAME", "with --http: accept requests with this Host header too"),
    #[cfg(feature = "http")]
    option(
        "--allow-origin",
        "ORIGIN",
        "with --http: allow web pages of this origin to call and read replies (CORS)",
    ),
    #[cfg(feature = "http")]
    option(
        "--trusted-proxy",
        "ADDRESS",
        "with --http: trust the client address that this reverse proxy or network forwards",
    ),
    #[cfg(feature = "http")]
    option("--sse", "", "with --http: serve clients of the old HTTP+SSE transport too, at /sse"),
    #[cfg(feature = "tls")]
    option("--tls-cert", "FILE", "with --http: TLS certificate chain (PEM)"),
    #[cfg(feature = "tls")]
    option("--tls-key", "FILE", "with --http: private key of the certificate (PEM)"),
    transport("--tcp", "ADDRESS", None, "serve lines over TCP, at a loopback address"),
    transport("--unix", "PATH", None, "serve lines over a Unix socket"),
    #[cfg(feature = "metrics")]
    option("--admin", "ADDRESS", "serve metrics and health checks, such as at 127.0.0.1:9464"),
    #[cfg(feature = "logs")]
    option(
        "--log-format",
        "FORMAT",
        "write log lines as text or json [default: text at a terminal, json elsewhere]",
    ),
];

impl fmt::Display for HelpText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, a server of the Model Context Protocol", self.0)?;
        for CommandLineOption { name, value, help, .. } in OPTIONS {
            write!(f, "\n{:<24}{help}", format!("{name} {value}"))?;
        }
        write!(f, "\n{:<24}print this help", "--help")
    }
}

/// Command line of a server: its transport, and the options of HTTP. [`Server::run`](crate::Server::run) reads the
/// one of the process.
///
/// ```
/// use wharf::server::{CommandLine, Transport};
///
/// let line = CommandLine::parse(["--unix", "harbour.sock"].map(Into::into))?;
/// assert_eq!(line.unwrap().transport(), &Transport::Unix("harbour.sock".into()));
/// # Ok::<(), wharf::RunError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    pub(crate) transport: Transport,
    hosts: Vec<String>,
    origins: Vec<String>,
    proxies: Vec<String>,
    sse: bool,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    admin: Option<String>,
    log_format: Option<String>,
}

impl CommandLine {
    /// Returns the options.
    #[must_use]
    pub fn options() -> &'static [CommandLineOption] {
        OPTIONS
    }

    /// Returns the transport.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Parses the command line, without the program's name. `None` for `--help`.
    ///
    /// # Errors
    /// If an option is unknown, lacks its value, or needs `--http`.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Self>> {
        let mut arguments = arguments.into_iter().peekable();
        let mut wanted = CommandLine::default();
        while let Some(argument) = arguments.next() {
            let argument = argument.to_string_lossy().into_owned();
            let (option, inline) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(OsString::from(value))),
                None => (&*argument, None),
            };
            let known = OPTIONS.iter().find(|it| it.name == option);
            if known.is_none() && !["-h", "--help"].contains(&option) {
                return Err(unknown(&argument));
            }
            let default = known.and_then(|it| it.default).map(OsString::from);
            let is_value = |next: &OsString| !next.to_string_lossy().starts_with("--");
            let mut value = |example: &str| {
                let given = match default {
                    // Without a value of its own, the next option follows.
                    Some(_) => inline.clone().or_else(|| arguments.next_if(is_value)),
                    None => inline.clone().or_else(|| arguments.next()),
                };
                given.or_else(|| default.clone()).ok_or_else(|| {
                    RunError::new(format!("{option} needs a value, such as {example}"))
                })
            };
            let mut text =
                |example: &str| value(example).map(|it| it.to_string_lossy().into_owned());
            match option {
                "--stdio" => wanted.transport = Transport::Stdio,
                #[cfg(feature = "http")]
                "--http" => wanted.transport = Transport::http(&text("127.0.0.1:8000")?)?,
                "--allow-host" => wanted.hosts.push(text("mcp.example.com")?),
                "--allow-origin" => wanted.origins.push(text("https://app.example.com")?),
                "--trusted-proxy" => wanted.proxies.push(text("10.0.0.0/8")?),
                "--sse" => wanted.sse = true,
                "--tls-cert" => wanted.certificate = Some(text("cert.pem")?.into()),
                "--tls-key" => wanted.key = Some(text("key.pem")?.into()),
                "--admin" => wanted.admin = Some(text("127.0.0.1:9464")?),
                "--log-format" => wanted.log_format = Some(text("json")?),
                "--tcp" => wanted.transport = Transport::tcp(&text("127.0.0.1:4000")?)?,
                "--unix" => wanted.transport = Transport::Unix(value("/tmp/server.sock")?.into()),
                _ => return Ok(None),
            }
        }
        wanted.check().map(Some)
    }

    /// Rejects options for HTTP with another transport.
    fn check(self) -> Result<Self> {
        #[cfg(feature = "http")]
        if matches!(self.transport, Transport::Http(_)) {
            return Ok(self);
        }
        let (transport, admin) = (self.transport.clone(), self.admin.clone());
        let log_format = self.log_format.clone();
        let plain = CommandLine { transport, admin, log_format, ..CommandLine::default() };
        match self == plain {
            true => Ok(self),
            false => Err(RunError::new(
                "--allow-host, --allow-origin, --trusted-proxy, --sse and --tls-… need --http",
            )),
        }
    }

    /// Returns the address of the admin listener: that of the option, or else of `WHARF_ADMIN`.
    #[cfg(feature = "metrics")]
    pub(crate) fn admin(&self) -> Result<Option<SocketAddr>> {
        let variable = || std::env::var("WHARF_ADMIN").ok().filter(|it| !it.is_empty());
        let text = self.admin.clone().or_else(variable);
        text.map(|text| address(&text, "127.0.0.1:9464")).transpose()
    }

    /// Returns the log, in the format of `--log-format`. [`Server::run_with`](crate::Server::run_with) starts it; a program
    /// that logs before it starts it itself.
    ///
    /// ```
    /// use wharf::{observe::LogFormat, server::CommandLine};
    ///
    /// let line = CommandLine::parse(["--log-format", "json"].map(Into::into))?.unwrap_or_default();
    /// assert_eq!(line.logs()?.format, Some(LogFormat::Json));
    /// # Ok::<(), wharf::RunError>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such format.
    #[cfg(feature = "logs")]
    pub fn logs(&self) -> Result<crate::observe::Logs> {
        use crate::observe::{LogFormat, Logs};
        let format = self.log_format.as_deref().map(LogFormat::parse).transpose();
        Ok(Logs::default()
            .format(format.map_err(|it| RunError::new(format!("--log-format: {it}")))?))
    }

    pub(crate) fn log(&self) -> Result<RunLog> {
        Ok(RunLog {
            #[cfg(feature = "logs")]
            logs: self.logs()?,
        })
    }

    /// Applies the HTTP options of the command line to those of the program.
    #[cfg(feature = "http")]
    pub(crate) fn allow(&self, mut http: crate::http::Http) -> Result<crate::http::Http> {
        http = self.hosts.iter().fold(http, |http, host| http.host(host));
        http = http.cors(&self.origins).trusted_proxies(&self.proxies)?;
        if self.sse {
            http = http.sse_2024();
        }
        #[cfg(feature = "tls")]
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                // Rejects a key that other users can read.
                let read = crate::server::read_private(key);
                read.map_err(|error| {
                    RunError::new(format!("--tls-key {}: {error}", key.display()))
                })?;
                http = http.tls(crate::http::Tls::from_pem_files(certificate, key)?);
            }
            (None, None) => {}
            _ => return Err(RunError::new("--tls-cert and --tls-key must be given together")),
        }
        Ok(http)
    }
}

fn unknown(argument: &str) -> RunError {
    let known = OPTIONS.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
    RunError::new(format!("unknown option {argument}; supported are {known}"))
}

impl Transport {
    /// HTTP at an address or host name with a port, such as `localhost:8000`.
    ///
    /// # Errors
    /// If there is no such address.
    #[cfg(feature = "http")]
    pub fn http(address_and_port: &str) -> Result<Self> {
        address(address_and_port, "127.0.0.1:8000").map(Transport::Http)
    }

    /// Lines over TCP at an address or host name with a port, such as `localhost:4000`.
    ///
    /// # Errors
    /// If there is no such address.
    pub fn tcp(address_and_port: &str) -> Result<Self> {
        address(address_and_port, "127.0.0.1:4000").map(Transport::Tcp)
    }
}

fn address(text: &str, example: &str) -> Result<SocketAddr> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        RunError::new(format!("{text:?} is not an address with a port, such as {example}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<CommandLine>, String> {
        CommandLine::parse(line.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())
    }

    #[test]
    fn the_last_transport_option_applies() {
        let tcp = Transport::Tcp(([127, 0, 0, 1], 4000).into());
        let unix = Transport::Unix("a/b.sock".into());
        for (line, expected) in [
            ("", Some(Transport::Stdio)),
            ("--unix a --stdio", Some(Transport::Stdio)),
            ("--tcp 127.0.0.1:4000", Some(tcp.clone())),
            ("--tcp=127.0.0.1:4000", Some(tcp)),
            ("--unix a/b.sock", Some(unix)),
            #[cfg(feature = "http")]
            ("--http 127.0.0.1:8000", Some(Transport::Http(([127, 0, 0, 1], 8000).into()))),
            #[cfg(feature = "http")]
            ("--http --sse", Some(Transport::Http(([127, 0, 0, 1], 8000).into()))),
            ("--help --nonsense", None),
            ("-h", None),
        ] {
            let transport = parse(line).map(|wanted| wanted.map(|it| it.transport));
            assert_eq!(transport, Ok(expected), "{line}");
        }
    }

    #[test]
    fn invalid_options_state_the_reason() {
        for (line, reason) in [
            #[cfg(feature = "http")]
            (
                "--sse",
                "--allow-host, --allow-origin, --trusted-proxy, --sse and --tls-… need --http",
            ),
            ("--tcp", "--tcp needs a value, such as 127.0.0.1:4000"),
            ("--tcp here", "\"here\" is not an address with a port, such as 127.0.0.1:4000"),
            #[cfg(feature = "http")]
            ("--http 80", "\"80\" is not an address with a port, such as 127.0.0.1:8000"),
        ] {
            assert_eq!(parse(line), Err(reason.to_owned()), "{line}");
        }
        assert!(
            parse("--port 1")
                .is_err_and(|it| it.starts_with("unknown option --port; supported are"))
        );
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn the_admin_listener_goes_with_every_transport() {
        for line in ["--admin 127.0.0.1:9464", "--tcp 127.0.0.1:4000 --admin=127.0.0.1:9464"] {
            let address = parse(line).unwrap().unwrap().admin().unwrap();
            assert_eq!(address, Some(([127, 0, 0, 1], 9464).into()), "{line}");
        }
        assert!(parse("--admin here").unwrap().unwrap().admin().is_err());
    }

    #[cfg(feature = "http")]
    #[test]
    fn http_options_follow_the_address() {
        let line = "--http localhost:0 --allow-host a.example --allow-host=b.example --sse";
        let wanted = parse(line).unwrap().unwrap();
        assert_eq!(wanted.hosts, ["a.example", "b.example"]);
        assert!(wanted.sse && wanted.allow(crate::http::Http::new()).is_ok());
        let proxies = parse("--http localhost:0 --trusted-proxy 10.0.0.0/8 --trusted-proxy ::1");
        assert!(proxies.unwrap().unwrap().allow(crate::http::Http::new()).is_ok());
        let nonsense = parse("--http localhost:0 --trusted-proxy everybody").unwrap().unwrap();
        assert!(nonsense.allow(crate::http::Http::new()).is_err());
        #[cfg(feature = "tls")]
        {
            let half = parse("--http localhost:0 --tls-cert a.pem").unwrap().unwrap();
            assert!(half.allow(crate::http::Http::new()).is_err());
        }
    }

    #[cfg(all(feature = "tls", unix))]
    #[test]
    fn a_tls_key_that_other_users_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let key = std::env::temp_dir().join(format!("wharf-tls-key-{}", std::process::id()));
        std::fs::write(&key, "key").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        let key_name = key.display();
        let line = format!("--http localhost:0 --tls-cert {key_name} --tls-key {key_name}");
        let refused = parse(&line).unwrap().unwrap().allow(crate::http::Http::new());
        std::fs::remove_file(&key).unwrap();
        let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains(&format!("chmod 600 {key_name}")), "{message}");
    }
}

//! Flags of mcp-remote, supergateway and mcp-proxy, so that their command lines work with `wharf bridge`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use wharf::client::Target;

use crate::error::CliError;

/// Address of the front if only its port is given.
const HOST: &str = "127.0.0.1";
const PORT: u16 = 8000;

/// Names of transports that the bridge negotiates by itself.
const NEGOTIATED: [&str; 7] =
    ["http-first", "sse-first", "http-only", "sse-only", "sse", "streamablehttp", "stdio"];

/// Flags with a meaning here.
#[derive(Debug, Default, Args)]
pub(super) struct ForeignFlags {
    /// Port of the front over HTTP.
    #[arg(long, hide = true)]
    port: Option<u16>,
    /// Host of the front over HTTP.
    #[arg(long, hide = true)]
    host: Option<String>,
    /// Transport of the front: stdio, sse, streamableHttp or ws.
    #[arg(long = "outputTransport", hide = true)]
    output_transport: Option<String>,
    /// Transport of the server. The id `transport` is the group of `--http` and its like.
    #[arg(long = "transport", hide = true)]
    server_transport: Option<String>,
    /// Name and value of a header.
    #[arg(long, hide = true, num_args = 2, action = ArgAction::Append)]
    headers: Vec<String>,
    /// Value of the header `Authorization`, without `Bearer`.
    #[arg(long = "oauth2Bearer", hide = true)]
    bearer: Option<String>,
    /// Passes all variables to a started server.
    #[arg(long, hide = true)]
    pass_environment: bool,
    /// Working directory of a started server.
    #[arg(long, hide = true)]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    others: OtherFlags,
}

/// Effect of a flag that changes nothing.
#[derive(Clone, Copy)]
enum Effect {
    /// The bridge always behaves like that.
    None,
    /// Only this value is possible, because the bridge always behaves like that.
    Only(&'static str, &'static str),
    /// The bridge does not support the flag.
    Refused(&'static str),
}

struct OtherFlag {
    name: &'static str,
    has_value: bool,
    effect: Effect,
}

const fn flag(name: &'static str, effect: Effect) -> OtherFlag {
    OtherFlag { name, has_value: false, effect }
}

const fn option(name: &'static str, effect: Effect) -> OtherFlag {
    OtherFlag { name, has_value: true, effect }
}

const LOGS: &str = "WHARF_LOG=debug logs to stderr, and --trace shows every message";
const PATHS: &str = "Streamable HTTP is at /mcp, and the older HTTP+SSE at /sse with --sse";
const LOGIN: &str = "`wharf auth login URL` logs in once; see `wharf auth login --help`";

const OTHER_FLAGS: [OtherFlag; 25] = [
    // mcp-remote
    flag("allow-http", Effect::None),
    flag("enable-proxy", Effect::None),
    flag("silent", Effect::None),
    flag("debug", Effect::Refused(LOGS)),
    option("static-oauth-client-info", Effect::Refused(LOGIN)),
    option("static-oauth-client-metadata", Effect::Refused(LOGIN)),
    option("auth-timeout", Effect::Refused(LOGIN)),
    option("resource", Effect::Refused(LOGIN)),
    // supergateway
    flag("streamableHttp", Effect::None),
    flag("stateful", Effect::None),
    flag("cors", Effect::Refused("--allow-origin ORIGIN allows web pages of one origin")),
    option("ssePath", Effect::Only("/sse", PATHS)),
    option("streamableHttpPath", Effect::Only("/mcp", PATHS)),
    option("messagePath", Effect::Refused(PATHS)),
    option("baseUrl", Effect::Refused("clients get a relative address, which needs no base")),
    option("healthEndpoint", Effect::Refused("the health checks are /live and /ready")),
    option(
        "sessionTimeout",
        Effect::Refused("idle sessions end by themselves when memory is needed"),
    ),
    option("protocolVersion", Effect::Refused("--era REVISION selects the revision of the server")),
    option("logLevel", Effect::Refused(LOGS)),
    // mcp-proxy
    flag("stateless", Effect::Refused("sessions exist only for clients that need them")),
    option(
        "sse-port",
        Effect::Refused("--port PORT is the port of both HTTP transports, with --sse"),
    ),
    option(
        "sse-host",
        Effect::Refused("--host HOST is the host of both HTTP transports, with --sse"),
    ),
    option("named-server", Effect::Refused("one bridge has one server: start another bridge")),
    option(
        "named-server-config",
        Effect::Refused("one bridge has one server: FILE#NAME is one of a file"),
    ),
    flag(
        "no-verify-ssl",
        Effect::Refused("--cacert FILE trusts the certificate of a private authority"),
    ),
];

/// Flags without a meaning here: accepted, or refused with an explanation.
#[derive(Debug, Default)]
struct OtherFlags(Vec<CliError>);

impl Args for OtherFlags {
    fn augment_args(command: Command) -> Command {
        OTHER_FLAGS.iter().fold(command, |command, flag| {
            let argument = Arg::new(flag.name).long(flag.name).hide(true);
            command.arg(match flag.has_value {
                true => argument.value_parser(value_parser!(String)),
                false => argument.action(ArgAction::SetTrue),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OtherFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let problems = OTHER_FLAGS.iter().filter_map(|flag| {
            let value = match flag.has_value {
                true => matches.get_one::<String>(flag.name)?.as_str(),
                false => matches.get_flag(flag.name).then_some("")?,
            };
            match flag.effect {
                Effect::None => None,
                Effect::Only(expected, _) if expected == value => None,
                Effect::Only(_, reason) | Effect::Refused(reason) => {
                    let message = format!("--{} {value}", flag.name);
                    let message = format!("{} is not supported", message.trim_end());
                    Some(CliError::usage(message).hint(format!("Leave it out: {reason}.")))
                }
            }
        });
        Ok(OtherFlags(problems.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ForeignFlags {
    /// Words for the front that these flags select, unless `words` select it.
    pub(super) fn front_words(&mut self, words: &[OsString]) -> Result<Vec<OsString>, CliError> {
        if let Some(problem) = self.others.0.pop() {
            return Err(problem);
        }
        if let Some(name) = self.server_transport.as_deref()
            && !NEGOTIATED.contains(&name)
        {
            return Err(unknown("--transport", name, &NEGOTIATED));
        }
        let is_sse = match self.output_transport.as_deref() {
            Some("stdio") => return Ok(Vec::new()),
            Some("sse") => true,
            Some("streamableHttp" | "ws") => false,
            Some(name) => {
                let known = ["stdio", "sse", "streamableHttp", "ws"];
                return Err(unknown("--outputTransport", name, &known));
            }
            None if self.port.is_none() => return Ok(Vec::new()),
            None => false,
        };
        if ["--http", "--tcp", "--unix"].iter().any(|front| words.iter().any(|word| word == front))
        {
            return Err(CliError::usage(
                "--port and --outputTransport select a front over HTTP, and another one is given",
            ));
        }
        let (host, port) = (self.host.as_deref().unwrap_or(HOST), self.port.unwrap_or(PORT));
        let mut front = vec![OsString::from("--http"), format!("{host}:{port}").into()];
        front.extend(is_sse.then(|| OsString::from("--sse")));
        Ok(front)
    }

    /// Applies the options of a started server.
    pub(super) fn apply_to(&self, target: Target) -> Result<Target, CliError> {
        match target {
            Target::Command(mut command) => {
                if self.pass_environment {
                    command = command.inherit_env();
                }
                if let Some(directory) = &self.cwd {
                    command = command.dir(directory);
                }
                Ok(command.into())
            }
            _ if self.pass_environment || self.cwd.is_some() => Err(CliError::usage(
                "--pass-environment and --cwd are for a command that starts the server",
            )),
            target => Ok(target),
        }
    }

    /// Adds the headers of these flags, and replaces `${VARIABLE}` in all values, as mcp-remote does.
    pub(super) fn apply_to_headers(
        &self,
        headers: &mut Vec<(String, String)>,
    ) -> Result<(), CliError> {
        for pair in self.headers.chunks_exact(2) {
            headers.push((pair[0].clone(), pair[1].clone()));
        }
        let bearer = self.bearer.iter().map(|token| format!("Bearer {token}"));
        headers.extend(bearer.map(|value| ("Authorization".to_owned(), value)));
        for (name, value) in headers {
            *value = with_variables(name, value)?;
        }
        Ok(())
    }
}

/// Replaces each `${VARIABLE}` by its value.
fn with_variables(name: &str, value: &str) -> Result<String, CliError> {
    let mut done = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((variable, after)) = after.split_once('}') else { break };
        let found = std::env::var(variable).map_err(|_| {
            CliError::usage(format!(
                "The header {name} contains ${{{variable}}}, and the environment variable {variable} is not set"
            ))
        })?;
        done = done + before + &found;
        rest = after;
    }
    Ok(done + rest)
}

fn unknown(option: &str, value: &str, known: &[&str]) -> CliError {
    CliError::usage(format!("{option} {value} is unknown"))
        .hint(format!("Known are {}.", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_select_the_front() {
        for (port, host, output, front) in [
            (None, None, None, ""),
            (None, Some("0.0.0.0"), None, ""),
            (Some(9), None, None, "--http 127.0.0.1:9"),
            (Some(9), Some("0.0.0.0"), None, "--http 0.0.0.0:9"),
            (Some(9), None, Some("stdio"), ""),
            (None, None, Some("sse"), "--http 127.0.0.1:8000 --sse"),
            (Some(9), None, Some("streamableHttp"), "--http 127.0.0.1:9"),
        ] {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let (host, output_transport) = (owned(host), owned(output));
            let mut flags = ForeignFlags { port, host, output_transport, ..Default::default() };
            let words = flags.front_words(&[]).unwrap();
            assert_eq!(words.join(" ".as_ref()), front, "{output:?}");
        }
        let mut flags = ForeignFlags { port: Some(9), ..Default::default() };
        assert!(flags.front_words(&["--unix".into(), "a".into()]).is_err());
    }

    #[test]
    fn headers_take_variables_as_mcp_remote_does() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(with_variables("A", "Bearer ${PATH}!").unwrap(), format!("Bearer {path}!"));
        assert_eq!(with_variables("A", "a ${ b").unwrap(), "a ${ b");
        assert!(
            with_variables("A", "${WHARF_NOT_SET}").unwrap_err().to_string().contains("not set")
        );
    }
}

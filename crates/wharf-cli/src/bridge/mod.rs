//! `wharf bridge`: one server, offered over another transport and in every revision.

mod foreign_flags;
mod tool_filter;
mod upstream;

use std::{ffi::OsString, sync::Arc};

use clap::Args;
use wharf::{
    Server,
    client::{ChildCommand, Target},
    server::{CommandLine, LaterIdentity, Transport},
};

use crate::{
    bridge::{
        foreign_flags::ForeignFlags,
        tool_filter::{ToolFilter, name_pattern},
        upstream::{DeclaredCapabilities, Upstream},
    },
    cli::PositionalArgs,
    common_options::CommonOptions,
    context::Context,
    error::CliError,
    serve::TransportWords,
    target_argument,
};

const HELP: &str = "\
The bridge serves stdin and stdout, or --http, --tcp or --unix. Its clients may use every revision of the protocol, and the
server any other one. It starts or connects to the server with the first request over stdin, or at once elsewhere, and
again if the server ends. All clients share the one server.

Configuration of a client that starts its servers, for a server at a URL:
  {\"mcpServers\": {\"notes\": {\"command\": \"wharf\", \"args\": [\"bridge\", \"https://notes.example/mcp\"]}}}

Flags of mcp-remote, supergateway and mcp-proxy, such as --port, --outputTransport and --allow-http, are understood.";

/// Options of a bridge.
#[derive(Debug, Args)]
#[command(after_help = format!("{HELP}\n\n{}", crate::cli::TARGET), override_usage = "\
wharf bridge [OPTIONS] TARGET
       wharf bridge [OPTIONS] -- COMMAND...")]
pub(crate) struct Bridge {
    #[command(flatten)]
    words: PositionalArgs,
    #[command(flatten)]
    front: TransportWords,
    /// Offer only the tools with such a name; * stands for any text. May be repeated
    #[arg(long, value_name = "GLOB", value_parser = name_pattern)]
    allow: Vec<glob::Pattern>,
    /// Hide and refuse the tools with such a name, allowed ones too. May be repeated
    #[arg(long, value_name = "GLOB", value_parser = name_pattern, alias = "ignore-tool")]
    deny: Vec<glob::Pattern>,
    #[command(flatten)]
    foreign: ForeignFlags,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

impl Bridge {
    pub(crate) async fn run(mut self) -> Result<(), CliError> {
        let usage = |failure: wharf::RunError| CliError::usage(failure.to_string());
        let words = self.front_words()?;
        let command_line = CommandLine::parse(words).map_err(usage)?.unwrap_or_default();
        let logs = command_line.logs().map_err(usage)?;
        logs.start().map_err(|error| usage(error.into()))?;
        let target = self.target()?;
        let target = self.foreign.apply_to(target)?;
        self.foreign.apply_to_headers(&mut self.shared.header)?;
        // A client on stdin is the only one, so the server learns its capabilities.
        let declared = match command_line.transport() {
            Transport::Stdio => DeclaredCapabilities::OfFirstRequest,
            _ => DeclaredCapabilities::All,
        };
        let context = Arc::new(Context::new(self.shared));
        let identity = LaterIdentity::default();
        let upstream = Upstream::new(context, target, declared, identity.clone()).await?;
        let version = env!("CARGO_PKG_VERSION");
        let service = ToolFilter::new(upstream.clone(), self.allow, self.deny);
        let refused = upstream.clone();
        let closed = upstream.clone();
        let server = Server::new("wharf-bridge", version)
            .later_identity(identity)
            .forward_custom_methods(true)
            .upstream(service)
            .shutdown_when(async move { refused.refused().await })
            .at_end(async move { closed.close().await });
        if matches!(declared, DeclaredCapabilities::All) {
            upstream.connect_soon();
        }
        let served = server.run_with(command_line).await;
        match upstream.refusal() {
            Some(fail) => Err(fail),
            None => served.map_err(usage),
        }
    }

    /// Words of the command line of the front, in the form of `wharf serve`.
    fn front_words(&mut self) -> Result<Vec<OsString>, CliError> {
        let mut words = std::mem::take(&mut self.front.0);
        words.extend(self.foreign.front_words(&words)?);
        // In supergateway's `--sse URL`, the flag names the transport of the server, which is found anyway.
        if !words.iter().any(|word| word == "--http") {
            words.retain(|word| word != "--sse");
        }
        Ok(words)
    }

    /// The server: a target as of every command, or a command line in one word.
    fn target(&mut self) -> Result<Target, CliError> {
        let words = std::mem::take(&mut self.words.words);
        if let ([line], []) = (&*words, &*self.shared.command)
            && line.contains(char::is_whitespace)
            && !std::path::Path::new(line).exists()
        {
            let words = shlex::split(line).unwrap_or_default();
            let (program, args) = words.split_first().ok_or_else(|| {
                CliError::usage(format!("{line:?} is not a command line: check its quotes"))
            })?;
            return Ok(ChildCommand::new(program).args(args).into());
        }
        let allowed = usize::from(self.shared.command.is_empty());
        if let Some(word) = words.get(allowed) {
            return Err(CliError::usage(format!("`{word}` is one word too many")).hint(
                "Write a command after `--`: wharf bridge --http -- npx -y some-server".to_owned(),
            ));
        }
        Ok(target_argument::split(words, &self.shared.command)?.0)
    }
}

//! `wharf serve`: the demo server.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches, value_parser};
use wharf::{
    Server,
    observe::Logs,
    server::{CommandLine, CommandLineOption, Transport},
    skills::Skills,
};

use crate::demo;
use crate::{error::CliError, store_options::StoreOptions};

/// Options of the demo server.
#[derive(Debug, Args)]
#[command(
    after_help = "Logs go to stderr: warnings, or the levels selected by WHARF_LOG or RUST_LOG, such as WHARF_LOG=info."
)]
pub(crate) struct Serve {
    #[command(flatten)]
    transport: TransportWords,
    #[command(flatten)]
    stored: StoreOptions,
    /// Serve the skills in this directory, and watch it for changes. A skill is a directory with a `SKILL.md`
    #[arg(long, value_name = "DIR")]
    skills: Vec<PathBuf>,
}

/// Words of the command line that every server understands: the library has the one definition of these options.
#[derive(Debug, Default)]
pub(crate) struct TransportWords(pub(crate) Vec<OsString>);

impl Args for TransportWords {
    fn augment_args(command: Command) -> Command {
        let options = CommandLine::options();
        let selecting = options.iter().filter(|it| it.selects_transport).map(|it| it.name);
        let group = ArgGroup::new("transport").args(selecting).multiple(false);
        options.iter().map(clap_argument).fold(command, Command::arg).group(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TransportWords {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = Vec::new();
        for CommandLineOption { name, value, .. } in CommandLine::options() {
            if value.is_empty() {
                words.extend(matches.get_flag(name).then(|| OsString::from(name)));
            }
            let values = if value.is_empty() { None } else { matches.get_many::<OsString>(name) };
            for value in values.into_iter().flatten() {
                words.extend([OsString::from(name), value.clone()]);
            }
        }
        Ok(TransportWords(words))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn clap_argument(option: &CommandLineOption) -> Arg {
    let CommandLineOption { name, value, default, help, .. } = *option;
    let argument = Arg::new(name).long(name.trim_start_matches('-')).help(help);
    let argument = match value {
        "" => return argument.action(ArgAction::SetTrue),
        value => argument.value_name(value).value_parser(value_parser!(OsString)),
    };
    match default {
        Some(default) => argument.num_args(0..=1).default_missing_value(default),
        None if option.selects_transport => argument,
        None => argument.action(ArgAction::Append),
    }
}

// Printed before the address is bound, which may fail, so neither claims that it is served.
const HTTP: &str = "Ctrl-C stops it.";
const LINES: &str = "One JSON-RPC message per line; Ctrl-C stops it.";

/// Configuration for a client that starts its servers.
fn client_configuration() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "wharf".into());
    let command = serde_json::Value::from(program.to_string_lossy());
    format!(
        "Serving stdin and stdout. Configuration for a client that starts it:\n  \
         {{\"mcpServers\": {{\"wharf-demo\": {{\"command\": {command}, \"args\": [\"serve\"]}}}}}}"
    )
}

impl Serve {
    pub(crate) async fn run(self) -> Result<(), CliError> {
        // Errors that prevent serving concern an address, a path, a file or a variable.
        let usage = |failure: wharf::RunError| CliError::usage(failure.to_string());
        let command_line =
            CommandLine::parse(self.transport.0.clone()).map_err(usage)?.unwrap_or_default();
        let logs = command_line.logs().map_err(usage)?;
        // Before the store is opened, which may log.
        logs.start().map_err(|error| usage(error.into()))?;
        let skills = self.skills.iter().map(|directory| Skills::dir(directory).watch(true));
        let server = skills.fold(demo::server(), Server::skills);
        let server = self.stored.apply(server).await?;
        self.serve(server, command_line, &logs).await.map_err(usage)
    }

    async fn serve(
        self,
        server: Server,
        command_line: CommandLine,
        logs: &Logs,
    ) -> wharf::Result<()> {
        let kept = self.stored.description();
        let how_to_connect = match command_line.transport() {
            Transport::Stdio => client_configuration(),
            Transport::Http(_) => HTTP.to_owned(),
            _ => LINES.to_owned(),
        };
        let version = env!("CARGO_PKG_VERSION");
        // Stdout carries messages, so this goes to stderr.
        logs.print_status(&format!(
            "wharf-demo {version}: a demo server of every MCP revision.\n{kept}{how_to_connect}"
        ));
        server.run_with(command_line).await
    }
}

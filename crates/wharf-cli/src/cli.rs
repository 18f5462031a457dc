//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::common_options::{CommonOptions, seconds, seconds_or_none};
use crate::{
    auth::Auth,
    bridge::Bridge,
    bundle::Pack,
    registry::{Gen, Publish},
    serve::Serve,
};

pub(crate) const TARGET: &str = "\
TARGET is a URL (http, https, ws, wss, tcp, unix), the name of a configured server, or a program file.
Alternatively, `-- COMMAND...` at the end starts the server: wharf list -- npx -y some-server";

const ARGUMENTS: &str = "\
An ARG is key=value (converted by the tool's schema), key:=JSON, a JSON object, or - for a JSON object
on stdin. Repeat a key for a list; write a.b=value for a nested field.";

const EXITS: &str = "\
Stdout carries the result: tables and text at a terminal, JSON if piped or with --json.
Exit codes: 0 success, 1 invalid usage, 3 not authorized, 4 server unreachable, 5 server or tool error;
7, 8 and 9 are those of `wharf skills`.";

const TASKS: &str = "\
list    List your tasks, if the server supports it (legacy servers only)
get     Show the status of a task, with its result or its input requests
cancel  Request cancellation of a task
watch   Print a line for each status change, until the task ends
resume  Wait for the task like `wharf call`: prompt for its input requests, print its result

`wharf call --detach` prints the ID. Ctrl-C stops waiting; it does not cancel the task.";

const SKILLS: &str = "\
list    List the skills; no file is read
get     Show the front matter and the files of a skill, listed or not
read    Print SKILL.md, or the FILE of the skill (a path such as references/forms.md)
verify  Read all files of all skills, or of one, and compare them with their entries

Every file that is read is compared with its entry: size, digest, and the front matter of SKILL.md.
Exit codes: 7 a skill or a file is refused; of `verify`: 8 not all files were read, because there are more than
256 skills or 64 MiB, 9 files are generated and have no digests (with --require-digests).";

/// Command-line client and demo server for the Model Context Protocol.
#[derive(Debug, Parser)]
#[command(name = "wharf", version, arg_required_else_help = true,
          after_help = format!("{TARGET}\n\n{EXITS}"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// List the tools, resources, templates and prompts of a server
    List(List),
    /// Call a tool
    Call(Call),
    /// Read a resource
    Read(Read),
    /// Get the messages of a prompt
    Prompt(Prompt),
    /// Complete an argument of a prompt or a resource template
    Complete(Complete),
    /// Print change notifications as they arrive
    Listen(Listen),
    /// Send any JSON-RPC request and print its result
    Rpc(Rpc),
    /// List, show, cancel, watch and resume tasks
    Tasks(Tasks),
    /// List, show, read and verify the skills of a server
    Skills(Skills),
    /// Show a server's versions, capabilities, instructions and lists
    Inspect(Inspect),
    /// Load-test a server: measure throughput and latency
    Bench(Bench),
    /// Show the activity of a server, live: calls, errors, latencies, sessions, tasks
    Top(Top),
    /// Log in to servers that require authorization, show the login status, log out
    Auth(Auth),
    /// Start the demo server, which has every feature of the protocol
    Serve(Serve),
    /// Offer a server over another transport and in every revision, as mcp-remote, supergateway and mcp-proxy do
    Bridge(Box<Bridge>),
    /// Show the servers in the configuration files of MCP clients
    Config(Config),
    /// Pack a program as an MCP bundle (.mcpb), or check one
    Pack(Box<Pack>),
    /// Check a server.json for the MCP registry, with Cargo.toml and README
    Publish(Publish),
    /// Write files for publishing: server.json
    Gen(Gen),
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Positional arguments of a command.
#[derive(Debug, Args)]
pub(crate) struct PositionalArgs {
    #[arg(hide = true, value_name = "WORDS")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf list [OPTIONS] TARGET [tools|resources|templates|prompts]
       wharf list [OPTIONS] [tools|resources|templates|prompts] -- COMMAND...")]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = format!("{ARGUMENTS}\n\n{TARGET}"), override_usage = "\
wharf call [OPTIONS] TARGET TOOL [ARG]...
       wharf call [OPTIONS] TOOL [ARG]... -- COMMAND...")]
pub(crate) struct Call {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    /// Call the tool even if it is marked as destructive
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Save images, audio and other binary content to this file; - is stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Call as a task: print its id for `wharf tasks` and do not wait for the result
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf read [OPTIONS] TARGET URI
       wharf read [OPTIONS] URI -- COMMAND...")]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    /// Save the contents to this file; - is stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf prompt [OPTIONS] TARGET NAME [KEY=VALUE]...
       wharf prompt [OPTIONS] NAME [KEY=VALUE]... -- COMMAND...")]
pub(crate) struct Prompt {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf complete [OPTIONS] TARGET prompt|resource NAME|TEMPLATE ARG [VALUE]
       wharf complete [OPTIONS] prompt|resource NAME|TEMPLATE ARG [VALUE] -- COMMAND...")]
pub(crate) struct Complete {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    /// An argument that already has a value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) with: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = format!("Without --tools, --prompts, --resources and --uri, \
the changes of all lists are subscribed to. Ctrl-C stops it.\n\n{TARGET}"), override_usage = "\
wharf listen [OPTIONS] TARGET
       wharf listen [OPTIONS] -- COMMAND...")]
pub(crate) struct Listen {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    /// Subscribe to changes of the list of tools
    #[arg(long)]
    pub(crate) tools: bool,
    /// Subscribe to changes of the list of prompts
    #[arg(long)]
    pub(crate) prompts: bool,
    /// Subscribe to changes of the list of resources
    #[arg(long)]
    pub(crate) resources: bool,
    /// Subscribe to updates of this resource; may be repeated
    #[arg(long, value_name = "URI")]
    pub(crate) uri: Vec<String>,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf rpc [OPTIONS] TARGET METHOD [JSON|-]
       wharf rpc [OPTIONS] METHOD [JSON|-] -- COMMAND...")]
pub(crate) struct Rpc {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = format!("{TASKS}\n\n{TARGET}"), override_usage = "\
wharf tasks list [OPTIONS] TARGET
       wharf tasks get|cancel|watch|resume [OPTIONS] TARGET ID
       wharf tasks get|cancel|watch|resume [OPTIONS] ID -- COMMAND...")]
pub(crate) struct Tasks {
    /// Action
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) what: TasksCommand,
    // One by one, because the id of a task may begin with a hyphen.
    #[arg(hide = true, allow_hyphen_values = true)]
    pub(crate) first: Option<String>,
    #[arg(hide = true, allow_hyphen_values = true)]
    pub(crate) second: Option<String>,
    /// Save images, audio and other binary content of the result to this file; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TasksCommand {
    List,
    Get,
    Cancel,
    Watch,
    Resume,
}

#[derive(Debug, Args)]
#[command(after_help = format!("{SKILLS}\n\n{TARGET}"), override_usage = "\
wharf skills list [OPTIONS] TARGET
       wharf skills get [OPTIONS] TARGET URI
       wharf skills read [OPTIONS] TARGET URI [FILE]
       wharf skills verify [OPTIONS] TARGET [URI]
       wharf skills list|get|read|verify [OPTIONS] [URI [FILE]] -- COMMAND...")]
pub(crate) struct Skills {
    /// Action
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) what: SkillsCommand,
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    /// Save the file that was read to this file; - is stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Fail if a skill has generated files, which have no digests
    #[arg(long)]
    pub(crate) require_digests: bool,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SkillsCommand {
    List,
    Get,
    Read,
    Verify,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf inspect [OPTIONS] TARGET
       wharf inspect [OPTIONS] -- COMMAND...
       wharf inspect [OPTIONS] --card DOMAIN|URL [TARGET]")]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    /// Show the server cards of this domain, endpoint or URL instead, compared with TARGET or the server at the card's origin
    #[arg(long, value_name = "DOMAIN|URL")]
    pub(crate) card: Option<String>,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = format!("Without a TOOL, the cheapest method of every server is called: \
server/discover, or ping in the legacy era.\n\n{ARGUMENTS}\n\n{TARGET}"), override_usage = "\
wharf bench [OPTIONS] TARGET [TOOL [ARG]...]
       wharf bench [OPTIONS] [TOOL [ARG]...] -- COMMAND...")]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) words: PositionalArgs,
    /// Number of connections, each with its own session; a COMMAND is started once for each
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Number of calls in flight on each connection [default: 1; with --rate at most 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) in_flight: Option<u16>,
    /// Start this many calls a second in total, whether or not earlier ones have ended (open loop)
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Duration of the measurement [default: 10s]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "count")]
    pub(crate) duration: Option<Duration>,
    /// Number of calls, instead of a duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Duration of the warm-up before the measurement [default: 1s; with --count 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_none)]
    pub(crate) warmup: Option<Duration>,
    /// Call the tool even if it is marked as destructive
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) shared: CommonOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "TARGET is the admin listener of a server: `--admin 127.0.0.1:9464` starts it. Ctrl-C stops."
)]
pub(crate) struct Top {
    /// Address of the admin listener, such as 127.0.0.1:9464
    pub(crate) target: String,
    /// Show one report and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, at a terminal too: one object per report
    #[arg(long)]
    pub(crate) json: bool,
    /// Time between two reports [default: 1s]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) interval: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) what: Option<ConfigCommand>,
    /// Print JSON, at a terminal too
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List every configured server (the default)
    List,
    /// Show one server
    Show {
        /// Name of the server, or FILE#NAME
        name: String,
        /// Show the values of headers and environment variables, which may be secrets
        #[arg(long)]
        reveal: bool,
    },
    /// Show the locations of configuration files
    Paths,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1_000_000.0).contains(rate));
    rate.ok_or_else(|| "give a number of calls from 0.001 to 1000000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_id_of_a_task_may_begin_with_a_hyphen() {
        let lines = [
            ["wharf", "tasks", "get", "t", "-8z", "--json"],
            ["wharf", "tasks", "get", "--json", "t", "-oz"],
            ["wharf", "tasks", "get", "t", "--json", "-o"],
        ];
        for line in lines {
            let CliCommand::Tasks(tasks) = Cli::try_parse_from(line).unwrap().verb else {
                panic!()
            };
            assert_eq!(tasks.first.as_deref(), Some("t"));
            assert!(tasks.second.is_some_and(|id| id.starts_with('-')) && tasks.shared.json);
        }
        let line = ["wharf", "tasks", "get", "-8z", "--", "x"];
        let CliCommand::Tasks(tasks) = Cli::try_parse_from(line).unwrap().verb else { panic!() };
        assert_eq!((tasks.first.as_deref(), tasks.second), (Some("-8z"), None));
    }

    #[test]
    fn options_may_stand_anywhere_before_the_command() {
        let line =
            ["wharf", "call", "--yes", "t", "add", "a=1", "--json", "b=-2", "--", "x", "--json"];
        let CliCommand::Call(call) = Cli::try_parse_from(line).unwrap().verb else { panic!() };
        assert_eq!(call.words.words, ["t", "add", "a=1", "b=-2"]);
        assert_eq!(call.shared.command, ["x", "--json"]);
        assert!(call.yes && call.shared.json);
    }
}

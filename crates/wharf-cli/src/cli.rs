//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::common_options::{Shared, seconds, seconds_or_none};
use crate::{auth::Auth, serve::Serve};

const TARGET: &str = "\
TARGET is a URL (http, https, ws, wss, tcp, unix), a configured server's name, or a file to start.
Instead of it, `-- COMMAND...` at the end starts a server: wharf list -- npx -y some-server";

const ARGUMENTS: &str = "\
An ARG is key=value (typed by the tool's schema), key:=JSON, a JSON object, or - for one on stdin.
Repeat a key to make a list, and write a.b=value for a field within a field.";

const EXITS: &str = "\
Stdout carries the result: tables and text at a terminal, JSON when it is piped or with --json.
Exit codes: 0 done, 1 wrong usage, 3 not authorized, 4 unreachable, 5 the server or tool failed.";

const TASKS: &str = "\
list    All of your tasks, where the server lists them (2025-11-25)
get     Where the task ID stands, with its result or its questions
cancel  Ask the server to stop it
watch   A line each time it stands otherwise, up to its end
resume  Wait for it as if it had just been called: questions are answered, the result is printed

`wharf call --detach` gives the ID. Ctrl-C ends the waiting, not the task.";

/// A toolbox for the Model Context Protocol.
#[derive(Debug, Parser)]
#[command(name = "wharf", version, arg_required_else_help = true,
          after_help = format!("{TARGET}\n\n{EXITS}"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List what a server offers
    List(List),
    /// Call a tool
    Call(Call),
    /// Read a resource
    Read(Read),
    /// Get a prompt's messages
    Prompt(Prompt),
    /// Complete an argument of a prompt or a resource template
    Complete(Complete),
    /// Tell of changes as they happen
    Listen(Listen),
    /// Send any request and print its result
    Rpc(Rpc),
    /// List, show, cancel, watch and resume the tasks that calls became
    Tasks(Tasks),
    /// Show all about a server: versions, capabilities, instructions, everything listed
    Inspect(Inspect),
    /// Call over and over, and tell how many calls a second and how long they take
    Bench(Bench),
    /// Log in at servers that want to know who calls, see where you are logged in, log out
    Auth(Auth),
    /// Start the demo server, which shows everything a server can offer
    Serve(Serve),
    /// Show the servers that other programs have configured, and where
    Config(Config),
    /// Write a script that completes this command line in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What a verb is given beside its options.
#[derive(Debug, Args)]
pub(crate) struct Words {
    #[arg(hide = true, value_name = "WORDS")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf list [OPTIONS] TARGET [tools|resources|templates|prompts]
       wharf list [OPTIONS] [tools|resources|templates|prompts] -- COMMAND...")]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) words: Words,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
#[command(after_help = format!("{ARGUMENTS}\n\n{TARGET}"), override_usage = "\
wharf call [OPTIONS] TARGET TOOL [ARG]...
       wharf call [OPTIONS] TOOL [ARG]... -- COMMAND...")]
pub(crate) struct Call {
    #[command(flatten)]
    pub(crate) words: Words,
    /// Call the tool even if it is marked as destructive
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Save images, sound and other bytes to this file; - is stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Do not wait: print the id of the task that the call became, for `wharf tasks`
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf read [OPTIONS] TARGET URI
       wharf read [OPTIONS] URI -- COMMAND...")]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) words: Words,
    /// Save the contents to this file; - is stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf prompt [OPTIONS] TARGET NAME [KEY=VALUE]...
       wharf prompt [OPTIONS] NAME [KEY=VALUE]... -- COMMAND...")]
pub(crate) struct Prompt {
    #[command(flatten)]
    pub(crate) words: Words,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf complete [OPTIONS] TARGET prompt|resource NAME|TEMPLATE ARG [VALUE]
       wharf complete [OPTIONS] prompt|resource NAME|TEMPLATE ARG [VALUE] -- COMMAND...")]
pub(crate) struct Complete {
    #[command(flatten)]
    pub(crate) words: Words,
    /// An argument that is already settled
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) with: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
#[command(after_help = format!("Without any of --tools, --prompts, --resources and --uri, \
all lists are listened to. Ctrl-C ends it.\n\n{TARGET}"), override_usage = "\
wharf listen [OPTIONS] TARGET
       wharf listen [OPTIONS] -- COMMAND...")]
pub(crate) struct Listen {
    #[command(flatten)]
    pub(crate) words: Words,
    /// Tell when the list of tools changes
    #[arg(long)]
    pub(crate) tools: bool,
    /// Tell when the list of prompts changes
    #[arg(long)]
    pub(crate) prompts: bool,
    /// Tell when the list of resources changes
    #[arg(long)]
    pub(crate) resources: bool,
    /// Tell when this resource changes
    #[arg(long, value_name = "URI")]
    pub(crate) uri: Vec<String>,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf rpc [OPTIONS] TARGET METHOD [JSON|-]
       wharf rpc [OPTIONS] METHOD [JSON|-] -- COMMAND...")]
pub(crate) struct Rpc {
    #[command(flatten)]
    pub(crate) words: Words,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
#[command(after_help = format!("{TASKS}\n\n{TARGET}"), override_usage = "\
wharf tasks list [OPTIONS] TARGET
       wharf tasks get|cancel|watch|resume [OPTIONS] TARGET ID
       wharf tasks get|cancel|watch|resume [OPTIONS] ID -- COMMAND...")]
pub(crate) struct Tasks {
    /// What to do
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) what: TasksVerb,
    // One by one, because the id of a task may begin with a hyphen.
    #[arg(hide = true, allow_hyphen_values = true)]
    pub(crate) first: Option<String>,
    #[arg(hide = true, allow_hyphen_values = true)]
    pub(crate) second: Option<String>,
    /// Save images, sound and other bytes of the result to this file; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TasksVerb {
    List,
    Get,
    Cancel,
    Watch,
    Resume,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET, override_usage = "\
wharf inspect [OPTIONS] TARGET
       wharf inspect [OPTIONS] -- COMMAND...")]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) words: Words,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
#[command(after_help = format!("Without a TOOL, the least that every server answers is called: \
server/discover, or ping in the legacy era.\n\n{ARGUMENTS}\n\n{TARGET}"), override_usage = "\
wharf bench [OPTIONS] TARGET [TOOL [ARG]...]
       wharf bench [OPTIONS] [TOOL [ARG]...] -- COMMAND...")]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) words: Words,
    /// Connect so often, each time for a session of its own; a command is started so often
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Keep so many calls under way on each connection [default: 1; with --rate at most 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) in_flight: Option<u16>,
    /// Begin so many calls a second in all, whether or not earlier ones have ended
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Call for so long [default: 10s]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "count")]
    pub(crate) duration: Option<Duration>,
    /// Call so often, instead of for a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Call for so long before anything counts [default: 1s; with --count not at all]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_none)]
    pub(crate) warmup: Option<Duration>,
    /// Call the tool even if it is marked as destructive
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) what: Option<ConfigVerb>,
    /// Print JSON, at a terminal too
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// List every configured server (the default)
    List,
    /// Show one server
    Show {
        /// Its name, or FILE#NAME
        name: String,
        /// Show the values of headers and environment variables, which may be secret
        #[arg(long)]
        reveal: bool,
    },
    /// Show the files that are looked into
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
            let Verb::Tasks(tasks) = Cli::try_parse_from(line).unwrap().verb else { panic!() };
            assert_eq!(tasks.first.as_deref(), Some("t"));
            assert!(tasks.second.is_some_and(|id| id.starts_with('-')) && tasks.shared.json);
        }
        let line = ["wharf", "tasks", "get", "-8z", "--", "x"];
        let Verb::Tasks(tasks) = Cli::try_parse_from(line).unwrap().verb else { panic!() };
        assert_eq!((tasks.first.as_deref(), tasks.second), (Some("-8z"), None));
    }

    #[test]
    fn options_may_stand_anywhere_before_the_command() {
        let line =
            ["wharf", "call", "--yes", "t", "add", "a=1", "--json", "b=-2", "--", "x", "--json"];
        let Verb::Call(call) = Cli::try_parse_from(line).unwrap().verb else { panic!() };
        assert_eq!(call.words.words, ["t", "add", "a=1", "b=-2"]);
        assert_eq!(call.shared.command, ["x", "--json"]);
        assert!(call.yes && call.shared.json);
    }
}

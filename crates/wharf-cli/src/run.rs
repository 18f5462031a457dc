//! Runs the command line and returns the exit code.

use std::{env, pin::pin, process::ExitCode, time::Duration};

use clap::{
    Parser,
    error::{ContextKind, ErrorKind as Wrong},
};
use tokio::{runtime, signal};

use crate::{
    cli::{Cli, CliCommand, Top},
    context::Context,
    logging, registry, shell_completion,
    show::ResultOutput,
    terminal::StderrOutput,
};
use crate::{
    commands::{Run, configured},
    common_options::CommonOptions,
    error::CliError,
};

/// Timeouts for closing the connection: normally, and after `--timeout` expired. A child that does
/// not exit is killed meanwhile.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);
const SHORT_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_parse_error(error),
    };
    match cli.verb {
        CliCommand::Serve(serve) => run_server(serve.run(), false),
        CliCommand::Bridge(bridge) => {
            let json = bridge.shared.json;
            run_server(bridge.run(), json)
        }
        CliCommand::Top(top) => run_top(&top),
        CliCommand::Config(config) => {
            let (json, screen) = (config.json, StderrOutput::new());
            exit_code(configured(config, &screen), json, &screen)
        }
        CliCommand::Publish(publish) => {
            let json = publish.json;
            exit_code(registry::publish(&publish), json, &StderrOutput::new())
        }
        CliCommand::Gen(gen_command) => {
            let screen = StderrOutput::new();
            exit_code(registry::generate(&gen_command, &screen), false, &screen)
        }
        CliCommand::Completions { shell } => {
            let script = shell_completion::script(shell);
            exit_code(ResultOutput::new(false).bytes(&script), false, &StderrOutput::new())
        }
        verb => run_client(verb),
    }
}

/// Writes help and version to stdout, and any other parse error like other failures.
fn report_parse_error(mut error: clap::Error) -> ExitCode {
    let screen = StderrOutput::new();
    // Its hint to pass the word after `--` is wrong here: server commands follow `--`.
    if error.kind() == Wrong::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    match error.kind() {
        Wrong::DisplayHelp | Wrong::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ if screen.is_terminal() && !wants_json() => {
            let _ = error.print();
            ExitCode::from(1)
        }
        Wrong::DisplayHelpOnMissingArgumentOrSubcommand => {
            let fail = CliError::usage("No command is given")
                .hint("`wharf --help` shows them.".to_owned());
            exit_code(Err(fail), true, &screen)
        }
        _ => {
            let text = error.render().to_string();
            let text = text.trim().strip_prefix("error: ").unwrap_or(text.trim());
            let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
            let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
            exit_code(Err(CliError::usage(message.to_owned()).hint(rest)), true, &screen)
        }
    }
}

/// True if an invalid command line contains `--json`. It need not even be UTF-8.
fn wants_json() -> bool {
    env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

fn exit_code(result: Result<(), CliError>, json: bool, screen: &StderrOutput) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => {
            fail.print(json, screen);
            ExitCode::from(fail.exit as u8)
        }
    }
}

fn run_server(serving: impl Future<Output = Result<(), CliError>>, json: bool) -> ExitCode {
    let built = runtime::Builder::new_multi_thread().enable_all().build();
    let served = built.map_err(CliError::from).and_then(|runtime| runtime.block_on(serving));
    exit_code(served, json, &StderrOutput::new())
}

fn run_top(top: &Top) -> ExitCode {
    let built = runtime::Builder::new_current_thread().enable_all().build();
    let result = built.map_err(CliError::from).and_then(|runtime| {
        logging::start()?;
        runtime.block_on(top.run(wait_for_interrupt()))
    });
    exit_code(result, top.json, &StderrOutput::new())
}

fn run_client(mut verb: CliCommand) -> ExitCode {
    let Some(shared) = shared(&mut verb) else { return ExitCode::FAILURE };
    let context = Context::new(shared);
    let json = context.shared.json;
    if let Err(fail) = logging::start() {
        return exit_code(Err(fail), json, &context.screen);
    }
    // A single call needs one thread, which starts faster than many.
    let mut runtime = match verb {
        CliCommand::Bench(_) => runtime::Builder::new_multi_thread(),
        _ => runtime::Builder::new_current_thread(),
    };
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit_code(Err(error.into()), json, &context.screen),
    };
    let result = runtime.block_on(interruptible(&verb, &context));
    // A thread that is not awaited may still read from the terminal.
    runtime.shutdown_background();
    exit_code(result, json, &context.screen)
}

/// Runs the command until Ctrl-C; a second Ctrl-C does not wait for the server.
async fn interruptible(verb: &CliCommand, context: &Context) -> Result<(), CliError> {
    let result = match verb {
        // A benchmark reports its results however it ends.
        CliCommand::Bench(bench) => bench.run(context, wait_for_interrupt()).await,
        verb => run_until_interrupted(verb, context).await,
    };
    context.screen.clear();
    let close_timeout = if context.clock.is_up() { SHORT_CLOSE_TIMEOUT } else { CLOSE_TIMEOUT };
    tokio::select! {
        () = context.close() => {}
        () = tokio::time::sleep(close_timeout) => {}
        _ = wait_for_interrupt() => {}
    }
    result.map_err(|fail| context.with_login_hint(fail))
}

async fn run_until_interrupted(verb: &CliCommand, context: &Context) -> Result<(), CliError> {
    let work = pin!(run(verb, context));
    // The work is polled first: until it waits, Ctrl-C ends the process by default.
    tokio::select! {
        biased;
        result = work => result,
        () = context.clock.up(), if is_bounded(verb) => Err(context.timeout_error()),
        wait_for_interrupt = wait_for_interrupt() => {
            context.questions.end();
            Err(wait_for_interrupt)
        }
    }
    // Returning drops the call, which cancels it.
}

/// True if `--timeout` bounds the whole command: `listen` runs until it is interrupted.
fn is_bounded(verb: &CliCommand) -> bool {
    !matches!(verb, CliCommand::Listen(_))
}

/// Waits for SIGINT or SIGTERM. SIGTERM is handled too, because a started server that does not
/// notice the exit would be left running.
async fn wait_for_interrupt() -> CliError {
    #[cfg(unix)]
    if let Ok(mut end) = signal::unix::signal(signal::unix::SignalKind::terminate()) {
        return tokio::select! {
            _ = signal::ctrl_c() => CliError::interrupted(),
            _ = end.recv() => CliError::terminated(),
        };
    }
    let _ = signal::ctrl_c().await;
    CliError::interrupted()
}

async fn run(verb: &CliCommand, context: &Context) -> Result<(), CliError> {
    match verb {
        CliCommand::List(verb) => verb.run(context).await,
        CliCommand::Call(verb) => verb.run(context).await,
        CliCommand::Read(verb) => verb.run(context).await,
        CliCommand::Prompt(verb) => verb.run(context).await,
        CliCommand::Complete(verb) => verb.run(context).await,
        CliCommand::Listen(verb) => verb.run(context).await,
        CliCommand::Rpc(verb) => verb.run(context).await,
        CliCommand::Tasks(verb) => verb.run(context).await,
        CliCommand::Skills(verb) => verb.run(context).await,
        CliCommand::Inspect(verb) => verb.run(context).await,
        CliCommand::Auth(verb) => verb.run(context).await,
        CliCommand::Pack(verb) => verb.run(context).await,
        CliCommand::Bench(_)
        | CliCommand::Serve(_)
        | CliCommand::Bridge(_)
        | CliCommand::Top(_)
        | CliCommand::Config(_)
        | CliCommand::Publish(_)
        | CliCommand::Gen(_)
        | CliCommand::Completions { .. } => Ok(()),
    }
}

/// Takes the options shared by every command that connects to a server.
fn shared(verb: &mut CliCommand) -> Option<CommonOptions> {
    let shared = match verb {
        CliCommand::List(verb) => &mut verb.shared,
        CliCommand::Call(verb) => &mut verb.shared,
        CliCommand::Read(verb) => &mut verb.shared,
        CliCommand::Prompt(verb) => &mut verb.shared,
        CliCommand::Complete(verb) => &mut verb.shared,
        CliCommand::Listen(verb) => &mut verb.shared,
        CliCommand::Rpc(verb) => &mut verb.shared,
        CliCommand::Tasks(verb) => &mut verb.shared,
        CliCommand::Skills(verb) => &mut verb.shared,
        CliCommand::Inspect(verb) => &mut verb.shared,
        CliCommand::Bench(verb) => &mut verb.shared,
        CliCommand::Auth(verb) => {
            return Some(CommonOptions {
                json: verb.json(),
                connection: verb.connection(),
                ..CommonOptions::default()
            });
        }
        CliCommand::Pack(verb) => return Some(verb.common()),
        CliCommand::Serve(_)
        | CliCommand::Bridge(_)
        | CliCommand::Top(_)
        | CliCommand::Config(_)
        | CliCommand::Publish(_)
        | CliCommand::Gen(_)
        | CliCommand::Completions { .. } => return None,
    };
    Some(std::mem::take(shared))
}

//! Runs the command line and returns the exit code.

use std::{env, pin::pin, process::ExitCode, time::Duration};

use clap::{
    CommandFactory, Parser,
    error::{ContextKind, ErrorKind as Wrong},
};
use tokio::{runtime, signal};

use crate::{
    cli::{Cli, Verb},
    context::Context,
    logging,
    show::Out,
    terminal::Screen,
};
use crate::{
    commands::{Run, configured},
    common_options::Shared,
    error::Fail,
};

/// Timeouts for closing the connection: normally, and after `--timeout` expired. A child that does
/// not exit is killed meanwhile.
const GOODBYE: Duration = Duration::from_secs(6);
const SHORT_GOODBYE: Duration = Duration::from_millis(500);

/// Default log filter of a server, without `RUST_LOG`.
const SERVED: &str = "warn";

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(error),
    };
    match cli.verb {
        Verb::Serve(serve) => serve_until_end(serve),
        Verb::Config(config) => {
            let (json, screen) = (config.json, Screen::new());
            told(configured(config, &screen), json, &screen)
        }
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            // Generated in memory: writing directly to a closed stdout would panic.
            clap_complete::generate(shell, &mut Cli::command(), "wharf", &mut script);
            told(Out::new(false).bytes(&script), false, &Screen::new())
        }
        verb => with_server(verb),
    }
}

/// Writes help and version to stdout, and any other parse error like other failures.
fn misunderstood(mut error: clap::Error) -> ExitCode {
    let screen = Screen::new();
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
            let fail = Fail::usage("Which verb?").hint("`wharf --help` shows them.".to_owned());
            told(Err(fail), true, &screen)
        }
        _ => {
            let text = error.render().to_string();
            let text = text.trim().strip_prefix("error: ").unwrap_or(text.trim());
            let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
            let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
            told(Err(Fail::usage(message.to_owned()).hint(rest)), true, &screen)
        }
    }
}

/// True if an invalid command line contains `--json`. It need not even be UTF-8.
fn wants_json() -> bool {
    env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

fn told(result: Result<(), Fail>, json: bool, screen: &Screen) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => {
            fail.tell(json, screen);
            ExitCode::from(fail.exit as u8)
        }
    }
}

fn serve_until_end(serve: crate::serve::Serve) -> ExitCode {
    let built = runtime::Builder::new_multi_thread().enable_all().build();
    let served = logging::start(Some(SERVED)).and_then(|()| built?.block_on(serve.run()));
    told(served, false, &Screen::new())
}

fn with_server(mut verb: Verb) -> ExitCode {
    let Some(shared) = shared(&mut verb) else { return ExitCode::FAILURE };
    let context = Context::new(shared);
    let json = context.shared.json;
    if let Err(fail) = logging::start(None) {
        return told(Err(fail), json, &context.screen);
    }
    // A single call needs one thread, which starts faster than many.
    let mut runtime = match verb {
        Verb::Bench(_) => runtime::Builder::new_multi_thread(),
        _ => runtime::Builder::new_current_thread(),
    };
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return told(Err(error.into()), json, &context.screen),
    };
    let result = runtime.block_on(interruptible(&verb, &context));
    // A thread that is not awaited may still read from the terminal.
    runtime.shutdown_background();
    told(result, json, &context.screen)
}

/// Runs the command until Ctrl-C; a second Ctrl-C does not wait for the server.
async fn interruptible(verb: &Verb, context: &Context) -> Result<(), Fail> {
    let result = match verb {
        // A benchmark reports its results however it ends.
        Verb::Bench(bench) => bench.run(context, enough()).await,
        verb => until_enough(verb, context).await,
    };
    context.screen.clear();
    let goodbye = if context.clock.is_up() { SHORT_GOODBYE } else { GOODBYE };
    tokio::select! {
        () = context.close() => {}
        () = tokio::time::sleep(goodbye) => {}
        _ = enough() => {}
    }
    result.map_err(|fail| context.advised(fail))
}

async fn until_enough(verb: &Verb, context: &Context) -> Result<(), Fail> {
    let work = pin!(run(verb, context));
    // The work is polled first: until it waits, Ctrl-C ends the process by default.
    tokio::select! {
        biased;
        result = work => result,
        () = context.clock.up(), if is_bounded(verb) => Err(context.out_of_time()),
        enough = enough() => {
            context.questions.end();
            Err(enough)
        }
    }
    // Returning drops the call, which cancels it.
}

/// True if `--timeout` bounds the whole command: `listen` runs until it is interrupted.
fn is_bounded(verb: &Verb) -> bool {
    !matches!(verb, Verb::Listen(_))
}

/// Waits for SIGINT or SIGTERM. SIGTERM is handled too, because a started server that does not
/// notice the exit would be left running.
async fn enough() -> Fail {
    #[cfg(unix)]
    if let Ok(mut end) = signal::unix::signal(signal::unix::SignalKind::terminate()) {
        return tokio::select! {
            _ = signal::ctrl_c() => Fail::interrupted(),
            _ = end.recv() => Fail::terminated(),
        };
    }
    let _ = signal::ctrl_c().await;
    Fail::interrupted()
}

async fn run(verb: &Verb, context: &Context) -> Result<(), Fail> {
    match verb {
        Verb::List(verb) => verb.run(context).await,
        Verb::Call(verb) => verb.run(context).await,
        Verb::Read(verb) => verb.run(context).await,
        Verb::Prompt(verb) => verb.run(context).await,
        Verb::Complete(verb) => verb.run(context).await,
        Verb::Listen(verb) => verb.run(context).await,
        Verb::Rpc(verb) => verb.run(context).await,
        Verb::Tasks(verb) => verb.run(context).await,
        Verb::Inspect(verb) => verb.run(context).await,
        Verb::Auth(verb) => verb.run(context).await,
        Verb::Bench(_) | Verb::Serve(_) | Verb::Config(_) | Verb::Completions { .. } => Ok(()),
    }
}

/// Takes the options shared by every command that connects to a server.
fn shared(verb: &mut Verb) -> Option<Shared> {
    let shared = match verb {
        Verb::List(verb) => &mut verb.shared,
        Verb::Call(verb) => &mut verb.shared,
        Verb::Read(verb) => &mut verb.shared,
        Verb::Prompt(verb) => &mut verb.shared,
        Verb::Complete(verb) => &mut verb.shared,
        Verb::Listen(verb) => &mut verb.shared,
        Verb::Rpc(verb) => &mut verb.shared,
        Verb::Tasks(verb) => &mut verb.shared,
        Verb::Inspect(verb) => &mut verb.shared,
        Verb::Bench(verb) => &mut verb.shared,
        Verb::Auth(verb) => return Some(Shared { json: verb.json(), ..Shared::default() }),
        Verb::Serve(_) | Verb::Config(_) | Verb::Completions { .. } => return None,
    };
    Some(std::mem::take(shared))
}

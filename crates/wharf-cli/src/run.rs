//! From the command line to the exit code.

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

/// How long a server has to say goodbye, and after the time of `--timeout` is up. A child that does
/// not end is killed meanwhile.
const GOODBYE: Duration = Duration::from_secs(6);
const SHORT_GOODBYE: Duration = Duration::from_millis(500);

/// Which log lines a server writes, unless `RUST_LOG` says otherwise.
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
            // To memory first: written to stdout by itself, it would panic if nobody reads.
            clap_complete::generate(shell, &mut Cli::command(), "wharf", &mut script);
            told(Out::new(false).bytes(&script), false, &Screen::new())
        }
        verb => with_server(verb),
    }
}

/// Help and versions go to stdout; everything else is told as any other failure.
fn misunderstood(mut error: clap::Error) -> ExitCode {
    let screen = Screen::new();
    // It would say how to pass such a word behind `--`, which is where our commands are.
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

/// Whether a command line that was not understood says `--json`. It need not even be UTF-8.
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
    // One call needs one thread, which starts sooner than many.
    let mut runtime = match verb {
        Verb::Bench(_) => runtime::Builder::new_multi_thread(),
        _ => runtime::Builder::new_current_thread(),
    };
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return told(Err(error.into()), json, &context.screen),
    };
    let result = runtime.block_on(interruptible(&verb, &context));
    // Somebody may still be typing in a thread that nobody waits for.
    runtime.shutdown_background();
    told(result, json, &context.screen)
}

/// Does what the verb says until Ctrl-C; a second Ctrl-C does not wait for the server.
async fn interruptible(verb: &Verb, context: &Context) -> Result<(), Fail> {
    let result = match verb {
        // It has something to tell, however it ends.
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
    // The work goes first: until it waits for something, Ctrl-C ends the process as ever.
    tokio::select! {
        biased;
        result = work => result,
        () = context.clock.up(), if is_bounded(verb) => Err(context.out_of_time()),
        enough = enough() => {
            context.questions.end();
            Err(enough)
        }
    }
    // The end drops the call, and that cancels it.
}

/// Whether `--timeout` is for the whole command: what listens goes on until somebody ends it.
fn is_bounded(verb: &Verb) -> bool {
    !matches!(verb, Verb::Listen(_))
}

/// Waits until somebody says that it is enough. Being told to end is heard too, because a server
/// that does not notice would stay behind.
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

/// Takes the options that every verb with a server has.
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

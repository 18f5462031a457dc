//! From the command line to the exit code.

use std::{env, io, pin::pin, process::ExitCode, time::Duration};

use clap::{CommandFactory, Parser, error::ErrorKind as Wrong};
use tokio::{runtime, signal};

use crate::{
    cli::{Cli, Verb},
    context::Context,
    fail::Fail,
    shared::Shared,
    terminal::Screen,
    verbs::{Run, configured},
};

/// How long a server has to say goodbye. A child that does not end is killed meanwhile.
const GOODBYE: Duration = Duration::from_secs(6);

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    match cli.verb {
        Verb::Serve(serve) => serve_until_end(serve),
        Verb::Config(config) => {
            let (json, screen) = (config.json, Screen::new());
            told(configured(config, &screen), json, &screen)
        }
        Verb::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "wharf", &mut io::stdout());
            ExitCode::SUCCESS
        }
        verb => with_server(verb),
    }
}

/// Help and versions go to stdout; everything else is told as any other failure.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let screen = Screen::new();
    match error.kind() {
        Wrong::DisplayHelp | Wrong::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        Wrong::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(1)
        }
        _ if screen.is_terminal() && !env::args().any(|word| word == "--json") => {
            let _ = error.print();
            ExitCode::from(1)
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
    let served = match runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(serve.run()),
        Err(error) => Err(error.into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            Screen::new().line(&format!("Error: {failure:?}"));
            ExitCode::FAILURE
        }
    }
}

/// One call needs one thread, which starts sooner than many.
fn with_server(mut verb: Verb) -> ExitCode {
    let Some(shared) = shared(&mut verb) else { return ExitCode::FAILURE };
    let context = Context::new(shared);
    let json = context.shared.json;
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
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
    let result = {
        let work = pin!(run(verb, context));
        // The work goes first: until it waits for something, Ctrl-C ends the process as ever.
        tokio::select! {
            biased;
            result = work => result,
            _ = signal::ctrl_c() => {
                context.questions.end();
                Err(Fail::interrupted())
            }
        }
        // The end of this block drops the call, and that cancels it.
    };
    context.screen.clear();
    tokio::select! {
        () = context.close() => {}
        () = tokio::time::sleep(GOODBYE) => {}
        _ = signal::ctrl_c() => {}
    }
    result
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
        Verb::Inspect(verb) => verb.run(context).await,
        Verb::Serve(_) | Verb::Config(_) | Verb::Completions { .. } => Ok(()),
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
        Verb::Inspect(verb) => &mut verb.shared,
        Verb::Serve(_) | Verb::Config(_) | Verb::Completions { .. } => return None,
    };
    Some(std::mem::take(shared))
}

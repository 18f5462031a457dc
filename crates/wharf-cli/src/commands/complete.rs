//! `wharf complete`.

use serde_json::json;
use wharf::model::{Completion, CompletionRef};

use crate::commands::Run;
use crate::{
    cli::Complete, context::Context, error::CliError, target_argument, terminal::clean_line,
};

const USAGE_HINT: &str = "Write: prompt NAME ARG VALUE, or: resource TEMPLATE ARG VALUE.";

impl Run for Complete {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        let (of, argument, value) = parse(&words)?;
        let client = context.connect(target).await?;
        let calling = client.complete(of, argument, value).context(self.with.clone());
        show(context, &context.watch(calling).await?)
    }
}

fn parse(words: &[String]) -> Result<(CompletionRef, &str, &str), CliError> {
    let how = |message: &'static str| CliError::usage(message).hint(USAGE_HINT.to_owned());
    let (kind, name, argument, value) = match words {
        [kind, name, argument] => (kind, name, argument, ""),
        [kind, name, argument, value] => (kind, name, argument, value.as_str()),
        _ => return Err(how("No argument to complete is given")),
    };
    let of = match kind.as_str() {
        "prompt" => CompletionRef::Prompt(name.clone()),
        "resource" => CompletionRef::Resource(name.clone()),
        _ => {
            return Err(how(
                "Only arguments of prompts and of resource templates can be completed",
            ));
        }
    };
    Ok((of, argument, value))
}

fn show(context: &Context, completion: &Completion) -> Result<(), CliError> {
    let out = context.out;
    if out.is_json() {
        return out.json(&json!({"completion": completion}));
    }
    let values: Vec<String> =
        completion.values.iter().map(|value| clean_line(value).into_owned()).collect();
    out.lines(&values)?;
    match (completion.total, completion.has_more, values.is_empty()) {
        (_, _, true) => context.note("No value matches."),
        (Some(total), Some(true), _) => context.note(&format!("{total} in all")),
        (None, Some(true), _) => context.note("and more"),
        _ => {}
    }
    Ok(())
}

//! `wharf complete`.

use serde_json::json;
use wharf::model::{Completion, CompletionRef};

use crate::commands::Run;
use crate::{cli::Complete, context::Context, error::Fail, target, terminal::clean_line};

const HOW: &str = "Write: prompt NAME ARG VALUE, or: resource TEMPLATE ARG VALUE.";

impl Run for Complete {
    async fn run(&self, context: &Context) -> Result<(), Fail> {
        let words = self.words.words.clone();
        let (target, words) = target::split(words, &context.shared.command)?;
        let (of, argument, value) = asked(&words)?;
        let client = context.connect(target).await?;
        let calling = client.complete(of, argument, value).context(self.with.clone());
        show(context, &context.watch(calling).await?)
    }
}

fn asked(words: &[String]) -> Result<(CompletionRef, &str, &str), Fail> {
    let how = |message: &'static str| Fail::usage(message).hint(HOW.to_owned());
    let (kind, name, argument, value) = match words {
        [kind, name, argument] => (kind, name, argument, ""),
        [kind, name, argument, value] => (kind, name, argument, value.as_str()),
        _ => return Err(how("What is to be completed?")),
    };
    let of = match kind.as_str() {
        "prompt" => CompletionRef::Prompt(name.clone()),
        "resource" => CompletionRef::Resource(name.clone()),
        _ => return Err(how("Only arguments of prompts and of resource templates are completed")),
    };
    Ok((of, argument, value))
}

fn show(context: &Context, completion: &Completion) -> Result<(), Fail> {
    let out = context.out;
    if out.is_json() {
        return out.json(&json!({"completion": completion}));
    }
    let values: Vec<String> =
        completion.values.iter().map(|value| clean_line(value).into_owned()).collect();
    out.lines(&values)?;
    match (completion.total, completion.has_more, values.is_empty()) {
        (_, _, true) => context.tell("Nothing fits."),
        (Some(total), Some(true), _) => context.tell(&format!("{total} in all")),
        (None, Some(true), _) => context.tell("and more"),
        _ => {}
    }
    Ok(())
}

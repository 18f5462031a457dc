//! `wharf call`.

use std::{path::Path, sync::Arc};

use serde_json::{Map, Value, json};
use wharf::{
    Client, Content, ErrorKind, ToolResult, client::CallBuilder, model::ToolInfo, tasks::TaskHandle,
};

use crate::commands::Run;
use crate::{
    arguments::{arguments, parse_arguments},
    cli::Call,
    context::Context,
    error::CliError,
    show::{blobs_of_tool, is_destructive, result_lines, save},
    suggest, target_argument,
    terminal::{clean_line, cut, is_interactive},
};

impl Run for Call {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        let Some((name, words)) = words.split_first() else {
            return Err(CliError::usage("No tool is given")
                .hint("`wharf list TARGET tools` shows them.".to_owned()));
        };
        let words = parse_arguments(words)?;
        let client = context.connect(target).await?;
        let of = format!("The tool `{name}`");
        let (arguments, unlisted) = match look_up(client, name).await? {
            Ok(tool) => {
                let arguments = arguments(&of, &tool.input_schema, words)?;
                agreed(context, &tool, self.yes).await?;
                (arguments, None)
            }
            // Servers hide tools that the caller is not authorized for. The call itself returns the
            // required scopes.
            Err(unlisted) if context.sends_credentials().await => {
                (arguments(&of, &Value::Bool(true), words)?, Some(unlisted))
            }
            Err(unlisted) => return Err(unlisted),
        };
        let done = self.call(context, client, name, arguments).await;
        done.map_err(|fail| match unlisted {
            Some(unlisted) if fail.is_unknown_name() => unlisted,
            _ => fail,
        })
    }
}

impl Call {
    async fn call(
        &self,
        context: &Context,
        client: &Client,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<(), CliError> {
        let output = self.output.as_deref();
        if self.detach {
            let server = self.words.words.first().filter(|_| context.shared.command.is_empty());
            let server = server.map(|it| format!("{it} ")).unwrap_or_default();
            return detach(context, client.call_task(name, arguments), output, &server).await;
        }
        let result = context.watch(client.call(name, arguments)).await?;
        show(context, output, &result)
    }
}

/// Calls the tool as a task, and prints the commands that follow it.
async fn detach(
    context: &Context,
    calling: CallBuilder<TaskHandle>,
    output: Option<&Path>,
    server: &str,
) -> Result<(), CliError> {
    let task = context.watch(calling).await?;
    let Some(id) = task.id() else {
        context.note("The server returned the result at once, so there is no task.");
        let result = task.wait().await?;
        return show(context, output, &result);
    };
    if context.out.is_json() {
        context.out.json(&json!({"taskId": id}))?;
    } else {
        context.out.lines(&[clean_line(id).into_owned()])?;
    }
    context.note(&format!("`wharf tasks resume {server}{id}` waits for its result."));
    Ok(())
}

/// Shows the result of a tool. A tool error becomes a failure.
pub(super) fn show(
    context: &Context,
    output: Option<&Path>,
    result: &ToolResult,
) -> Result<(), CliError> {
    let out = context.out;
    match output {
        // An error text of the tool is not written to the output file.
        Some(file) if !result.is_error => {
            save(&blobs_of_tool(result)?, file, out, &context.screen)?;
        }
        _ if out.is_json() => out.json(result)?,
        _ => out.lines(&result_lines(result, out.paint()))?,
    }
    if result.is_error { Err(failed(result, out.is_json())) } else { Ok(()) }
}

/// Failure of a tool, with its own message unless the terminal already shows it.
pub(super) fn failed(result: &ToolResult, json: bool) -> CliError {
    let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
    let text = texts.join("\n");
    CliError::tool(if json && !text.is_empty() {
        cut(&text, 2000)
    } else {
        "The tool failed".to_owned()
    })
}

/// Requires consent before a destructive tool is called.
pub(super) async fn agreed(context: &Context, tool: &ToolInfo, yes: bool) -> Result<(), CliError> {
    if yes || !is_destructive(tool) {
        return Ok(());
    }
    let name = clean_line(&tool.name);
    if !is_interactive() {
        return Err(CliError::usage(format!("The tool `{name}` is marked as destructive"))
            .hint("Pass --yes to call it anyway.".to_owned()));
    }
    let question = format!("`{name}` may destroy something. Call it?");
    if context.questions.agree(question).await? {
        return Ok(());
    }
    Err(CliError::usage(format!("`{name}` was not called")))
}

/// Finds a listed tool by name.
pub(super) async fn find(client: &Client, name: &str) -> Result<Arc<ToolInfo>, CliError> {
    look_up(client, name).await?
}

/// Looks up a tool by name; the inner error means that it is not listed.
async fn look_up(client: &Client, name: &str) -> Result<Result<Arc<ToolInfo>, CliError>, CliError> {
    let mut tools = client.tools();
    let mut names = Vec::new();
    while let Some(tool) = tools.next().await {
        let tool = tool?;
        if tool.name == name {
            return Ok(Ok(tool));
        }
        names.push(tool.name.clone());
    }
    let hint =
        suggest::did_you_mean(name, names.iter().map(String::as_str)).unwrap_or_else(
            || match names.as_slice() {
                [] => "It has no tools.".to_owned(),
                names => format!("It has: {}.", cut(&clean_line(&names.join(", ")), 400)),
            },
        );
    let message = format!("The server has no tool `{name}`");
    Ok(Err(CliError::unknown(ErrorKind::ToolNotFound, message).hint(hint)))
}

//! `wharf listen`.

use serde_json::{Value, json};
use wharf::model::{Notification, ServerCapabilities, SubscriptionFilter};

use crate::commands::Run;
use crate::{
    cli::Listen,
    context::Context,
    error::CliError,
    target_argument,
    terminal::{clean_json, clean_line},
};

impl Run for Listen {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        if let Some(word) = words.first() {
            return Err(CliError::usage(format!("`{word}` is an unexpected argument"))
                .hint("--uri URI follows a resource.".to_owned()));
        }
        let client = context.connect(target).await?;
        let filter = self.filter(&client.capabilities());
        let mut listening = client.listen(filter.clone()).await?;
        print_agreed(context, &filter, listening.agreed())?;
        while let Some(change) = listening.next().await {
            show(context, &change?)?;
        }
        context.note("The server ended the subscription.");
        Ok(())
    }
}

impl Listen {
    /// Subscription filter: the options, or every list that the server offers.
    fn filter(&self, can: &ServerCapabilities) -> SubscriptionFilter {
        let Listen { tools, prompts, resources, uri, .. } = self;
        let all = !tools && !prompts && !resources && uri.is_empty();
        let changes = |list: &Option<wharf::model::ListCapability>| {
            list.as_ref().is_some_and(|it| it.list_changed)
        };
        SubscriptionFilter::default()
            .tools(*tools || (all && changes(&can.tools)))
            .prompts(*prompts || (all && changes(&can.prompts)))
            .resources(
                *resources || (all && can.resources.as_ref().is_some_and(|it| it.list_changed)),
            )
            .uris(uri.iter().cloned())
    }
}

/// Reports the subscriptions, and those that the server rejected.
fn print_agreed(
    context: &Context,
    wanted: &SubscriptionFilter,
    agreed: &SubscriptionFilter,
) -> Result<(), CliError> {
    let refused: Vec<String> =
        names(wanted).into_iter().filter(|name| !names(agreed).contains(name)).collect();
    if names(agreed).is_empty() {
        return Err(CliError::tool(
            "The server supports notifications for none of these".to_owned(),
        ));
    }
    if !refused.is_empty() {
        context
            .note(&format!("The server does not send notifications for: {}", refused.join(", ")));
    }
    context.note(&format!("Listening to {}. Ctrl-C stops it.", names(agreed).join(", ")));
    Ok(())
}

fn names(filter: &SubscriptionFilter) -> Vec<String> {
    let lists =
        [(filter.tools, "tools"), (filter.prompts, "prompts"), (filter.resources, "resources")];
    let lists = lists.into_iter().filter(|(on, _)| *on).map(|(_, name)| name.to_owned());
    lists.chain(filter.uris.iter().cloned()).collect()
}

fn show(context: &Context, change: &Notification) -> Result<(), CliError> {
    let (method, params, words) = match change {
        Notification::ToolsChanged => {
            ("tools/list_changed", Value::Null, "tools changed".to_owned())
        }
        Notification::PromptsChanged => {
            ("prompts/list_changed", Value::Null, "prompts changed".to_owned())
        }
        Notification::ResourcesChanged => {
            ("resources/list_changed", Value::Null, "resources changed".to_owned())
        }
        Notification::ResourceUpdated { uri } => {
            ("resources/updated", json!({"uri": **uri}), format!("{} changed", clean_line(uri)))
        }
        _ => return Ok(()),
    };
    if !context.out.is_json() {
        return context.out.lines(&[words]);
    }
    let mut line = json!({"method": format!("notifications/{method}")});
    if !params.is_null() {
        line["params"] = params;
    }
    // One line per event, at a terminal too: JSON output is read line by line.
    let line = line.to_string();
    context.out.lines(&[if context.out.is_terminal() {
        clean_json(&line).into_owned()
    } else {
        line
    }])
}

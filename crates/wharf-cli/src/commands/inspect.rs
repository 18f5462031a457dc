//! `wharf inspect`.

use serde::Serialize;
use wharf::{
    client::ServerInfo,
    model::{Implementation, ServerCapabilities},
};

use crate::commands::{Run, card::inspect_card, list::fetch};
use crate::{
    cli::Inspect,
    context::Context,
    error::CliError,
    show::{Lists, wrapped},
    target_argument,
    terminal::{Paint, clean, clean_line, labelled, width, wrap},
};

/// JSON output of `wharf inspect`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InspectReport<'a> {
    server: &'a Implementation,
    protocol_version: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    supported_versions: &'a [String],
    capabilities: &'a ServerCapabilities,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    #[serde(flatten)]
    lists: &'a Lists,
}

impl Run for Inspect {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        if let Some(card) = &self.card
            && words.is_empty()
            && context.shared.command.is_empty()
        {
            return inspect_card(card, None, context).await;
        }
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        if let Some(word) = words.first() {
            return Err(CliError::usage(format!("`{word}` is an unexpected argument"))
                .hint("`wharf list TARGET tools` lists the tools only.".to_owned()));
        }
        if let Some(card) = &self.card {
            return inspect_card(card, Some(target), context).await;
        }
        let client = context.connect(target).await?;
        let lists = fetch(client, &[]).await?;
        let about = client.about();
        let out = context.out;
        if !out.is_json() {
            let mut lines = heading(&about, out.columns(), out.paint());
            lines.extend(lists.lines(out.columns(), out.paint()));
            return out.lines(&lines);
        }
        out.json(&InspectReport {
            server: &about.info,
            protocol_version: &about.revision,
            supported_versions: &about.supported,
            capabilities: &about.discovery.capabilities,
            instructions: about.discovery.instructions.as_deref(),
            lists: &lists,
        })
    }
}

/// Width of the labels in the heading.
const LABEL_WIDTH: usize = 14;

/// Heading before the lists.
fn heading(about: &ServerInfo, columns: usize, paint: Paint) -> Vec<String> {
    let info = &about.info;
    let title = info.title.as_deref().map(clean_line).unwrap_or_default();
    let name = format!("{} {}", clean_line(&info.name), clean_line(&info.version));
    let mut lines = match width(&name) + 2 + width(&title) <= columns {
        true => vec![format!("{}  {title}", paint.bold(&name)).trim_end().to_owned()],
        false => {
            let mut lines: Vec<String> =
                wrap(&name, columns).iter().map(|it| paint.bold(it)).collect();
            lines.extend(wrap(&title, columns).into_iter().filter(|line| !line.is_empty()));
            lines
        }
    };
    lines.extend(info.description.iter().flat_map(|text| wrapped(text, columns)));
    lines.extend(info.website_url.iter().map(|url| clean_line(url).into_owned()));
    let mut row = |name: &str, text: String| {
        lines.extend(labelled(name, &clean(&text), LABEL_WIDTH, columns, paint));
    };
    row("Versions", protocol_versions(about));
    row("Capabilities", capabilities(&about.discovery.capabilities));
    if let Some(text) = &about.discovery.instructions {
        lines.push(paint.cyan("Instructions"));
        lines.extend(wrapped(text, columns - 2).into_iter().map(|line| format!("  {line}")));
    }
    lines.push(String::new());
    lines
}

fn protocol_versions(about: &ServerInfo) -> String {
    let others: Vec<&str> =
        about.supported.iter().map(String::as_str).filter(|it| *it != about.revision).collect();
    let protocol_versions = clean_line(&about.revision);
    if others.is_empty() {
        return protocol_versions.into_owned();
    }
    format!("{protocol_versions} (and {})", clean_line(&others.join(", ")))
}

/// Formats the capabilities: `tools (change notifications), resources (…)`.
fn capabilities(can: &ServerCapabilities) -> String {
    const CHANGES: &str = "change notifications";
    let list = |name: &str, changes: bool| {
        if changes { format!("{name} ({CHANGES})") } else { name.to_owned() }
    };
    let mut all = Vec::new();
    all.extend(can.tools.as_ref().map(|it| list("tools", it.list_changed)));
    all.extend(can.resources.as_ref().map(|it| match (it.list_changed, it.subscribe) {
        (true, true) => format!("resources ({CHANGES}, subscriptions)"),
        (false, true) => "resources (subscriptions)".to_owned(),
        (changes, false) => list("resources", changes),
    }));
    all.extend(can.prompts.as_ref().map(|it| list("prompts", it.list_changed)));
    all.extend(can.completions.then(|| "completions".to_owned()));
    all.extend(can.logging.then(|| "logging".to_owned()));
    all.extend(can.tasks.is_some().then(|| "tasks".to_owned()));
    all.extend(can.extensions.keys().map(|name| clean_line(name).into_owned()));
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

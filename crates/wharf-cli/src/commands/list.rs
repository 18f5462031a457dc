//! `wharf list`.

use wharf::{Client, client::CallError, model::Method};

use crate::commands::Run;
use crate::{cli::List, context::Context, error::CliError, show::Lists, suggest, target_argument};

/// Kinds of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl ListKind {
    const ALL: [(&'static str, ListKind); 4] = [
        ("tools", ListKind::Tools),
        ("resources", ListKind::Resources),
        ("templates", ListKind::Templates),
        ("prompts", ListKind::Prompts),
    ];

    fn named(word: &str) -> Result<ListKind, CliError> {
        let found = ListKind::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names = ListKind::ALL.map(|(name, _)| name);
            let all = format!("Choose one of {}.", names.join(", "));
            CliError::usage(format!("`{word}` cannot be listed"))
                .hint(suggest::did_you_mean(word, names).unwrap_or(all))
        })
    }

    /// The method that lists it.
    fn method(self) -> Method {
        match self {
            ListKind::Tools => Method::ListTools,
            ListKind::Resources => Method::ListResources,
            ListKind::Templates => Method::ListTemplates,
            ListKind::Prompts => Method::ListPrompts,
        }
    }
}

/// Rejects a kind in the place of the server, as in `wharf list tools URL`.
fn check_order(words: &[String]) -> Result<(), CliError> {
    let is_kind = |word: &String| ListKind::ALL.iter().any(|(name, _)| name == word);
    match words {
        [kind, server, ..] if is_kind(kind) && !is_kind(server) => {
            Err(CliError::usage(format!("`{kind}` is not a server"))
                .hint(format!("The server comes first: `wharf list {server} {kind}`.")))
        }
        _ => Ok(()),
    }
}

impl Run for List {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        if context.shared.command.is_empty() {
            check_order(&words)?;
        }
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        let kinds =
            words.iter().map(|word| ListKind::named(word)).collect::<Result<Vec<_>, _>>()?;
        let client = context.connect(target).await?;
        let lists = fetch(client, &kinds).await?;
        let out = context.out;
        if out.is_json() {
            return out.json(&lists);
        }
        let lines = lists.lines(out.columns(), out.paint());
        if lines.is_empty() {
            context.note("The server offers nothing to list.");
        }
        out.lines(&lines)
    }
}

/// Fetches these lists, or all that the server offers.
pub(super) async fn fetch(client: &Client, kinds: &[ListKind]) -> Result<Lists, CliError> {
    let can = client.capabilities();
    let wanted =
        |kind: ListKind| kinds.contains(&kind) || (kinds.is_empty() && can.offer(kind.method()));
    let named = !kinds.is_empty();
    let mut lists = Lists::default();
    if wanted(ListKind::Tools) {
        lists.tools = offered(client.tools().all().await, named)?;
    }
    if wanted(ListKind::Resources) {
        lists.resources = offered(client.resources().all().await, named)?;
    }
    if wanted(ListKind::Templates) {
        lists.resource_templates = offered(client.templates().all().await, named)?;
    }
    if wanted(ListKind::Prompts) {
        lists.prompts = offered(client.prompts().all().await, named)?;
    }
    Ok(lists)
}

/// Many servers with resources do not support templates, and no capability declares it. That is an
/// error only if templates were requested by name.
fn offered<T>(list: Result<Vec<T>, CallError>, named: bool) -> Result<Option<Vec<T>>, CliError> {
    match list {
        Ok(list) => Ok(Some(list)),
        Err(error) if error.kind().is_method_not_found() && !named => Ok(None),
        Err(error) => Err(error.into()),
    }
}

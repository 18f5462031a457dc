//! Lists of a server's features, as tables or JSON.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use wharf::model::{PromptInfo, ResourceInfo, TemplateInfo, ToolInfo};

use crate::{
    arguments::signature,
    terminal::{Paint, clean, clean_line, cut, table, wrap},
};

/// Maximum length of a description in a table; JSON contains all of it.
const MAX_DESCRIPTION_CHARS: usize = 300;

/// Features of a server; a list is `None` if it was not requested or is not offered.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lists {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shared")]
    pub(crate) tools: Option<Vec<Arc<ToolInfo>>>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shared")]
    pub(crate) resources: Option<Vec<Arc<ResourceInfo>>>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shared")]
    pub(crate) resource_templates: Option<Vec<Arc<TemplateInfo>>>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shared")]
    pub(crate) prompts: Option<Vec<Arc<PromptInfo>>>,
}

fn shared<T: Serialize, S: Serializer>(
    list: &Option<Vec<Arc<T>>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(list.iter().flatten().map(|item| &**item))
}

impl Lists {
    /// Tables, each under its title.
    pub(crate) fn lines(&self, columns: usize, paint: Paint) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |title: &str, head: &[&str], rows: Option<Vec<Vec<String>>>| {
            let Some(rows) = rows else { return };
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let title = wrap(&format!("{title} ({})", rows.len()), columns);
            lines.extend(title.iter().map(|line| paint.cyan(line)));
            if !rows.is_empty() {
                lines.extend(table(head, &rows, columns, paint));
            }
        };
        let of = |rows: &Option<Vec<_>>| rows.as_ref().map(|all| all.iter().map(tool).collect());
        add("Tools", &["NAME", "ARGUMENTS", "DESCRIPTION"], of(&self.tools));
        let of =
            |rows: &Option<Vec<_>>| rows.as_ref().map(|all| all.iter().map(resource).collect());
        add("Resources", &["URI", "NAME", "TYPE", "DESCRIPTION"], of(&self.resources));
        let of =
            |rows: &Option<Vec<_>>| rows.as_ref().map(|all| all.iter().map(template).collect());
        add(
            "Resource templates",
            &["TEMPLATE", "NAME", "TYPE", "DESCRIPTION"],
            of(&self.resource_templates),
        );
        let of = |rows: &Option<Vec<_>>| rows.as_ref().map(|all| all.iter().map(prompt).collect());
        add("Prompts", &["NAME", "ARGUMENTS", "DESCRIPTION"], of(&self.prompts));
        lines
    }
}

fn tool(tool: &Arc<ToolInfo>) -> Vec<String> {
    let mut about = about(tool.description.as_deref().or(tool.title.as_deref()));
    if is_destructive(tool) {
        about = format!("{about} (destructive)").trim_start().to_owned();
    }
    vec![name(&tool.name), signature(&tool.input_schema), about]
}

/// True if the server marks the tool as destructive.
pub(crate) fn is_destructive(tool: &ToolInfo) -> bool {
    let hints = tool.annotations.as_ref();
    hints.is_some_and(|it| it.destructive_hint == Some(true) && it.read_only_hint != Some(true))
}

fn resource(it: &Arc<ResourceInfo>) -> Vec<String> {
    let kind = it.mime_type.as_deref().map(clean_line).unwrap_or_default().into_owned();
    let about = about(it.description.as_deref().or(it.title.as_deref()));
    vec![name(&it.uri), name(&it.name), kind, about]
}

fn template(it: &Arc<TemplateInfo>) -> Vec<String> {
    let kind = it.mime_type.as_deref().map(clean_line).unwrap_or_default().into_owned();
    let about = about(it.description.as_deref().or(it.title.as_deref()));
    vec![name(&it.uri_template), name(&it.name), kind, about]
}

fn prompt(prompt: &Arc<PromptInfo>) -> Vec<String> {
    let argument = |it: &wharf::model::PromptArgument| {
        if it.required { name(&it.name) } else { format!("[{}]", name(&it.name)) }
    };
    let arguments: Vec<String> = prompt.arguments.iter().map(argument).collect();
    let about = about(prompt.description.as_deref().or(prompt.title.as_deref()));
    vec![name(&prompt.name), arguments.join(" "), about]
}

fn name(text: &str) -> String {
    cut(&clean_line(text), MAX_DESCRIPTION_CHARS)
}

/// First paragraph of a description.
fn about(text: Option<&str>) -> String {
    let text = text.unwrap_or_default().trim();
    let first = text.split("\n\n").next().unwrap_or_default();
    cut(&clean_line(first), MAX_DESCRIPTION_CHARS)
}

/// Text of the server, wrapped to the available width.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    wrap(&clean(text), columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf::model::{PromptArgument, ToolAnnotations};

    fn lists() -> Lists {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"},
            "b": {"type": "string"}}, "required": ["a"]});
        let drop = ToolInfo::new("drop", schema)
            .description("Drops it.\n\nAt length.")
            .annotations(ToolAnnotations::default().destructive(true));
        let evil = ToolInfo::without_parameters("ev\x1b[2Jil");
        let ask = PromptInfo::new("ask").argument(PromptArgument::new("what").required(true));
        let ask = ask.argument(PromptArgument::new("why"));
        Lists {
            tools: Some(vec![Arc::new(drop), Arc::new(evil)]),
            resources: Some(Vec::new()),
            prompts: Some(vec![Arc::new(ask)]),
            ..Lists::default()
        }
    }

    #[test]
    fn lists_are_formatted_as_tables() {
        let expected = [
            "Tools (2)",
            "NAME           ARGUMENTS               DESCRIPTION",
            "drop           a=integer [b=string]    Drops it. (destructive)",
            "ev\\x1b[2Jil",
            "",
            "Resources (0)",
            "",
            "Prompts (1)",
            "NAME  ARGUMENTS",
            "ask   what [why]",
        ];
        let lines = lists().lines(80, Paint::PLAIN);
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        for (line, expected) in lines.iter().zip(expected) {
            assert_eq!(squeezed(line), squeezed(expected));
        }
        assert_eq!(lines.len(), expected.len());
    }

    #[test]
    fn json_omits_missing_lists() {
        let json = serde_json::to_value(lists()).unwrap();
        assert_eq!(json["resources"], json!([]));
        assert!(json.get("resourceTemplates").is_none());
        assert_eq!(json["tools"][0]["annotations"]["destructiveHint"], true);
    }
}

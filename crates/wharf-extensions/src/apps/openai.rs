//! Keys of ChatGPT, which has its own names for the metadata of apps and the callers of tools.

use serde_json::{Map, Value, json};
use wharf_server::{ServerParts, Tool};

use crate::apps::tool::ui_of;

/// Key that every page with the keys of ChatGPT has.
const CSP: &str = "openai/widgetCSP";

/// Returns the keys of a page whose metadata is `ui`.
pub(crate) fn page_keys(
    ui: &Map<String, Value>,
    description: Option<&str>,
) -> Vec<(&'static str, Value)> {
    let list = |name: &str| ui.get("csp").and_then(|csp| csp.get(name)).cloned();
    let mut csp = json!({
        "connect_domains": list("connectDomains").unwrap_or(json!([])),
        "resource_domains": list("resourceDomains").unwrap_or(json!([])),
    });
    if let Some(frames) = list("frameDomains") {
        csp["frame_domains"] = frames;
    }
    let mut keys = vec![(CSP, csp)];
    let border = ui.get("prefersBorder").cloned();
    keys.extend(border.map(|border| ("openai/widgetPrefersBorder", border)));
    keys.extend(description.map(|text| ("openai/widgetDescription", text.into())));
    let domain = ui.get("domain").and_then(Value::as_str);
    keys.extend(domain.map(|domain| ("openai/widgetDomain", origin(domain).into())));
    keys
}

/// Returns the origin that ChatGPT expects for a domain.
fn origin(domain: &str) -> String {
    if domain.starts_with("https://") { domain.to_owned() } else { format!("https://{domain}") }
}

/// Adds the keys to the tools, if a page has them: to those of such a page, and to those that pages call.
pub(crate) fn complete_tools(parts: &mut ServerParts<'_>) {
    let has_keys = |meta: &Map<String, Value>| meta.contains_key(CSP);
    let pages =
        parts.resources().filter(|it| it.info().meta.as_ref().is_some_and(|it| has_keys(it)));
    let pages: Vec<String> = pages.map(|it| it.uri().to_owned()).collect();
    if !pages.is_empty() {
        parts.edit_tools(|tool| complete_tool(tool, &pages));
    }
}

fn complete_tool(tool: Tool, pages: &[String]) -> Tool {
    let Some(ui) = ui_of(&tool) else { return tool };
    let page = ui.get("resourceUri").and_then(Value::as_str).map(str::to_owned);
    if page.as_ref().is_some_and(|page| !pages.contains(page)) {
        return tool;
    }
    let has = |caller: &str| match ui.get("visibility").and_then(Value::as_array) {
        Some(callers) => callers.iter().any(|it| it == caller),
        None => true,
    };
    let (by_page, by_model) = (has("app"), has("model"));
    let tool = match page {
        Some(page) => tool.meta("openai/outputTemplate", page),
        None => tool,
    };
    let tool = tool.meta("openai/widgetAccessible", by_page);
    if by_model { tool } else { tool.meta("openai/visibility", "private") }
}

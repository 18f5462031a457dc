//! Checks of the apps of a server and of the tools that name them, when the server is built.

use serde_json::Value;
use wharf_server::{ProtocolExtension, Resource, ServerParts, Tool};

use crate::apps::{EXTENSION, MIME_TYPE, csp, openai, tool::ui_of};

/// Scheme of the URIs of apps, with its separator.
const SCHEME: &str = "ui://";

/// Creates the extension, which every app and every tool of an app brings.
pub(crate) fn extension() -> ProtocolExtension {
    ProtocolExtension::new(EXTENSION).prepare(|parts| {
        let mut findings = Findings::default();
        let all = &*parts;
        all.tools().for_each(|tool| check_tool(tool, all, &mut findings));
        all.resources().for_each(|resource| check_resource(resource, all, &mut findings));
        for (item, text) in findings.warnings {
            parts.warn(&item, &text);
        }
        for (item, text) in findings.problems {
            parts.problem(item, text);
        }
        openai::complete_tools(parts);
    })
}

/// Items, each with a text about it.
#[derive(Default)]
struct Findings {
    problems: Vec<(String, String)>,
    warnings: Vec<(String, String)>,
}

fn check_tool(tool: &Tool, parts: &ServerParts<'_>, findings: &mut Findings) {
    let Some(ui) = ui_of(tool) else { return };
    let item = format!("tool `{}`", tool.info().name);
    let mut problem = |text: String| findings.problems.push((item.clone(), text));
    let callers = ui.get("visibility").and_then(Value::as_array);
    if callers.is_some_and(Vec::is_empty) {
        problem(
            "its visibility is empty, so that nothing may call it: name the model, the app or both"
                .to_owned(),
        );
    }
    for field in ["csp", "domain", "permissions", "prefersBorder"] {
        if ui.contains_key(field) {
            problem(format!("its `_meta.ui.{field}` has no effect on a tool: set it on the `App`"));
        }
    }
    let Some(uri) = ui.get("resourceUri") else {
        if !parts.resources().any(is_app) {
            problem(
                "it has a visibility, which has no effect in a server without an app: add an app with \
                 `.app(App::html(…))`, or remove it"
                    .to_owned(),
            );
        }
        return;
    };
    if let Some(text) = app_problem(uri.as_str().unwrap_or_default(), parts) {
        problem(text);
    }
    let for_model = callers.is_none_or(|callers| callers.iter().any(|it| it == "model"));
    if for_model && !tool.has_content() {
        let text = "its results have no content, and the model and clients without apps need a text: return one";
        findings.warnings.push((item, text.to_owned()));
    }
}

/// Returns the problem of the app that a tool names.
fn app_problem(uri: &str, parts: &ServerParts<'_>) -> Option<String> {
    if !uri.starts_with(SCHEME) {
        return Some(format!("its app `{uri}` must begin with `{SCHEME}`: rename it"));
    }
    let Some(resource) = parts.resource_at(uri) else {
        let served = parts.resources().filter(|it| is_app(it)).map(|it| format!("`{}`", it.uri()));
        let served: Vec<String> = served.collect();
        let hint = match served.is_empty() {
            true => String::new(),
            false => format!(", or name one of those that it has: {}", served.join(", ")),
        };
        return Some(format!(
            "the server does not have its app `{uri}`: add it with `.app(App::html(\"{uri}\", …))`{hint}"
        ));
    };
    let mime = resource.info().mime_type.as_deref();
    (mime != Some(MIME_TYPE)).then(|| {
        format!(
            "its app `{uri}` has the media type `{}`, and hosts show only `{MIME_TYPE}`: serve it as an `App`, or set \
             the type with `.mime(…)`",
            mime.unwrap_or("text/plain")
        )
    })
}

fn is_app(resource: &Resource) -> bool {
    resource.info().mime_type.as_deref() == Some(MIME_TYPE)
}

fn check_resource(resource: &Resource, parts: &ServerParts<'_>, findings: &mut Findings) {
    if !is_app(resource) {
        return;
    }
    let uri = resource.uri();
    let item = format!("app `{uri}`");
    let mut problem = |text: String| findings.problems.push((item.clone(), text));
    if !uri.starts_with(SCHEME) {
        problem(format!(
            "the URI of an app begins with `{SCHEME}`, as in `{SCHEME}weather`: rename it"
        ));
    }
    let empty = Value::Null;
    let ui = resource.info().meta.as_ref().and_then(|meta| meta.get("ui")).unwrap_or(&empty);
    csp::problems(&ui["csp"]).into_iter().for_each(&mut problem);
    ui["domain"].as_str().and_then(csp::domain_problem).into_iter().for_each(&mut problem);
    for origin in csp::unencrypted_origins(&ui["csp"]) {
        let text = format!("browsers block `{origin}` in a page on HTTPS: use https or wss");
        findings.warnings.push((item.clone(), text));
    }
    let names_it = |tool: &Tool| {
        ui_of(tool).is_some_and(|ui| ui.get("resourceUri").is_some_and(|it| it == uri))
    };
    if !resource.is_template() && !parts.tools().any(names_it) {
        let text = "no tool names it, so that hosts do not show it: add `.app(…)` to a tool";
        findings.warnings.push((item, text.to_owned()));
    }
}

//! Translates values for older revisions: removes or rewrites fields that a revision does not have.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use wharf_model::{Method, TASKS_EXTENSION};

use crate::{
    Revision,
    versions::{
        fields::VersionedType,
        result_wrapper,
        revision::{Feature, RequestKind},
    },
};

fn drop_unknown(value: &mut Value, shape: VersionedType, revision: Revision) {
    if let Value::Object(fields) = value {
        for name in shape.unknown_to(revision) {
            fields.remove(name);
        }
    }
}

fn translate_annotations(value: &mut Value, revision: Revision) {
    if let Some(annotations) = value.get_mut("annotations") {
        drop_unknown(annotations, VersionedType::Annotations, revision);
    }
}

pub(crate) fn implementation(value: &mut Value, revision: Revision) {
    drop_unknown(value, VersionedType::Implementation, revision);
}

pub(crate) fn server_capabilities(value: &mut Value, revision: Revision) {
    drop_unknown(value, VersionedType::ServerCapabilities, revision);
    drop_tasks_extension(value, revision);
}

/// Removes the tasks extension where tasks are part of the protocol, or unknown. Every revision has other
/// extensions: capabilities are not a closed set.
fn drop_tasks_extension(capabilities: &mut Value, revision: Revision) {
    let has_tasks = RequestKind::Call(Method::UpdateTask).name(revision).is_some();
    let Some(extensions) = capabilities.get_mut("extensions").filter(|_| !has_tasks) else {
        return;
    };
    let Value::Object(by_id) = extensions else { return };
    by_id.remove(TASKS_EXTENSION);
    if by_id.is_empty() {
        drop_field(capabilities, "extensions");
    }
}

fn drop_field(value: &mut Value, name: &str) {
    if let Value::Object(fields) = value {
        fields.remove(name);
    }
}

/// Translates client capabilities.
pub(crate) fn client_capabilities(value: &mut Value, revision: Revision) {
    // Without elicitation modes, elicitation means forms.
    let modes: &[&str] =
        if revision.has(Feature::ElicitationModes) { &["form", "url"] } else { &["form"] };
    let Value::Object(fields) = value else { return };
    if fields.get("elicitation").is_some_and(|it| modes.iter().all(|mode| it[mode].is_null())) {
        fields.remove("elicitation");
    }
    for (field, shape) in [
        ("elicitation", VersionedType::ElicitationCapability),
        ("roots", VersionedType::RootsCapability),
        ("sampling", VersionedType::SamplingCapability),
    ] {
        if let Some(capability) = fields.get_mut(field) {
            drop_unknown(capability, shape, revision);
        }
    }
    drop_unknown(value, VersionedType::ClientCapabilities, revision);
    drop_tasks_extension(value, revision);
}

pub(crate) fn tool(value: &mut Value, revision: Revision) {
    drop_unknown(value, VersionedType::Tool, revision);
    if revision.has(Feature::AnyJson) {
        return;
    }
    let Value::Object(fields) = value else { return };
    if let Some(schema) = fields.get_mut("outputSchema") {
        result_wrapper::schema(schema);
    }
    for schema in ["inputSchema", "outputSchema"] {
        if let Some(schema) = fields.get_mut(schema) {
            without_boolean_schemas(schema);
        }
    }
}

/// Translates resources and resource templates.
pub(crate) fn resource(value: &mut Value, revision: Revision) {
    drop_unknown(value, VersionedType::Resource, revision);
    translate_annotations(value, revision);
}

pub(crate) fn prompt(value: &mut Value, revision: Revision) {
    drop_unknown(value, VersionedType::Prompt, revision);
    for argument in value.get_mut("arguments").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_unknown(argument, VersionedType::PromptArgument, revision);
    }
}

/// Translates the contents of a resource.
pub(crate) fn contents(value: &mut Value, revision: Revision) {
    drop_unknown(value, VersionedType::Content, revision);
}

/// Translates a content item of a tool result or prompt message.
pub(crate) fn content(value: &mut Value, revision: Revision) {
    match value["type"].as_str() {
        Some("audio") if !revision.has(Feature::Audio) => *value = audio_as_resource(value),
        Some("resource_link") if !revision.has(Feature::Links) => *value = link_as_text(value),
        Some("resource_link") => drop_unknown(value, VersionedType::Resource, revision),
        Some("tool_result") => tool_result(value, revision),
        _ => {}
    }
    if let Some(resource) = value.get_mut("resource") {
        contents(resource, revision);
    }
    drop_unknown(value, VersionedType::Content, revision);
    translate_annotations(value, revision);
}

fn tool_result(value: &mut Value, revision: Revision) {
    let Value::Object(fields) = value else { return };
    if let Some(structured) = fields.get_mut("structuredContent")
        && !structured.is_object()
        && !revision.has(Feature::AnyJson)
    {
        *structured = json!({result_wrapper::KEY: structured.take()});
    }
    for item in fields.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
        content(item, revision);
    }
}

fn audio_as_resource(audio: &Value) -> Value {
    let resource = json!({
        "uri": "urn:wharf:audio", "mimeType": audio["mimeType"], "blob": audio["data"],
    });
    with_annotations(json!({"type": "resource", "resource": resource}), audio)
}

fn link_as_text(link: &Value) -> Value {
    let part = |key: &str| link[key].as_str().unwrap_or_default();
    let text = format!("[{}]({})", part("name"), part("uri"));
    with_annotations(json!({"type": "text", "text": text}), link)
}

fn with_annotations(mut value: Value, from: &Value) -> Value {
    if let Some(annotations) = from.get("annotations") {
        value["annotations"] = annotations.clone();
    }
    value
}

/// JSON Schema keywords whose value is a map of schemas, a list of schemas, or one schema.
pub(crate) const SCHEMA_MAP_KEYWORDS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
const SCHEMA_LIST_KEYWORDS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const SINGLE_SCHEMA_KEYWORDS: [&str; 8] =
    ["items", "contains", "not", "if", "then", "else", "propertyNames", "contentSchema"];
/// Keywords for which boolean schemas are common and widely supported.
const BOOLEAN_SCHEMA_KEYWORDS: [&str; 3] =
    ["additionalProperties", "unevaluatedProperties", "unevaluatedItems"];

/// Replaces boolean schemas with objects: legacy revisions allow only objects.
fn without_boolean_schemas(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({"not": {}}),
        Value::Object(keywords) => keywords.iter_mut().for_each(|(keyword, value)| {
            subschemas(keyword, value);
        }),
        _ => {}
    }
}

fn subschemas(keyword: &str, value: &mut Value) {
    match value {
        Value::Object(map) if SCHEMA_MAP_KEYWORDS.contains(&keyword) => {
            map.values_mut().for_each(without_boolean_schemas);
        }
        Value::Array(list) if SCHEMA_LIST_KEYWORDS.contains(&keyword) || keyword == "items" => {
            list.iter_mut().for_each(without_boolean_schemas);
        }
        Value::Bool(_) if BOOLEAN_SCHEMA_KEYWORDS.contains(&keyword) => {}
        single
            if SINGLE_SCHEMA_KEYWORDS.contains(&keyword)
                || BOOLEAN_SCHEMA_KEYWORDS.contains(&keyword) =>
        {
            without_boolean_schemas(single);
        }
        _ => {}
    }
}

/// Translates sampling messages; splits messages where the revision allows only one content item.
pub(crate) fn sampling_messages(messages: Vec<Value>, revision: Revision) -> Vec<Value> {
    let mut translated = Vec::new();
    for mut message in messages {
        drop_unknown(&mut message, VersionedType::SamplingMessage, revision);
        let mut items = match message["content"].take() {
            Value::Array(items) => items,
            item => vec![item],
        };
        items.iter_mut().for_each(|item| sampling_content(item, revision));
        if revision.has(Feature::SamplingTools) {
            let one = items.len() == 1;
            message["content"] = if one { items.remove(0) } else { items.into() };
            translated.push(message);
            continue;
        }
        for item in items {
            message["content"] = item;
            translated.push(message.clone());
        }
    }
    translated
}

/// Replaces sampling content that the revision does not have with a text description.
fn sampling_content(item: &mut Value, revision: Revision) {
    let known = match item["type"].as_str() {
        Some("text" | "image") => true,
        Some("audio") => revision.has(Feature::Audio),
        Some("tool_use" | "tool_result") => revision.has(Feature::SamplingTools),
        Some("resource" | "resource_link") => false,
        _ => true,
    };
    if known {
        return content(item, revision);
    }
    let text = match item["type"].as_str() {
        Some("resource_link") => return *item = link_as_text(item),
        Some("resource") => match item["resource"]["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[resource {}]", item["resource"]["uri"].as_str().unwrap_or_default()),
        },
        _ => as_text(item).into_owned(),
    };
    *item = json!({"type": "text", "text": text});
}

/// Translates the client's response to a server request.
pub(crate) fn answer(value: &mut Value, revision: Revision) {
    for root in value.get_mut("roots").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_unknown(root, VersionedType::Root, revision);
    }
    // Of all client responses, only a sampling result has a `model`.
    if value.get("model").is_some() {
        let items = match value["content"].take() {
            Value::Array(items) => items,
            item => vec![item],
        };
        value["content"] = model_output(items, revision);
    }
}

/// Translates the model's output; joins the items into one text where the revision allows only one.
fn model_output(mut items: Vec<Value>, revision: Revision) -> Value {
    items.iter_mut().for_each(|item| sampling_content(item, revision));
    match items.len() {
        1 => items.remove(0),
        _ if revision.has(Feature::SamplingTools) => items.into(),
        _ => {
            let texts: Vec<_> = items.iter().map(as_text).collect();
            json!({"type": "text", "text": texts.join("\n")})
        }
    }
}

/// Describes a content item as text.
fn as_text(item: &Value) -> Cow<'_, str> {
    let media = || item["mimeType"].as_str().unwrap_or("unknown");
    match (item["type"].as_str(), item["text"].as_str()) {
        (_, Some(text)) => text.into(),
        (Some(kind @ ("image" | "audio")), _) => format!("[{} {kind}]", media()).into(),
        _ => item.to_string().into(),
    }
}

pub(crate) fn sampling_params(params: &mut Value, revision: Revision) {
    drop_unknown(params, VersionedType::SamplingParams, revision);
    if let Value::Array(messages) = params["messages"].take() {
        params["messages"] = sampling_messages(messages, revision).into();
    }
    for offered in params.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        tool(offered, revision);
    }
}

/// Translates an elicitation form for revisions without multi-select, with defaults only for booleans, and with
/// option titles in `enumNames`.
pub(crate) fn form(schema: &mut Value, revision: Revision) {
    if revision.has(Feature::ElicitationModes) {
        return;
    }
    let Value::Object(form) = schema else { return };
    form.remove("$schema");
    let Some(Value::Object(fields)) = form.get_mut("properties") else { return };
    fields.retain(|_, field| field["type"] != "array");
    fields.values_mut().for_each(|field| form_field(field, revision));
    let kept: Vec<String> = fields.keys().cloned().collect();
    if let Some(Value::Array(required)) = form.get_mut("required") {
        required.retain(|name| kept.iter().any(|kept| name == kept));
    }
}

fn form_field(field: &mut Value, revision: Revision) {
    if field["type"] != "boolean" {
        drop_unknown(field, VersionedType::FormField, revision);
    }
    let Value::Object(keywords) = field else { return };
    let Some(Value::Array(options)) = keywords.remove("oneOf") else { return };
    let titled = |option: &Map<String, Value>| {
        let value = option.get("const").cloned().unwrap_or_default();
        let title = option.get("title").cloned().unwrap_or_else(|| value.clone());
        (value, title)
    };
    let options = options.iter().filter_map(Value::as_object).map(titled);
    let (values, titles): (Vec<Value>, Vec<Value>) = options.unzip();
    keywords.insert("enum".into(), values.into());
    keywords.insert("enumNames".into(), titles.into());
}

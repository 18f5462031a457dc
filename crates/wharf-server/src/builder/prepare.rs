//! Validates the parts of a server and prepares them for calls.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use wharf_model::{
    Deadlines, Method, Notification, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo,
};

use crate::{
    builder::{Part, error::BuildError},
    handler::extract::Declaration,
    header_annotations,
    limits::CallLimits,
    notifications::custom,
    param_headers::ParamHeaders,
    primitives::{
        completion::CompleterTable,
        custom_method::CustomMethod,
        prompt::Prompt,
        resource::{ReadMetadata, Resource},
        tool::Tool,
        uri,
        uri_template::UriTemplate,
    },
    router::{
        catalog::{
            CatalogEntry, CatalogLists, ItemList, ListedItem, MethodEntry, MethodTable,
            TemplateExtra, ToolExtra,
        },
        state::StateMap,
    },
    schema,
    schema::{ArgumentSchema, lint, validator::SchemaValidator},
};

/// Limits and state that parts are validated against.
pub(crate) struct PartPreparer<'a> {
    pub(crate) limits: &'a CallLimits,
    pub(crate) states: &'a StateMap,
}

/// Part that is ready to be called.
pub(crate) enum PreparedPart {
    Tool(CatalogEntry<ToolInfo>),
    Resource(CatalogEntry<ResourceInfo>),
    Template(CatalogEntry<TemplateInfo>),
    Prompt(CatalogEntry<PromptInfo>),
}

impl PreparedPart {
    /// Returns the notification to send when the part is added or removed.
    pub(crate) fn changes(&self) -> Notification {
        match self {
            PreparedPart::Tool(_) => Notification::ToolsChanged,
            PreparedPart::Resource(_) | PreparedPart::Template(_) => Notification::ResourcesChanged,
            PreparedPart::Prompt(_) => Notification::PromptsChanged,
        }
    }

    pub(crate) fn insert(self, lists: &mut CatalogLists, problems: &mut BuildError) {
        match self {
            PreparedPart::Tool(entry) => insert(&mut lists.tools, entry, "tool", problems),
            PreparedPart::Resource(entry) => {
                insert(&mut lists.resources, entry, "resource", problems)
            }
            PreparedPart::Template(entry) => {
                insert(&mut lists.templates, entry, "resource", problems)
            }
            PreparedPart::Prompt(entry) => insert(&mut lists.prompts, entry, "prompt", problems),
        }
    }
}

fn insert<I: ListedItem>(
    list: &mut Arc<ItemList<I>>,
    entry: CatalogEntry<I>,
    noun: &str,
    problems: &mut BuildError,
) {
    let key = entry.info.key().to_owned();
    if !Arc::make_mut(list).insert(entry) {
        problems.add(
            format!("{noun} `{key}`"),
            "the name is taken: rename one, or remove the first before adding it",
        );
    }
}

/// Collects the problems of one part.
struct PartCheck<'a> {
    item: String,
    problems: &'a mut BuildError,
}

impl PartCheck<'_> {
    fn add(&mut self, text: impl Into<String>) {
        self.problems.add(&self.item, text);
    }

    fn count(&self) -> usize {
        self.problems.problems().len()
    }
}

impl PartPreparer<'_> {
    pub(crate) fn part(
        &self,
        part: Part,
        order: u64,
        problems: &mut BuildError,
    ) -> Option<PreparedPart> {
        Some(match part {
            Part::Tool(tool) => PreparedPart::Tool(self.tool(tool, order, problems)),
            Part::Prompt(prompt) => PreparedPart::Prompt(self.prompt(prompt, order, problems)),
            Part::Resource(resource) if resource.is_template() => {
                PreparedPart::Template(self.template(resource, order, problems)?)
            }
            Part::Resource(resource) => {
                PreparedPart::Resource(self.resource(resource, order, problems))
            }
            Part::Method(method) => {
                let item = format!("method `{}`", method.name);
                problems.add(item, "a running server cannot get another method: add it before");
                return None;
            }
        })
    }

    /// Prepares custom methods. A name that occurs twice is a problem.
    pub(crate) fn methods(
        &self,
        methods: impl Iterator<Item = CustomMethod>,
        problems: &mut BuildError,
    ) -> MethodTable {
        let mut table = MethodTable::default();
        for method in methods {
            let name = method.name.clone();
            let entry = self.method(method, problems);
            if table.insert(name.clone(), entry).is_some() {
                problems.add(format!("method `{name}`"), "it is added twice: remove one");
            }
        }
        table
    }

    fn method(&self, method: CustomMethod, problems: &mut BuildError) -> MethodEntry {
        let parameters = method.parameters();
        let CustomMethod { name, endpoint, declaration, timeout, scopes, is_notification } = method;
        let kind = if is_notification { "notification" } else { "method" };
        let mut check = PartCheck { item: format!("{kind} `{name}`"), problems };
        if is_notification && !Method::is_custom_notification(&name) {
            check.add(custom::INVALID_NAME);
        } else if !is_notification && Method::is_defined(&name) {
            check.add("the protocol defines a message of this name: choose another");
        }
        if !is_notification && !Method::is_qualified(&name) {
            check.add(
                "its name is a namespace, `/` and a name, such as `acme/report`, without spaces: \
                 choose another",
            );
        }
        check_scope_syntax(&scopes, &mut check);
        self.declaration(&declaration, &mut check);
        if declaration.takes_uri || declaration.takes_completion {
            check.add("a method cannot take `Uri` or `CompletionRequest`");
        }
        let validator = self.validator(parameters, &mut check);
        let deadlines = timeout.map(fixed_deadlines);
        MethodEntry { is_notification, endpoint, validator, deadlines, scopes }
    }

    fn tool(&self, tool: Tool, order: u64, problems: &mut BuildError) -> CatalogEntry<ToolInfo> {
        let Tool { info, endpoint, declaration, timeout, task, scopes, .. } = tool;
        let (stricter_than_type, own_input, own_output) =
            (tool.stricter_than_type, tool.own_input, tool.own_output);
        let mut check = PartCheck { item: format!("tool `{}`", info.name), problems };
        if !is_tool_name(&info.name) {
            check.add(
                "a tool's name is 1 to 128 ASCII letters, digits, `_`, `-` and `.`: choose another",
            );
        }
        let length = info.description.as_deref().unwrap_or_default().chars().count();
        if length > self.limits.description {
            check.add(format!(
                "its description has {length} characters, and {} is the limit: models read it on \
                 every list, so shorten it, or raise `CallLimits::description`",
                self.limits.description
            ));
        }
        check_scope_syntax(&scopes, &mut check);
        self.declaration(&declaration, &mut check);
        if declaration.takes_uri || declaration.takes_completion {
            check.add("a tool cannot take `Uri` or `CompletionRequest`");
        }
        let before = check.count();
        self.schema(&info.input_schema, own_input, "input", &mut check);
        if info.input_schema.get("type").and_then(serde_json::Value::as_str) != Some("object") {
            check.add(
                "its arguments must be an object: take a struct as `Args<…>`, or set `\"type\": \
                 \"object\"` in your own schema",
            );
        }
        for problem in header_annotations::problems(&info.input_schema, self.limits.schema_depth) {
            check.add(problem);
        }
        let validator = SchemaValidator::new((*info.input_schema).clone(), stricter_than_type);
        if let Some(output) = &info.output_schema {
            self.schema(output, own_output, "output", &mut check);
        }
        let output = info.output_schema.as_deref().cloned().filter(|_| own_output);
        let output = output.map(SchemaValidator::for_results);
        // A schema with problems is not compiled: it may be far too large.
        let fine = check.count() == before;
        if fine && stricter_than_type && !own_input {
            lint::mistakes(&info.input_schema).into_iter().for_each(|mistake| check.add(mistake));
        }
        for (name, validator) in [("input", Some(&validator)), ("output", output.as_ref())] {
            if let Some(Err(problem)) = validator.filter(|_| fine).map(SchemaValidator::prepare) {
                check.add(format!("its {name} schema does not compile: {problem}"));
            }
        }
        let param_headers = ParamHeaders::of(&info.input_schema, self.limits.schema_depth);
        let extra = ToolExtra { results: output, param_headers, task };
        let deadlines = timeout.map(fixed_deadlines);
        CatalogEntry {
            order,
            info: Arc::new(info),
            endpoint,
            validator,
            deadlines,
            scopes,
            shown_with: None,
            extra,
        }
    }

    fn prompt(
        &self,
        prompt: Prompt,
        order: u64,
        problems: &mut BuildError,
    ) -> CatalogEntry<PromptInfo> {
        let Prompt {
            info,
            endpoint,
            declaration,
            typed,
            completions,
            unknown_titles,
            timeout,
            scopes,
            shown_with,
            ..
        } = prompt;
        let mut check = PartCheck { item: format!("prompt `{}`", info.name), problems };
        if info.name.is_empty() || info.name.chars().any(char::is_control) {
            check.add("a prompt's name is not empty and has no control characters: choose another");
        }
        check_scope_syntax(&scopes, &mut check);
        self.declaration(&declaration, &mut check);
        if declaration.takes_uri || declaration.takes_completion || declaration.takes_raw {
            check.add("a prompt cannot take `Uri`, `CompletionRequest` or `RawArgs`");
        }
        let arguments: Vec<&str> = info.arguments.iter().map(|it| it.name.as_str()).collect();
        self.completions(&completions, &arguments, &mut check);
        for name in unknown_titles {
            check.add(format!("it has a title for `{name}`, which it does not take"));
        }
        for name in lint::not_from_string(&typed.schema, false) {
            check.add(format!(
                "clients send the arguments of a prompt as strings, and `{name}` cannot be parsed \
                 from a string: take a string, a number, a boolean, an enum or a list of these"
            ));
        }
        let validator = self.validator(typed, &mut check);
        let deadlines = timeout.map(fixed_deadlines);
        CatalogEntry {
            order,
            info: Arc::new(info),
            endpoint,
            validator,
            deadlines,
            scopes,
            shown_with,
            extra: completions,
        }
    }

    fn resource(
        &self,
        resource: Resource,
        order: u64,
        problems: &mut BuildError,
    ) -> CatalogEntry<ResourceInfo> {
        let Resource { info, endpoint, declaration, cache, completions, timeout, scopes, .. } =
            resource;
        let mut check = PartCheck { item: format!("resource `{}`", info.uri), problems };
        if let Err(problem) = uri::check(&info.uri, self.limits.uri) {
            check.add(problem);
        }
        check_scope_syntax(&scopes, &mut check);
        self.reader(&declaration, &mut check);
        if let Some(name) = declaration.arguments.first().and_then(|typed| typed.names().next()) {
            check.add(format!(
                "its URI has no variables, but its function takes `{name}`: write `{{{name}}}` \
                 into the URI, or take nothing"
            ));
        }
        self.completions(&completions, &[], &mut check);
        let metadata = ReadMetadata { mime: info.mime_type.as_deref().map(Arc::from), cache };
        let validator = SchemaValidator::new(Arc::new(ArgumentSchema::anything().schema), false);
        let deadlines = timeout.map(fixed_deadlines);
        CatalogEntry {
            order,
            info: Arc::new(info),
            endpoint,
            validator,
            deadlines,
            scopes,
            shown_with: None,
            extra: metadata,
        }
    }

    fn template(
        &self,
        resource: Resource,
        order: u64,
        problems: &mut BuildError,
    ) -> Option<CatalogEntry<TemplateInfo>> {
        let Resource { info, endpoint, declaration, cache, completions, timeout, scopes, .. } =
            resource;
        let mut check = PartCheck { item: format!("resource `{}`", info.uri), problems };
        check_scope_syntax(&scopes, &mut check);
        self.reader(&declaration, &mut check);
        if info.size.is_some() {
            check.add("a template has no size: its resources may differ");
        }
        if let Err(problem) = uri::check_template(&info.uri, self.limits.uri) {
            check.add(problem);
        }
        let template = match UriTemplate::parse(&info.uri) {
            Ok(template) => template,
            Err(problem) => {
                check.add(format!("its URI template is not valid: {problem}"));
                return None;
            }
        };
        let variables: Vec<&str> = template.variables().collect();
        self.completions(&completions, &variables, &mut check);
        let typed = declaration.arguments.first().cloned();
        check_variable_names(&variables, typed.as_ref(), declaration.takes_uri, &mut check);
        let typed = typed.unwrap_or_else(ArgumentSchema::anything);
        for name in lint::not_from_string(&typed.schema, true) {
            check.add(format!(
                "the variables of a URI are strings, and `{name}` cannot be parsed from a string: \
                 take a string, a number, a boolean, an enum or a list of these"
            ));
        }
        let validator = self.validator(typed, &mut check);
        let metadata = ReadMetadata { mime: info.mime_type.as_deref().map(Arc::from), cache };
        let deadlines = timeout.map(fixed_deadlines);
        let info = into_template(info);
        let extra = TemplateExtra { template, metadata, completions };
        Some(CatalogEntry {
            order,
            info: Arc::new(info),
            endpoint,
            validator,
            deadlines,
            scopes,
            shown_with: None,
            extra,
        })
    }

    fn reader(&self, declaration: &Declaration, check: &mut PartCheck<'_>) {
        self.declaration(declaration, check);
        if declaration.takes_completion || declaration.takes_raw {
            check.add("a resource cannot take `CompletionRequest` or `RawArgs`");
        }
    }

    fn declaration(&self, declaration: &Declaration, check: &mut PartCheck<'_>) {
        if declaration.arguments.len() > 1 {
            check.add("its function takes arguments twice: put them into one `Args<…>`");
        }
        for (id, name) in &declaration.states {
            if !self.states.contains_key(id) {
                check.add(format!(
                    "its function takes `State<{name}>`, but the server has no such state: add it \
                     with `.state(…)`"
                ));
            }
        }
    }

    fn completions(
        &self,
        completions: &CompleterTable,
        arguments: &[&str],
        check: &mut PartCheck<'_>,
    ) {
        let mut seen = BTreeSet::new();
        for (argument, parts) in completions.iter() {
            if !arguments.contains(&argument.as_str()) {
                check.add(format!("it completes `{argument}`, which it does not take"));
            }
            if !seen.insert(argument) {
                check.add(format!("it completes `{argument}` twice: keep one"));
            }
            let needs = &parts.declaration;
            self.declaration(needs, check);
            if needs.takes_uri || needs.takes_raw || !needs.arguments.is_empty() {
                check.add(format!("the completer of `{argument}` takes `CompletionRequest`, and cannot take `Args`, `RawArgs` or `Uri`"));
            }
        }
    }

    /// Validates a schema. A derived one can have problems only in what its author added.
    fn schema(&self, schema: &serde_json::Value, own: bool, name: &str, check: &mut PartCheck<'_>) {
        if own && !schema.is_object() {
            check.add(format!("its {name} schema must be an object"));
        }
        for problem in schema::problems(schema, self.limits) {
            check.add(format!("its {name} schema: {problem}"));
        }
    }

    fn validator(&self, typed: ArgumentSchema, check: &mut PartCheck<'_>) -> SchemaValidator {
        if typed.stricter_than_type {
            lint::mistakes(&typed.schema).into_iter().for_each(|mistake| check.add(mistake));
        }
        let validator = SchemaValidator::new(Arc::new(typed.schema), typed.stricter_than_type);
        if let Err(problem) = validator.prepare() {
            check.add(format!("the schema of its arguments does not compile: {problem}"));
        }
        validator
    }
}

/// Checks the syntax of scopes: clients receive them as a space-separated, quoted list
/// (`WWW-Authenticate`).
fn check_scope_syntax(scopes: &[String], check: &mut PartCheck<'_>) {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    for scope in scopes {
        if scope.is_empty() || !scope.bytes().all(is_plain) {
            check.add(format!(
                "its scope {scope:?} must be visible ASCII without spaces, quotes and backslashes: \
                 choose another, or call `.scope(…)` once for each"
            ));
        }
    }
}

/// Checks that a template's variables and its function's parameters are the same.
fn check_variable_names(
    variables: &[&str],
    typed: Option<&ArgumentSchema>,
    takes_uri: bool,
    check: &mut PartCheck<'_>,
) {
    let Some(typed) = typed else {
        // A function that takes the whole URI needs no variables.
        if !variables.is_empty() && !takes_uri {
            check.add(format!(
                "its template has {}, but its function takes no arguments: take them with \
                 `Args<…>`, or take the `Uri`",
                quoted(variables.iter().copied())
            ));
        }
        return;
    };
    if typed.is_open() {
        return;
    }
    let names: Vec<&str> = typed.names().map(String::as_str).collect();
    let missing: Vec<&str> =
        variables.iter().copied().filter(|name| !names.contains(name)).collect();
    let unknown: Vec<&str> =
        names.iter().copied().filter(|name| !variables.contains(name)).collect();
    if !missing.is_empty() {
        check.add(format!(
            "its template has {}, which its function does not take: rename one to match the other",
            quoted(missing)
        ));
    }
    if !unknown.is_empty() {
        check.add(format!(
            "its function takes {}, which its template does not have: rename one to match the other",
            quoted(unknown)
        ));
    }
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn into_template(info: ResourceInfo) -> TemplateInfo {
    let mut template = TemplateInfo::new(info.uri, info.name);
    template.title = info.title;
    template.description = info.description;
    template.icons = info.icons;
    template.mime_type = info.mime_type;
    template.annotations = info.annotations;
    template.meta = info.meta;
    template
}

/// Deadlines of a call with its own timeout: it may be idle for as long as it may run.
fn fixed_deadlines(timeout: Duration) -> Deadlines {
    Deadlines::NONE.idle(Some(timeout)).total(Some(timeout))
}

fn is_tool_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(allowed)
}

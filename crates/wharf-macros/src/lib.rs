//! The `#[tool]`, `#[resource]` and `#[prompt]` attributes of Wharf.
//!
//! Each attribute keeps the function and adds a type of the same name, whose implementation is a
//! builder call. The builder therefore offers everything that the attributes offer.
//! Use them through the `wharf` crate.
//!
//! The pages of [`tool`](macro@tool), [`resource`](macro@resource) and [`prompt`](macro@prompt) list
//! their options and the attributes of their parameters.
//!
//! `State<T>`, `Ctx`, `Principal`, `Extension<T>`, `Args<T>`, `RawArgs`, `Uri` (and an `Option` of
//! `Principal` or `Extension<T>`) are extractors, recognized by name; mark an extractor with another
//! name with `#[extract]`. Every other parameter is an argument that the client sends by name. It is
//! owned, its type implements `Deserialize` and `JsonSchema`, its doc comment is its description, and
//! `Option<T>` makes it optional.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod app;
mod arguments_struct;
mod check;
mod docs;
mod errors;
mod expand;
mod extractor_types;
#[cfg(feature = "skills")]
mod include_skills;
mod options;
mod parameters;
mod task;
mod template;

use std::fmt;

use proc_macro::TokenStream;

/// Attribute that is being expanded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AttributeKind {
    Tool,
    Resource,
    Prompt,
}

impl fmt::Display for AttributeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttributeKind::Tool => "`#[tool]`",
            AttributeKind::Resource => "`#[resource]`",
            AttributeKind::Prompt => "`#[prompt]`",
        })
    }
}

/// Turns a function into a tool: `.tool::<add>()` registers it.
///
/// The name is the function's, the description its doc comment, and the schema comes from its
/// parameters. An `async fn` runs in place, a plain `fn` on the blocking pool unless `cheap` is set.
///
/// ```
/// use wharf::prelude::*;
///
/// /// Rolls dice and adds them up.
/// #[tool(read_only, cheap)]
/// fn roll(
///     /// Number of dice.
///     #[range(1..=100)]
///     dice: u32,
///     /// Sides of each die.
///     #[default(6)]
///     sides: u32,
/// ) -> u32 {
///     dice * sides.div_ceil(2)
/// }
///
/// // The function can still be called directly.
/// assert_eq!(roll(2, 6), 6);
///
/// let router = wharf::server::Router::builder().tool::<roll>().build();
/// assert!(router.is_ok());
/// ```
///
/// # Attributes of parameters
///
/// Extractors such as `State<T>` and `Ctx` are recognized by name. Every other parameter is an argument;
/// its doc comment is its description.
///
/// | attribute | meaning |
/// | --- | --- |
/// | `#[default(10)]`, `#[default]` | optional, with that value or the type's own default |
/// | `#[range(1..=10)]` | bounds of a number; also `1..`, `..=10`, and `1..10`, which excludes 10 |
/// | `#[header("Region")]` | clients also send the argument as the HTTP header `Mcp-Param-Region` |
/// | `#[serde(…)]`, `#[schemars(…)]` | passed on to the derives, as on a field of a struct |
/// | `#[extract]` | an extractor that is not recognized by its name |
///
/// ```
/// use wharf::{prelude::*, server::{Extract, Incoming}};
///
/// /// Tenant of the caller: an extractor of the application.
/// struct Tenant(String);
///
/// impl Extract for Tenant {
///     fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
///         Ok(Tenant(call.principal().map_or("public", |principal| principal.id()).to_owned()))
///     }
/// }
///
/// /// Searches the notes.
/// #[tool]
/// async fn search(
///     /// Text to look for.
///     #[schemars(length(min = 1))]
///     query: String,
///     /// Only notes with all of these tags.
///     #[default]
///     tags: Vec<String>,
///     #[range(1..=50)]
///     #[default(10)]
///     limit: u32,
///     #[serde(rename = "sortBy")] sort_by: Option<String>,
///     /// Region whose data is searched; load balancers read the header.
///     #[header("Region")]
///     region: String,
///     #[extract] tenant: Tenant,
///     ctx: Ctx,
/// ) -> Result<String, ToolError> {
///     ctx.info(format!("searching for {} in {region}", tenant.0)).await;
///     Ok(format!("{limit} hits for {query}, {} tags, by {sort_by:?}", tags.len()))
/// }
///
/// assert!(wharf::server::Router::builder().tool::<search>().build().is_ok());
/// ```
///
/// # Options
///
/// | option | meaning |
/// | --- | --- |
/// | `name = "…"` | replaces the function's name |
/// | `title = "…"` | display name |
/// | `description = "…"` | replaces the doc comment |
/// | `icon = "https://…"` | icon for display |
/// | `timeout = "30s"` | maximum duration of a call: `ms`, `s`, `m`, `h` |
/// | `cheap` | a plain `fn` runs in place, not on the blocking pool |
/// | `scope = "…"`, `scope = ["…", "…"]` | OAuth scopes that the caller needs; may be repeated |
/// | `read_only`, `destructive`, `idempotent`, `open_world`, `closed_world` | hints for clients |
/// | `task`, `task = "required"`, `task = "forbidden"` | task support; `task` is `task = "optional"` |
/// | `after = "30s"`, `after = "detach"` | a call becomes a task after that time, or at `ctx.detach()` |
/// | `app = "ui://…"` | page that hosts show for the tool: the URI of an `App` of the server |
/// | `visibility = "app"`, `visibility = ["model", "app"]` | who may call the tool on hosts that show apps; default: both |
/// | `crate = path` | path of the `wharf` crate, if it was renamed |
///
/// ```
/// use wharf::prelude::*;
///
/// #[tool(
///     name = "delete-files",
///     title = "Delete files",
///     description = "Deletes all files of a directory.",
///     icon = "https://example.com/delete.png",
///     timeout = "10m",
///     destructive,
///     idempotent,
///     closed_world,
///     scope = "files:write",
///     task,
///     after = "30s"
/// )]
/// async fn delete(directory: String) -> String {
///     format!("Deleted {directory}.")
/// }
///
/// assert!(wharf::server::Router::builder().tool::<delete>().build().is_ok());
/// ```
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(AttributeKind::Tool, attribute.into(), item.into()).into()
}

/// Turns a function into a resource, or into a resource template if the URI is a template (RFC
/// 6570): `.resource::<note>()` registers it.
///
/// The variables of the template and the parameters of the function must have the same names;
/// otherwise the macro reports a compile error.
///
/// ```
/// use wharf::prelude::*;
///
/// /// One note.
/// #[resource("notes://{name}", mime = "text/plain")]
/// async fn note(#[complete("shopping", "story")] name: String) -> String {
///     format!("Note {name}")
/// }
///
/// let router = wharf::server::Router::builder().resource::<note>().build();
/// assert!(router.is_ok());
/// ```
///
/// # Attributes of parameters
///
/// Extractors such as `State<T>` and `Ctx` are recognized by name. Every other parameter is an argument;
/// its doc comment is its description.
///
/// | attribute | meaning |
/// | --- | --- |
/// | `#[complete("a", "b")]`, `#[complete(cities)]` | completions: fixed values, or a function |
/// | `#[default(10)]`, `#[default]` | optional, with that value or the type's own default |
/// | `#[range(1..=10)]` | bounds of a number; also `1..`, `..=10`, and `1..10`, which excludes 10 |
/// | `#[serde(…)]`, `#[schemars(…)]` | passed on to the derives, as on a field of a struct |
/// | `#[extract]` | an extractor that is not recognized by its name |
///
/// ```
/// use wharf::prelude::*;
///
/// #[derive(Clone)]
/// struct Cities(Vec<String>);
///
/// async fn cities(request: CompletionRequest, State(cities): State<Cities>) -> Completion {
///     request.matching(cities.0)
/// }
///
/// /// Forecast for a city.
/// #[resource("weather://{city}{?days}")]
/// async fn forecast(
///     #[complete(cities)] city: String,
///     #[range(1..=10)]
///     #[default(3)]
///     days: u8,
/// ) -> String {
///     format!("{days} days of rain in {city}")
/// }
///
/// let builder = wharf::server::Router::builder().state(Cities(vec!["Paris".into()]));
/// assert!(builder.resource::<forecast>().build().is_ok());
/// ```
///
/// # Options
///
/// | option | meaning |
/// | --- | --- |
/// | `name = "…"` | replaces the function's name |
/// | `title = "…"` | display name |
/// | `description = "…"` | replaces the doc comment |
/// | `icon = "https://…"` | icon for display |
/// | `timeout = "30s"` | maximum duration of a call: `ms`, `s`, `m`, `h` |
/// | `cheap` | a plain `fn` runs in place, not on the blocking pool |
/// | `scope = "…"`, `scope = ["…", "…"]` | OAuth scopes that the caller needs; may be repeated |
/// | `mime = "…"` | media type |
/// | `size = 10` | size in bytes; not for templates |
/// | `audience = "user"`, `audience = "assistant"` | intended reader |
/// | `priority = 0.5` | importance from 0.0 to 1.0 |
/// | `crate = path` | path of the `wharf` crate, if it was renamed |
///
/// ```
/// use wharf::prelude::*;
///
/// #[resource(
///     "notes://readme",
///     name = "readme",
///     title = "Read me",
///     description = "Explains the notes.",
///     icon = "https://example.com/note.png",
///     mime = "text/markdown",
///     size = 7,
///     audience = "user",
///     priority = 0.5,
///     scope = ["notes", "notes:read"],
///     timeout = "500ms",
///     cheap
/// )]
/// fn readme() -> &'static str {
///     "# Notes"
/// }
///
/// assert!(wharf::server::Router::builder().resource::<readme>().build().is_ok());
/// ```
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(AttributeKind::Resource, attribute.into(), item.into()).into()
}

/// Turns a function into a prompt: `.prompt::<review>()` registers it.
///
/// The function's arguments are the prompt's. Clients send them as strings, which are parsed as the
/// parameters' types.
///
/// ```
/// use wharf::prelude::*;
///
/// /// Requests a review.
/// #[prompt(title = "Review")]
/// async fn review(
///     /// The code to read.
///     code: String,
///     #[complete("python", "rust")] language: Option<String>,
/// ) -> String {
///     format!("Review this {} code:\n{code}", language.unwrap_or_default())
/// }
///
/// let router = wharf::server::Router::builder().prompt::<review>().build();
/// assert!(router.is_ok());
/// ```
///
/// # Attributes of parameters
///
/// Extractors such as `State<T>` and `Ctx` are recognized by name. Every other parameter is an argument;
/// its doc comment is its description.
///
/// | attribute | meaning |
/// | --- | --- |
/// | `#[complete("a", "b")]`, `#[complete(cities)]` | completions: fixed values, or a function |
/// | `#[default(10)]`, `#[default]` | optional, with that value or the type's own default |
/// | `#[range(1..=10)]` | bounds of a number; also `1..`, `..=10`, and `1..10`, which excludes 10 |
/// | `#[serde(…)]`, `#[schemars(…)]` | passed on to the derives, as on a field of a struct |
/// | `#[extract]` | an extractor that is not recognized by its name |
///
/// ```
/// use wharf::prelude::*;
///
/// fn languages(request: CompletionRequest) -> Completion {
///     request.matching(["python", "rust"])
/// }
///
/// /// Translates code.
/// #[prompt]
/// async fn translate(
///     /// The code to translate.
///     code: String,
///     #[complete(languages)] language: String,
///     #[range(1..=5)]
///     #[default(1)]
///     variants: u8,
/// ) -> String {
///     format!("Translate to {language}, in {variants} variants:\n{code}")
/// }
///
/// assert!(wharf::server::Router::builder().prompt::<translate>().build().is_ok());
/// ```
///
/// # Options
///
/// | option | meaning |
/// | --- | --- |
/// | `name = "…"` | replaces the function's name |
/// | `title = "…"` | display name |
/// | `description = "…"` | replaces the doc comment |
/// | `icon = "https://…"` | icon for display |
/// | `timeout = "30s"` | maximum duration of a call: `ms`, `s`, `m`, `h` |
/// | `cheap` | a plain `fn` runs in place, not on the blocking pool |
/// | `scope = "…"`, `scope = ["…", "…"]` | OAuth scopes that the caller needs; may be repeated |
/// | `crate = path` | path of the `wharf` crate, if it was renamed |
///
/// ```
/// use wharf::prelude::*;
///
/// #[prompt(
///     name = "daily-summary",
///     title = "Daily summary",
///     description = "Summarizes the notes of a day.",
///     icon = "https://example.com/day.png",
///     scope = "notes:read",
///     timeout = "5s",
///     cheap
/// )]
/// fn summary(day: String) -> String {
///     format!("Summarize the notes of {day}.")
/// }
///
/// assert!(wharf::server::Router::builder().prompt::<summary>().build().is_ok());
/// ```
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(AttributeKind::Prompt, attribute.into(), item.into()).into()
}

/// Embeds a directory of skills in the program, with digests computed at compile time.
///
/// The path begins at the directory of the crate's `Cargo.toml`. A changed file compiles the crate again; for new files, a
/// build script prints `cargo::rerun-if-changed=skills`. Files whose names begin with `.` are left out, and symbolic links
/// are errors. The rules for skills are checked when the server is built. If the `wharf` crate was renamed, its path follows:
/// `include_skills!("skills", crate = path)`.
///
/// ```
/// use wharf::{Server, skills::include_skills};
///
/// let server = Server::new("harbour", "1.0.0").skills(include_skills!("tests/skills"));
/// assert!(server.build().is_ok());
/// ```
#[cfg(feature = "skills")]
#[proc_macro]
pub fn include_skills(input: TokenStream) -> TokenStream {
    include_skills::expand(input.into()).into()
}

//! The `#[tool]`, `#[resource]` and `#[prompt]` attributes of Wharf.
//!
//! Each attribute keeps the function and adds a type of the same name, whose implementation is a
//! builder call. The builder therefore offers everything that the attributes offer.
//! Use them through the `wharf` crate.
//!
//! # Parameters
//!
//! `State<T>`, `Ctx`, `Principal`, `Extension<T>`, `Args<T>`, `RawArgs`, `Uri` (and an `Option` of
//! `Principal` or `Extension<T>`) are extractors, recognized by name; mark an extractor of your own
//! with `#[extract]`. Every other parameter is an argument that the client sends by name. It is owned,
//! its type implements `Deserialize` and `JsonSchema`, its doc comment is its description, and
//! `Option<T>` makes it optional. These attributes configure an argument:
//!
//! | attribute | meaning |
//! | --- | --- |
//! | `#[default(10)]`, `#[default]` | optional, with that value or the type's own default |
//! | `#[range(1..=10)]` | bounds; also `1..`, `..=10`, and `1..10`, which leaves 10 out |
//! | `#[complete(cities)]`, `#[complete("a", "b")]` | source of completions (prompts, templates) |
//! | `#[header("Region")]` | also sent as an HTTP header (tools) |
//! | `#[serde(…)]`, `#[schemars(…)]` | passed on to the derives, as on a field |
//!
//! # Options
//!
//! | option | on | meaning |
//! | --- | --- | --- |
//! | `name = "…"` | all | replaces the function's name |
//! | `title = "…"`, `icon = "https://…"` | all | for display |
//! | `description = "…"` | all | replaces the doc comment |
//! | `timeout = "30s"` | all | maximum duration of a call: `ms`, `s`, `m`, `h` |
//! | `cheap` | all | a plain `fn` runs in place, not on the blocking pool |
//! | `read_only`, `destructive`, `idempotent`, `open_world`, `closed_world` | tools | hints |
//! | `task`, `task = "required"`, `task = "forbidden"` | tools | task support of the tool |
//! | `after = "30s"`, `after = "detach"` | tools | when a call becomes a task, if not at once |
//! | `mime = "…"`, `size = 10`, `audience = "user"`, `priority = 0.5` | resources | metadata |
//! | `crate = path` | all | path of the `wharf` crate, if it was renamed |
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod args;
mod check;
mod docs;
mod errors;
mod expand;
mod options;
mod task;
mod template;
mod types;

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
/// parameters. An `async fn` runs in place, a plain `fn` on the blocking pool unless `cheap` is set. The
/// [crate's page](crate) lists every option and parameter attribute.
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
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(AttributeKind::Tool, attribute.into(), item.into()).into()
}

/// Turns a function into a resource, or into a resource template if the URI is a template (RFC
/// 6570): `.resource::<note>()` registers it.
///
/// The variables of the template and the parameters of the function must have the same names;
/// otherwise the macro reports a compile error. The [crate's page](crate) lists every option and parameter
/// attribute.
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
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(AttributeKind::Resource, attribute.into(), item.into()).into()
}

/// Turns a function into a prompt: `.prompt::<review>()` registers it.
///
/// The function's arguments are the prompt's. Clients send them as strings, which are parsed as the
/// parameters' types. The [crate's page](crate) lists every option and parameter attribute.
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
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(AttributeKind::Prompt, attribute.into(), item.into()).into()
}

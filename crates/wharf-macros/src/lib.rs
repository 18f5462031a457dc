//! The `#[tool]`, `#[resource]` and `#[prompt]` attributes of Wharf.
//!
//! Each leaves the function as it is and puts a type of the same name beside it, whose
//! implementation is a builder call: everything an attribute can say can be said without it.
//! Use them through the `wharf` crate.
//!
//! # Parameters
//!
//! `State<T>`, `Ctx`, `Principal`, `Extension<T>`, `Args<T>`, `RawArgs`, `Uri` (and an `Option` of
//! `Principal` or `Extension<T>`) are extractors, known by their names; one of your own is marked
//! `#[extract]`. Every other parameter is an argument that the client sends by name. It is owned,
//! its type implements `Deserialize` and `JsonSchema`, its doc comment is its description, and
//! `Option<T>` makes it optional. These attributes say more about an argument:
//!
//! | attribute | meaning |
//! | --- | --- |
//! | `#[default(10)]`, `#[default]` | optional, with that value or the type's own default |
//! | `#[range(1..=10)]` | bounds; also `1..`, `..=10`, and `1..10`, which leaves 10 out |
//! | `#[complete(cities)]`, `#[complete("a", "b")]` | how it is completed (prompts and templates) |
//! | `#[header("Region")]` | also travels as an HTTP header (tools) |
//! | `#[serde(…)]`, `#[schemars(…)]` | passed on to the derives, as on a field |
//!
//! # Options
//!
//! | option | on | meaning |
//! | --- | --- | --- |
//! | `name = "…"` | all | instead of the function's name |
//! | `title = "…"`, `icon = "https://…"` | all | for people |
//! | `description = "…"` | all | instead of the doc comment |
//! | `timeout = "30s"` | all | how long a call may take: `ms`, `s`, `m`, `h` |
//! | `cheap` | all | a plain `fn` runs in place, not on the blocking pool |
//! | `read_only`, `destructive`, `idempotent`, `open_world`, `closed_world` | tools | hints |
//! | `task`, `task = "required"`, `task = "forbidden"` | tools | whether calls become tasks |
//! | `after = "30s"`, `after = "detach"` | tools | when they do, if not at once |
//! | `mime = "…"`, `size = 10`, `audience = "user"`, `priority = 0.5` | resources | what is read |
//! | `crate = path` | all | where the `wharf` crate is, if it was renamed |
#![forbid(unsafe_code)]

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

/// Which attribute is being expanded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Tool,
    Resource,
    Prompt,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Tool => "`#[tool]`",
            Kind::Resource => "`#[resource]`",
            Kind::Prompt => "`#[prompt]`",
        })
    }
}

/// Makes a tool of a function: `.tool::<add>()` registers it.
///
/// The name is the function's, the description its doc comment, the schema its parameters. An
/// `async fn` runs as it is, a plain `fn` on the blocking pool unless it is `cheap`. The
/// [crate's page](crate) lists every option and parameter attribute.
///
/// ```
/// use wharf::prelude::*;
///
/// /// Rolls dice and adds them up.
/// #[tool(read_only, cheap)]
/// fn roll(
///     /// How many dice.
///     #[range(1..=100)]
///     dice: u32,
///     /// How many sides each has.
///     #[default(6)]
///     sides: u32,
/// ) -> u32 {
///     dice * sides.div_ceil(2)
/// }
///
/// // It is still a function.
/// assert_eq!(roll(2, 6), 6);
///
/// let router = wharf::Router::builder().tool::<roll>().build();
/// assert!(router.is_ok());
/// ```
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Kind::Tool, attribute.into(), item.into()).into()
}

/// Makes a resource of a function, or many of them when the URI is a template (RFC 6570):
/// `.resource::<note>()` registers it.
///
/// The variables of the template and the parameters of the function are the same names; the
/// compiler says so when they are not. The [crate's page](crate) lists every option and parameter
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
/// let router = wharf::Router::builder().resource::<note>().build();
/// assert!(router.is_ok());
/// ```
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Kind::Resource, attribute.into(), item.into()).into()
}

/// Makes a prompt of a function: `.prompt::<review>()` registers it.
///
/// Its arguments are the prompt's; clients send them as strings, which are read as the parameters'
/// types. The [crate's page](crate) lists every option and parameter attribute.
///
/// ```
/// use wharf::prelude::*;
///
/// /// InputMode for a review.
/// #[prompt(title = "Review")]
/// async fn review(
///     /// The code to read.
///     code: String,
///     #[complete("python", "rust")] language: Option<String>,
/// ) -> String {
///     format!("Review this {} code:\n{code}", language.unwrap_or_default())
/// }
///
/// let router = wharf::Router::builder().prompt::<review>().build();
/// assert!(router.is_ok());
/// ```
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Kind::Prompt, attribute.into(), item.into()).into()
}

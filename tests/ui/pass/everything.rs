//! All options and attributes together, without a warning.
#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
#![allow(clippy::too_many_arguments)]

use wharf::prelude::*;

/// State of the server.
#[derive(Clone)]
struct Db(i64);

/// Request extension of the application.
struct Tenant(String);

impl wharf::server::Extract for Tenant {
    fn extract(call: &wharf::server::Incoming<'_>) -> Result<Self, Error> {
        Ok(Tenant(call.principal().map_or("nobody", |principal| principal.id()).to_owned()))
    }
}

/// Adds.
#[tool(
    name = "sum",
    title = concat!("S", "um"),
    icon = "https://example.com/sum.png",
    timeout = "1m",
    destructive,
    idempotent,
    open_world,
    scope = "sums",
    scope = ["numbers", concat!("num", "bers:add")]
)]
async fn add(
    /// The first.
    a: i64,
    State(db): State<Db>,
    #[range(1..10)] b: i64,
    ctx: Ctx,
    #[default(5)] mut c: i64,
    #[default("metres")] unit: String,
    #[default] d: Vec<i64>,
    #[header("Region")] region: Option<String>,
    #[schemars(length(min = 1))] label: String,
    #[serde(rename = "otherName")] other: Option<i64>,
    who: Option<Principal>,
    extension: Option<Extension<String>>,
    #[extract] Tenant(tenant): Tenant,
    r#type: String,
) -> Result<String, ToolError> {
    drop((ctx, who, extension));
    c += a + b + db.0 + d.iter().sum::<i64>() + other.unwrap_or(0);
    Ok(format!("{c} {unit} {region:?} {label} {tenant} {}", r#type))
}

/// Blocks.
#[tool(read_only, closed_world)]
fn plain() {}

/// Does not.
#[tool(cheap, description = "Quick.")]
fn quick() {}

/// Shown in a page, for pages.
#[tool(visibility = ["model", "app"], read_only, app = concat!("ui://", "sum"))]
async fn shown() -> i64 {
    1
}

/// For pages.
#[tool(visibility = "app")]
async fn refresh() -> i64 {
    2
}

/// Raw.
#[tool]
async fn raw(RawArgs(raw): RawArgs) -> String {
    raw.get().to_owned()
}

/// Keywords are names.
#[tool]
async fn r#match(r#in: String) -> String {
    r#in
}

/// Old.
#[deprecated]
#[tool]
async fn old(n: i64) -> i64 {
    n
}

#[tool]
#[cfg(any())]
fn absent(missing: Missing) -> Missing {
    missing
}

/// One file.
#[resource(
    "demo://files/{+path}{?line}",
    name = "files",
    title = "Files",
    mime = "text/plain",
    audience = "user",
    priority = 0.5,
    cheap
)]
fn file(#[complete(paths)] path: String, line: Option<u32>, Uri(uri): Uri) -> String {
    format!("{path} {line:?} {uri}")
}

/// One text.
#[resource("demo://text", size = 4)]
async fn text() -> &'static str {
    "text"
}

async fn paths(typing: CompletionRequest) -> Completion {
    typing.matching(["etc/hosts", "etc/passwd"])
}

/// Greets.
#[prompt(title = "Greet", timeout = "500ms")]
fn greet(#[complete("Ada", "Grace")] name: String) -> String {
    format!("Say hello to {name}.")
}

macro_rules! echoes {
    ($($name:ident: $ty:ty),*) => {$(
        #[tool(cheap)]
        fn $name(value: $ty) -> $ty {
            value
        }
    )*};
}

echoes!(echo_text: String, echo_number: f64);

pub(crate) fn main() {
    #[tool(cheap)]
    fn local(n: i64) -> i64 {
        n
    }

    #[allow(deprecated)]
    let router = wharf::server::Router::builder()
        .state(Db(1))
        .tool::<add>()
        .tool::<plain>()
        .tool::<quick>()
        .tool::<raw>()
        .tool::<r#match>()
        .tool::<old>()
        .tool::<echo_text>()
        .tool::<echo_number>()
        .tool::<local>()
        .tool::<shown>()
        .tool::<refresh>()
        .add(Resource::new("ui://sum", async || "").mime(wharf::apps::MIME_TYPE))
        .resource::<file>()
        .resource::<text>()
        .prompt::<greet>()
        .build();
    if let Err(error) = router {
        panic!("{error}");
    }
}

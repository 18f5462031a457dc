//! Apps: the metadata of tools and pages in every revision, as bytes and over HTTP, the errors when a server is built, and
//! directories.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::Level;
use wharf::{
    Client, Endpoint, Resource, Server,
    apps::{App, AppPermission, Csp, MIME_TYPE, PAGE_SCRIPT, Visibility},
    client::{ClientExtension, ClientHandlerBuilder, Target},
    model::{Body, ClientCapabilities, InputMode, ResourceContents, ToolInfo},
    prelude::*,
    server::{Part, ProtocolExtension},
    testing::HandlerTest,
};
use wharf_testbed::LogCatcher;

const UI: &str = "io.modelcontextprotocol/ui";
const PAGE: &str =
    "<!doctype html><p>Weather</p><script type=\"module\" src=\"wharf-app.js\"></script>";
/// Timeout after which a test fails. No test measures a time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the weather.
#[tool(app = "ui://weather", visibility = ["model", "app"])]
async fn weather(ctx: Ctx) -> &'static str {
    if ctx.client_has_apps() { "The user sees it." } else { "Sunny, 21 degrees." }
}

/// Returns the weather to the page.
#[tool(visibility = "app")]
async fn refresh() -> i64 {
    21
}

/// Returns the weather of tomorrow.
#[tool(app = "ui://weather")]
async fn forecast() -> &'static str {
    "Rain."
}

fn app() -> App {
    App::html("ui://weather", PAGE)
}

fn full_app() -> App {
    let csp = Csp::new()
        .connect("https://api.example.com")
        .connect("wss://live.example.com:8443")
        .resource("https://*.cdn.example.com")
        .frame("https://video.example.com")
        .base_uri("https://example.com");
    app()
        .title("Weather")
        .description("Shows the weather.")
        .csp(csp)
        .permissions([AppPermission::Geolocation, AppPermission::ClipboardWrite])
        .domain("a904794854a047f6.claudemcpcontent.com")
        .border(true)
}

fn server(app: App) -> Endpoint {
    let server = Server::new("weather", "1.0.0").tool::<weather>().tool::<refresh>();
    server.tool::<forecast>().app(app).build().unwrap()
}

/// Returns the problems of a server with this app and this part.
fn problems(app: Option<App>, part: impl Into<Part>) -> Vec<String> {
    let server = Server::new("weather", "1.0.0").add(part);
    let server = app.into_iter().fold(server, Server::app);
    let problems = server.build().err();
    problems.iter().flat_map(|it| it.problems()).map(ToString::to_string).collect()
}

async fn in_time<T>(future: impl IntoFuture<Output = T>) -> T {
    timeout(PATIENCE, future.into_future()).await.expect("patience")
}

fn handler_with_apps() -> ClientHandlerBuilder {
    let apps = ClientExtension::new(UI).setting("mimeTypes", vec![MIME_TYPE]);
    ClientHandlerBuilder::new().extension(apps)
}

async fn over_http(endpoint: &Endpoint) -> Target {
    let (served, listener) =
        (endpoint.clone(), Endpoint::listen_http("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { served.serve_http_on(listener).await });
    format!("http://{address}/mcp").into()
}

async fn tool(client: &Client, name: &str) -> Arc<ToolInfo> {
    let tools = in_time(client.tools().all()).await.unwrap();
    tools.into_iter().find(|it| it.name == name).unwrap()
}

fn meta(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()["_meta"].take()
}

#[tokio::test]
async fn every_revision_has_the_metadata_that_it_can_have() {
    let ui = json!({
        "csp": {
            "connectDomains": ["https://api.example.com", "wss://live.example.com:8443"],
            "resourceDomains": ["https://*.cdn.example.com"],
            "frameDomains": ["https://video.example.com"],
            "baseUriDomains": ["https://example.com"],
        },
        "permissions": {"geolocation": {}, "clipboardWrite": {}},
        "domain": "a904794854a047f6.claudemcpcontent.com",
        "prefersBorder": true,
    });
    let dates = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
    for (date, http) in dates.into_iter().flat_map(|date| [(date, false), (date, true)]) {
        println!("{date}, HTTP: {http}");
        let endpoint = server(full_app());
        let target = if http { over_http(&endpoint).await } else { (&endpoint).into() };
        let builder = Client::builder().protocol_version(date.parse().unwrap());
        let client = in_time(builder.handler(handler_with_apps()).connect(target)).await.unwrap();
        assert_eq!(client.about().revision, date);
        assert_eq!(client.capabilities().extensions[UI], json!({}));

        let listed = in_time(client.resources().all()).await.unwrap().remove(0);
        assert_eq!((&*listed.uri, &*listed.name), ("ui://weather", "weather"));
        assert_eq!(listed.mime_type.as_deref(), Some("text/html;profile=mcp-app"));
        let read = in_time(client.read("ui://weather")).await.unwrap().contents.remove(0);
        assert_eq!(read.mime_type.as_deref(), Some("text/html;profile=mcp-app"));
        let Body::Text(page) = &read.body else { panic!("{read:?}") };
        assert!(
            page.starts_with("<!doctype html><p>Weather</p><script type=\"module\">"),
            "{page}"
        );
        assert!(page.contains(PAGE_SCRIPT) && !page.contains("src="), "{page}");

        // Earlier revisions have no `_meta` in tools and resources.
        let has_meta = date >= "2025-06-18";
        let expected = |value: Value| if has_meta { value } else { Value::Null };
        let weather = meta(&*tool(&client, "weather").await);
        assert_eq!(weather["ui/resourceUri"], expected("ui://weather".into()));
        let both = json!({"resourceUri": "ui://weather", "visibility": ["model", "app"]});
        assert_eq!(weather["ui"], expected(both));
        let refresh = meta(&*tool(&client, "refresh").await);
        assert_eq!(refresh, expected(json!({"ui": {"visibility": ["app"]}})));
        assert_eq!(meta(&*listed)["ui"], expected(ui.clone()));
        assert_eq!(meta(&read)["ui"], expected(ui.clone()));

        let shown = in_time(client.call("weather", ())).await.unwrap();
        assert_eq!(shown.content[0].as_text(), Some("The user sees it."));
        let target = if http { over_http(&endpoint).await } else { (&endpoint).into() };
        let plain = Client::builder().protocol_version(date.parse().unwrap());
        let plain = in_time(plain.connect(target)).await.unwrap();
        let told = in_time(plain.call("weather", ())).await.unwrap();
        assert_eq!(told.content[0].as_text(), Some("Sunny, 21 degrees."));
    }
}

#[tokio::test]
async fn support_is_read_from_extensions_and_from_experimental() {
    let (tool, app) = (<weather as wharf::server::ToolFn>::tool(), app());
    let router = app.add_to(wharf::server::Router::builder()).add(tool).build().unwrap();
    for (capabilities, has_apps) in [
        (json!({"extensions": {UI: {"mimeTypes": ["text/plain", MIME_TYPE]}}}), true),
        (json!({"extensions": {UI: {"mimeTypes": ["text/html; profile=mcp-app"]}}}), true),
        (json!({"experimental": {UI: {"mimeTypes": [MIME_TYPE]}}}), true),
        (json!({"extensions": {UI: {"mimeTypes": ["text/html"]}}}), false),
        (json!({"extensions": {UI: {"mimeTypes": MIME_TYPE}}}), false),
        (json!({"extensions": {UI: {}}}), false),
        (json!({"extensions": {UI: true}}), false),
        (json!({"extensions": {"com.example/ui": {"mimeTypes": [MIME_TYPE]}}}), false),
        (json!({}), false),
    ] {
        let client: ClientCapabilities = serde_json::from_value(capabilities.clone()).unwrap();
        let test = HandlerTest::tool(&router, "weather").arguments(json!({})).capabilities(client);
        let text = if has_apps { "The user sees it." } else { "Sunny, 21 degrees." };
        assert_eq!(test.run(InputMode::Park).await.text(), text, "{capabilities}");
    }
}

#[tokio::test]
async fn the_keys_of_chatgpt_are_added_on_request() {
    let client = Client::connect(server(full_app().openai())).await.unwrap();
    let weather = meta(&*tool(&client, "weather").await);
    assert_eq!(weather["openai/outputTemplate"], "ui://weather");
    assert_eq!(weather["openai/widgetAccessible"], true);
    assert_eq!(weather["openai/visibility"], Value::Null);
    let refresh = meta(&*tool(&client, "refresh").await);
    assert_eq!(refresh["openai/outputTemplate"], Value::Null);
    assert_eq!(refresh["openai/widgetAccessible"], true);
    assert_eq!(refresh["openai/visibility"], "private");
    let page = meta(&*client.resources().all().await.unwrap()[0]);
    let csp = json!({
        "connect_domains": ["https://api.example.com", "wss://live.example.com:8443"],
        "resource_domains": ["https://*.cdn.example.com"],
        "frame_domains": ["https://video.example.com"],
    });
    assert_eq!(page["openai/widgetCSP"], csp);
    assert_eq!(page["openai/widgetPrefersBorder"], true);
    assert_eq!(page["openai/widgetDescription"], "Shows the weather.");
    assert_eq!(page["openai/widgetDomain"], "https://a904794854a047f6.claudemcpcontent.com");
    let read = client.read("ui://weather").await.unwrap().contents.remove(0);
    assert_eq!(meta(&read), page);

    let plain = Client::connect(server(full_app())).await.unwrap();
    let all = format!(
        "{:?} {:?}",
        meta(&*tool(&plain, "weather").await),
        meta(&*plain.resources().all().await.unwrap()[0])
    );
    assert!(!all.contains("openai"), "{all}");
}

#[tokio::test]
async fn a_server_without_apps_does_not_declare_the_extension() {
    let server = Server::new("adder", "1.0.0").add(Tool::new("add", async || 1)).build().unwrap();
    let client = Client::connect(server).await.unwrap();
    assert!(!client.capabilities().extensions.contains_key(UI));
}

#[test]
fn a_tool_whose_app_cannot_be_shown_is_an_error() {
    let of = |uri: &str| Tool::new("weather", async || "sunny").app(uri);
    for (app, tool, expected) in [
        (
            None,
            of("ui://weather"),
            "tool `weather`: the server does not have its app `ui://weather`",
        ),
        (Some(app()), of("ui://wether"), "or name one of those that it has: `ui://weather`"),
        (
            Some(app()),
            of("https://example.com"),
            "its app `https://example.com` must begin with `ui://`",
        ),
        (None, of("ui://weather").visibility([]), "nothing may call it"),
        (Some(app()), of("ui://weather").visibility([]), "its visibility is empty"),
        (None, Tool::new("a", async || 1).visibility([Visibility::App]), "a server without an app"),
        (
            Some(app()),
            Tool::new("a", async || 1)
                .meta("ui", json!({"csp": {"connectDomains": ["https://example.com"]}}))
                .visibility([Visibility::App]),
            "its `_meta.ui.csp` has no effect on a tool",
        ),
    ] {
        let problems = problems(app, tool);
        assert!(problems.iter().any(|it| it.contains(expected)), "{expected}: {problems:?}");
    }
    let fine = Tool::new("a", async || 1).visibility([Visibility::App]);
    assert_eq!(problems(Some(app()), fine), [""; 0]);
}

#[tokio::test]
async fn an_extension_that_is_added_by_hand_wins_only_with_its_settings() {
    let by_hand = || ProtocolExtension::new(UI).setting("own", 1);
    let weather = || Server::new("weather", "1.0.0").extension(by_hand()).tool::<weather>();
    let problems = weather().build().unwrap_err().to_string();
    assert!(problems.contains("the server does not have its app `ui://weather`"), "{problems}");
    let server = weather().app(app().openai()).build().unwrap();
    let client = Client::connect(server).await.unwrap();
    assert_eq!(client.capabilities().extensions[UI], json!({"own": 1}));
    let weather = meta(&*tool(&client, "weather").await);
    assert_eq!(weather["openai/outputTemplate"], "ui://weather");
}

fn tides() -> ProtocolExtension {
    let tides = ProtocolExtension::new("com.example/tides").notification("tides/changed");
    let tides = tides.method("tides/now", async || Json(json!({"height": 3})));
    tides.prepare(|parts| parts.problem("tides", "a problem"))
}

#[test]
fn an_extension_that_is_added_by_hand_and_by_a_part_is_the_same() {
    let server = || {
        let tool = Tool::new("height", async || "3").extension(tides);
        Server::new("harbour", "1.0.0").add(tool)
    };
    let bare = ProtocolExtension::new("com.example/tides");
    for server in [server(), server().extension(tides()), server().extension(bare)] {
        let problems = server.build().unwrap_err();
        assert_eq!(problems.problems().len(), 1, "{problems}");
    }
}

#[tokio::test]
async fn a_part_adds_the_methods_that_the_extension_by_hand_lacks() {
    let own = async || Json(json!({"height": 4}));
    let brought = || {
        let tides = ProtocolExtension::new("com.example/tides").notification("tides/changed");
        let tides = tides.method("tides/now", async || Json(json!({"height": 3})));
        tides.method("tides/next", async || Json(json!({"height": 5})))
    };
    let by_hand = ProtocolExtension::new("com.example/tides").method("tides/now", own);
    let tool = Tool::new("height", async || "3").extension(brought);
    let server = Server::new("harbour", "1.0.0").extension(by_hand).add(tool).build().unwrap();
    let client = Client::connect(server).await.unwrap();
    for (method, height) in [("tides/now", 4), ("tides/next", 5)] {
        let reply: Value = in_time(client.request_as(method, json!({}))).await.unwrap();
        assert_eq!(reply["height"], height, "{method}");
    }
}

#[test]
fn an_app_may_be_a_resource_or_a_template_of_the_author() {
    let tool = || Tool::new("weather", async || "sunny").app("ui://weather/today");
    for uri in ["ui://weather/today", "ui://weather/{day}"] {
        let page = |mime: &str| {
            let page = Resource::new(uri, async |Uri(uri): Uri| uri).mime(mime.to_owned());
            let server = Server::new("weather", "1.0.0").add(page).add(tool());
            server.build().map(|_| ()).map_err(|problems| problems.to_string())
        };
        assert_eq!(page(MIME_TYPE), Ok(()), "{uri}");
        assert!(page("text/html").unwrap_err().contains("has the media type `text/html`"), "{uri}");
    }
}

#[test]
fn an_app_that_no_host_can_show_is_an_error() {
    let html = |page: &str| App::html("ui://weather", page);
    for (app, expected) in [
        (html(""), "does not begin with `<!doctype html>`"),
        (html("<p>Weather</p>"), "does not begin with `<!doctype html>`"),
        (
            html("<!doctype html><script src='main.js'></script>"),
            "its page loads \"main.js\" from a relative URL",
        ),
        (html("<!doctype html><link rel=stylesheet href=/a.css>"), "its page loads \"a.css\""),
        (App::html("https://example.com/", PAGE), "the URI of an app begins with `ui://`"),
        (App::html("ui://weather/{day}", PAGE), "the URI of an app has no variables"),
        (
            App::dir("ui://weather", "/nowhere/at/all"),
            "its directory /nowhere/at/all does not exist",
        ),
        (app().watch(), "only a directory can be watched"),
        (
            app().domain("weather.example.com/path"),
            "its domain \"weather.example.com/path\" is not",
        ),
        (app().domain("a; script-src *"), "is not the name of a host"),
        (app().domain(""), "is not the name of a host"),
    ] {
        let problems = problems(Some(app), Tool::new("a", async || 1));
        assert!(problems.len() == 1 && problems[0].contains(expected), "{expected}: {problems:?}");
    }
    assert_eq!(
        problems(Some(app().domain("https://a.oaiusercontent.com")), Tool::new("a", async || 1)),
        [""; 0]
    );
}

#[test]
fn only_origins_are_allowed_in_the_policy() {
    for origin in [
        "https://example.com",
        "http://localhost:3000",
        "wss://a.b-c.example.com:8443",
        "https://*.example.com",
        "https://xn--bcher-kva.example",
        "ws://127.0.0.1:9000",
    ] {
        let app = app().csp(Csp::new().connect(origin));
        assert_eq!(problems(Some(app), Tool::new("a", async || 1)), [""; 0], "{origin}");
    }
    for origin in [
        "",
        "*",
        "example.com",
        "https://",
        "https://*",
        "https://*.com",
        "https://a.*.com",
        "'self'",
        "data:",
        "https://example.com/",
        "https://example.com/path",
        "https://example.com?x",
        "https://a b",
        "https://a.com;",
        "https://a.com; script-src *",
        "https://a.com 'unsafe-eval'",
        "https://a.com\nx",
        "https://a.com\"",
        "https://bücher.de",
        "https://user@example.com",
        "https://example.com:",
        "https://example.com:0",
        "https://example.com:99999",
        "https://example.com:+1",
        "https://-a.com",
        "https://a..com",
        "file:///etc",
        "javascript:alert(1)",
        "HTTPS://example.com",
        "https://[::1]",
    ] {
        let csp = Csp::new();
        for csp in [
            csp.clone().connect(origin),
            csp.clone().resource(origin),
            csp.clone().frame(origin),
            csp.clone().base_uri(origin),
        ] {
            let problems = problems(Some(app().csp(csp)), Tool::new("a", async || 1));
            let expected = format!("contains {}, which is not an origin", Value::from(origin));
            assert!(
                problems.len() == 1 && problems[0].contains(&expected),
                "{origin:?}: {problems:?}"
            );
        }
    }
}

#[test]
fn an_app_that_works_badly_is_logged() {
    let (log, _guard) = LogCatcher::on_this_thread(Level::WARN);
    let silent = Tool::new("weather", async || ()).app("ui://weather");
    assert_eq!(problems(Some(app()), silent), [""; 0]);
    let fallible = Tool::new("weather", async || Ok::<(), ToolError>(())).app("ui://weather");
    let csp = Csp::new().connect("http://example.com").connect("http://localhost:3000");
    assert_eq!(problems(Some(app().csp(csp)), fallible), [""; 0]);
    assert_eq!(problems(Some(app()), Tool::new("a", async || 1)), [""; 0]);
    let lines = log.lines();
    for (line, parts) in lines.iter().zip([
        ["tool `weather`", "its results have no content"],
        ["tool `weather`", "its results have no content"],
        ["app `ui://weather`", "browsers block `http://example.com`"],
        ["app `ui://weather`", "no tool names it"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    assert_eq!(lines.len(), 4, "{lines:?}");
    // Pages show a result without content, and a refresh is not for the model.
    let refresh =
        Tool::new("weather", async || ()).app("ui://weather").visibility([Visibility::App]);
    assert_eq!(problems(Some(app()), refresh), [""; 0]);
    assert_eq!(log.lines().len(), 4, "{:?}", log.lines());
}

#[test]
fn the_script_of_the_page_is_small_and_can_be_inlined() {
    assert!(PAGE_SCRIPT.len() <= 4096, "{} bytes", PAGE_SCRIPT.len());
    // It would end the element, or begin a comment in it.
    for text in ["</script", "<!--"] {
        assert!(!PAGE_SCRIPT.contains(text), "{text}");
    }
}

/// Directory of a test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wharf-apps-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn write(&self, name: &str, text: &str) {
        // Replaced at once, so that no reader sees half of it.
        let partial = self.0.join("partial");
        fs::write(&partial, text).unwrap();
        fs::rename(partial, self.0.join(name)).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn page(client: &Client) -> String {
    let contents: ResourceContents =
        in_time(client.read("ui://weather")).await.unwrap().contents.remove(0);
    match contents.body {
        Body::Text(text) => text,
        Body::Blob(blob) => panic!("{blob}"),
    }
}

#[tokio::test]
async fn a_directory_is_read_again_and_its_subscribers_are_notified() {
    let directory = Directory::new("watch");
    directory.write(
        "index.html",
        "<!doctype html><script src='main.js'></script><script src=wharf-app.js></script>",
    );
    directory.write("main.js", "1");
    let endpoint = server(App::dir("ui://weather", &directory.0).watch());
    let client = Client::connect(&endpoint).await.unwrap();
    let first = page(&client).await;
    assert!(first.contains("<script>\n1</script>") && first.contains(PAGE_SCRIPT), "{first}");
    let mut updates = in_time(client.subscribe("ui://weather")).await.unwrap();
    directory.write("main.js", "2");
    in_time(updates.next()).await.unwrap().unwrap();
    assert!(page(&client).await.contains("<script>\n2</script>"));
}

#[tokio::test]
async fn a_directory_that_cannot_be_read_later_is_an_internal_error() {
    let directory = Directory::new("gone");
    directory.write("index.html", "<!doctype html>");
    let client = Client::connect(server(App::dir("ui://weather", &directory.0))).await.unwrap();
    assert_eq!(page(&client).await, "<!doctype html>");
    fs::remove_file(directory.0.join("index.html")).unwrap();
    let error = client.read("ui://weather").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InternalError);
    assert!(!format!("{error:?}").contains("index.html"), "{error:?}");
}

#[test]
fn a_directory_serves_only_what_is_below_it() {
    let directory = Directory::new("escape");
    let all = problems(Some(App::dir("ui://weather", &directory.0)), Tool::new("a", async || 1));
    assert!(all[0].contains("index.html cannot be read"), "{all:?}");
    for path in ["../secret.js", "a/../../secret.js", "/../secret.js"] {
        directory.write("index.html", &format!("<!doctype html><script src='{path}'></script>"));
        let app = App::dir("ui://weather", &directory.0);
        let problems = problems(Some(app), Tool::new("a", async || 1));
        assert!(problems[0].contains("not a path below its directory"), "{path}: {problems:?}");
    }
}

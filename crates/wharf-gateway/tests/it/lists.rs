//! Merged lists, names, filters, capabilities and instructions.

use std::time::Duration;

use wharf_client::{ClientHandle, ConnectError};
use wharf_gateway::{Gateway, NamePrefix, UpstreamConnector, UpstreamServer};
use wharf_model::{CacheHint, Method, Outcome, PromptMessage, Reply, RequestBuilder};
use wharf_server::{Prompt, Resource, Router, Tool, Uri};

use crate::support::{Health, TestServer, call, discover, error, list, result, send, text, tools};

fn two() -> (TestServer, TestServer) {
    (TestServer::with_tools("one", &["b", "a"]), TestServer::with_tools("two", &["a"]))
}

#[tokio::test(start_paused = true)]
async fn tools_have_the_order_of_the_configuration() {
    let (one, two) = two();
    let gateway = Gateway::builder().upstream("z.1", &one).upstream("y", &two).build().unwrap();
    assert_eq!(tools(&gateway).await, ["z_1_b", "z_1_a", "y_a"]);
    assert_eq!(text(&call(&gateway, "z_1_a").await), "one a");
    assert_eq!(text(&call(&gateway, "y_a").await), "two a");
}

#[tokio::test(start_paused = true)]
async fn a_call_needs_no_list_before_it() {
    let (one, two) = two();
    let gateway = Gateway::builder().upstream("one", &one).upstream("two", &two).build().unwrap();
    assert_eq!(text(&call(&gateway, "two_a").await), "two a");
}

#[tokio::test(start_paused = true)]
async fn the_names_of_a_single_server_have_a_prefix_only_if_configured() {
    let (one, _) = two();
    let gateway = Gateway::builder().upstream("one", &one).build().unwrap();
    assert_eq!(tools(&gateway).await, ["b", "a"]);
    let always = Gateway::builder().upstream("one", &one).names(NamePrefix::Always);
    assert_eq!(tools(&always.build().unwrap()).await, ["one_b", "one_a"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_of_two_servers_is_refused_to_the_later_one() {
    let (one, two) = two();
    let builder = Gateway::builder().upstream("one", &one).upstream("two", &two);
    let gateway = builder.names(NamePrefix::Never).build().unwrap();
    assert_eq!(tools(&gateway).await, ["b", "a"]);
    assert_eq!(text(&call(&gateway, "a").await), "one a");
    let refused = gateway.refused_names();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (&*refused[0].upstream, &*refused[0].owner, &*refused[0].public),
        ("two", "one", "a")
    );

    let left = TestServer::with_tools("left", &["b_c"]);
    let right = TestServer::with_tools("right", &["c"]);
    let gateway = Gateway::builder().upstream("a", &left).upstream("a_b", &right).build().unwrap();
    assert_eq!(tools(&gateway).await, ["a_b_c"]);
    assert_eq!(text(&call(&gateway, "a_b_c").await), "left b_c");
}

#[tokio::test(start_paused = true)]
async fn a_name_does_not_move_to_a_server_that_appears_later() {
    let (one, two) = two();
    one.set(Health::Down);
    let builder = Gateway::builder().upstream("one", &one).upstream("two", &two);
    let gateway = builder.names(NamePrefix::Never).build().unwrap();
    assert_eq!(tools(&gateway).await, ["a"]);
    one.set(Health::Up);
    crate::support::pass(Duration::from_secs(2)).await;
    assert_eq!(tools(&gateway).await, ["b", "a"]);
    assert_eq!(text(&call(&gateway, "a").await), "two a");
    assert_eq!(gateway.refused_names()[0].upstream, "one");
}

#[tokio::test(start_paused = true)]
async fn a_shortened_name_can_be_called() {
    let long = "list_all_of_the_many_pull_requests_of_one_repository";
    let server = TestServer::with_tools("one", &[long]);
    let builder = Gateway::builder().upstream("github", &server).names(NamePrefix::Always);
    let gateway = builder.build().unwrap();
    let names = tools(&gateway).await;
    assert_eq!(names[0].len(), 46);
    assert_eq!(text(&call(&gateway, &names[0]).await), format!("one {long}"));
}

#[tokio::test(start_paused = true)]
async fn filters_hide_tools_from_lists_and_calls() {
    let router = Router::builder()
        .add(Tool::new("get_a", async || "a").read_only())
        .add(Tool::new("get_secret", async || "s").read_only())
        .add(Tool::new("get_and_delete", async || "d"))
        .add(Tool::new("put_a", async || "p"));
    let server = TestServer::new(router.build().unwrap());
    let upstream = UpstreamServer::new(&server).allow(["get_*"]).deny(["*secret*"]).read_only(true);
    let gateway = Gateway::builder().upstream("one", upstream).build().unwrap();
    assert_eq!(tools(&gateway).await, ["get_a"]);
    for hidden in ["get_secret", "get_and_delete", "put_a"] {
        let call = RequestBuilder::new(Method::CallTool).target(hidden);
        assert!(error(&gateway, call).await.kind.is_tool_not_found(), "{hidden}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_name_gets_the_nearest_ones() {
    let server = TestServer::with_tools("one", &["create_issue", "today"]);
    let gateway = Gateway::builder().upstream("one", &server).build().unwrap();
    let call = RequestBuilder::new(Method::CallTool).target("create_isue");
    let problem = error(&gateway, call).await;
    assert_eq!(problem.message, "Unknown tool: create_isue. Did you mean create_issue?");
}

#[tokio::test(start_paused = true)]
async fn pages_have_cursors_of_the_gateway() {
    let (one, two) = two();
    let builder = Gateway::builder().upstream("one", &one).upstream("two", &two).page_size(2);
    let gateway = builder.build().unwrap();
    let first = result(&gateway, RequestBuilder::new(Method::ListTools)).await;
    assert_eq!(first["tools"].as_array().unwrap().len(), 2);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = result(&gateway, RequestBuilder::new(Method::ListTools).cursor(cursor)).await;
    assert_eq!(second["tools"][0]["name"], "two_a");
    assert_eq!(second.get("nextCursor"), None);
    let wrong = error(&gateway, RequestBuilder::new(Method::ListTools).cursor("?")).await;
    assert!(wrong.kind.is_invalid_cursor());
}

#[tokio::test(start_paused = true)]
async fn capabilities_and_instructions_are_merged() {
    let prompt = Router::builder().add(Prompt::new("greet", async || PromptMessage::user("hi")));
    let prompts = TestServer::new(prompt.instructions("Greet first.").build().unwrap());
    let (one, _) = two();
    let builder = Gateway::builder().upstream("one", &one).upstream("greeter", &prompts);
    let gateway = builder.clone().build().unwrap();
    let found = discover(&gateway).await;
    assert!(found.capabilities.tools.is_some_and(|it| it.list_changed));
    assert!(found.capabilities.prompts.is_some() && found.capabilities.resources.is_none());
    assert_eq!(found.instructions.as_deref(), Some("## greeter\n\nGreet first."));
    assert_eq!(list(&gateway, Method::ListPrompts, "prompts", "name").await, ["greeter_greet"]);
    let gateway = builder.instructions("Read this.").build().unwrap();
    assert_eq!(discover(&gateway).await.instructions.as_deref(), Some("Read this."));
}

#[tokio::test(start_paused = true)]
async fn uris_have_prefixes_if_several_servers_have_resources() {
    let files = || Router::builder().add(Resource::new("mem:a", async || "a"));
    let (one, other) =
        (files().build().unwrap(), files().add(Resource::new("mem:x/{y}", async |_: Uri| "x")));
    let (one, other) = (TestServer::new(one), TestServer::new(other.build().unwrap()));
    let uris =
        async |gateway: &Gateway| list(gateway, Method::ListResources, "resources", "uri").await;
    let (tools_only, _) = two();
    let alone = Gateway::builder().upstream("one", &one).upstream("tools", &tools_only);
    assert_eq!(uris(&alone.build().unwrap()).await, ["mem:a"]);
    let both = Gateway::builder().upstream("one", &one).upstream("My_Other", &other);
    let both = both.build().unwrap();
    assert_eq!(uris(&both).await, ["one+mem:a", "my-other+mem:a"]);
    let templates = list(&both, Method::ListTemplates, "resourceTemplates", "uriTemplate").await;
    assert_eq!(templates, ["my-other+mem:x/{y}"]);
}

#[tokio::test(start_paused = true)]
async fn lists_are_answered_from_memory_and_read_again_when_they_are_old() {
    let (one, _) = two();
    let gateway = Gateway::builder().upstream("one", &one).build().unwrap();
    tools(&gateway).await;
    crate::support::pass(Duration::from_secs(1)).await;
    let read = one.lists();
    for _ in 0..10 {
        tools(&gateway).await;
    }
    assert_eq!(one.lists(), read);
    crate::support::pass(Duration::from_secs(400)).await;
    assert_eq!(one.lists(), read);
    // An old list does not wait for the server, and is read once.
    one.set(Health::Hangs);
    assert_eq!(tools(&gateway).await, ["b", "a"]);
    one.set(Health::Up);
    tools(&gateway).await;
    crate::support::pass(Duration::from_secs(1)).await;
    assert_eq!(one.lists(), read + 1);
}

#[tokio::test(start_paused = true)]
async fn merged_lists_have_the_strictest_cache_hint() {
    let server = |name: &'static str, hint: CacheHint| {
        let builder = Router::builder().add(Tool::new(name, async || "x")).cache(hint);
        TestServer::new(builder.build().unwrap())
    };
    let hint = async |gateway: &Gateway| match send(gateway, RequestBuilder::new(Method::ListTools))
        .await
    {
        Outcome::Complete(Reply::Tools(page)) => page.cache,
        other => panic!("{other:?}"),
    };
    let (one, two) = (server("a", CacheHint::public(900)), server("b", CacheHint::public(700)));
    let (private, down) =
        (server("c", CacheHint::private(800)), server("d", CacheHint::public(900)));
    down.set(Health::Down);
    let both = Gateway::builder().upstream("one", &one).upstream("two", &two);
    assert_eq!(hint(&both.clone().build().unwrap()).await, CacheHint::public(700));
    let three = both.clone().upstream("private", &private).build().unwrap();
    assert_eq!(hint(&three).await, CacheHint::private(700));
    let incomplete = both.upstream("down", &down).build().unwrap();
    assert_eq!(hint(&incomplete).await, CacheHint::public(0));
}

#[test]
fn servers_with_the_same_prefix_are_an_error() {
    let connector = || {
        let never = || std::future::pending::<Result<ClientHandle, ConnectError>>();
        UpstreamConnector::new(never)
    };
    let builder = Gateway::builder().upstream("a.b", connector());
    let problem = builder.clone().upstream("A_b", connector()).build().unwrap_err().to_string();
    assert!(problem.contains("a.b") && problem.contains("A_b"), "{problem}");
    let upstream = UpstreamServer::new(connector()).prefix("other");
    assert!(builder.upstream("a_b", upstream).build().is_ok());
}

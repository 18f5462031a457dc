//! Build errors: invalid servers and the messages of the builder.

use crate::support::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_model::{
    CacheHint, CompletionRequest, ListCapability, Method, Outcome, Reply, ServerCapabilities,
};
use wharf_server::{Args, CallLimits, Prompt, RawArgs, Resource, Router, State, Tool, Uri};

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Named {
    name: String,
}

fn tool(name: &str) -> Tool {
    Tool::new(name, async || ())
}

fn build(tool: Tool) -> Result<Router, wharf_server::BuildError> {
    Router::builder().add(tool).build()
}

fn dynamic(schema: Value) -> Tool {
    Tool::dynamic("t", schema, async |_: RawArgs| ())
}

#[test]
fn all_build_errors_are_reported_with_their_part() {
    let built = Router::builder()
        .add(tool("a b"))
        .add(Tool::new("needy", async |_: State<String>| ()))
        .add(Resource::new("no-scheme", async || "x"))
        .add(Prompt::new("", async || "x"))
        .build();
    let text = built.as_ref().unwrap_err().to_string();
    let all = problems(built);
    assert_eq!(all.len(), 4, "{all:#?}");
    assert!(all[0].starts_with("tool `a b`: "));
    assert!(
        all[1].starts_with("tool `needy`: ") && all[1].contains("State<alloc::string::String>")
    );
    assert!(all[2].starts_with("resource `no-scheme`: "));
    assert!(all[3].starts_with("prompt ``: "));
    assert_eq!(text.lines().count(), 5);
}

#[test]
fn names_are_unique_in_each_list() {
    let built = Router::builder()
        .add(tool("same"))
        .add(Prompt::new("same", async || "a prompt may share the name of a tool"))
        .add(tool("same"))
        .add(Resource::new("x:y", async || "1"))
        .add(Resource::new("x:y", async || "2"))
        .build();
    let all = problems(built);
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(all[0].starts_with("tool `same`") && all[1].starts_with("resource `x:y`"));
}

#[test]
fn tool_names_keep_to_the_character_set() {
    for good in ["getUser", "DATA_EXPORT_v2", "admin.tools.list", "a-b", &"x".repeat(128)] {
        assert!(build(tool(good)).is_ok(), "{good}");
    }
    for bad in ["", "a b", "a,b", "é", "a/b", &"x".repeat(129)] {
        assert!(build(tool(bad)).is_err(), "{bad}");
    }
}

#[test]
fn the_length_of_descriptions_is_limited() {
    // Characters, not bytes.
    assert!(build(tool("t").description("é".repeat(10_000))).is_ok());
    let problem = one_problem(build(tool("t").description("é".repeat(10_001))));
    assert!(problem.contains("10001") && problem.contains("CallLimits::description"));
}

#[test]
fn state_is_found_by_its_type() {
    let needy = || Tool::new("needy", async |State(n): State<u8>| n);
    assert!(Router::builder().state(1_u8).add(needy()).build().is_ok());
    assert!(Router::builder().add(needy()).state(1_u8).build().is_ok(), "in any order");
    assert!(one_problem(Router::builder().state(1_u16).add(needy()).build()).contains("State<u8>"));
    assert!(one_problem(Router::builder().state(1_u8).state(2_u8).build()).contains("twice"));
}

#[test]
fn unknown_schema_dialects_are_rejected_by_name() {
    for known in [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
    ] {
        assert!(build(dynamic(json!({"$schema": known, "type": "object"}))).is_ok(), "{known}");
    }
    let odd = json!({"$schema": "http://json-schema.org/draft-03/schema#", "type": "object"});
    let all = problems(build(dynamic(odd)));
    assert!(all[0].contains("draft-03/schema") && all[0].contains("2020-12"), "{all:#?}");
}

#[test]
fn references_outside_a_schema_are_refused() {
    let to = |target: &str| {
        json!({"type": "object", "properties": {"x": {"$ref": target}}, "$defs": {
            "y": {"type": "integer"}, "z": {"$id": "https://example.com/z", "type": "string"},
        }})
    };
    assert!(build(dynamic(to("#/$defs/y"))).is_ok());
    assert!(build(dynamic(to("https://example.com/z"))).is_ok());
    for outside in ["https://example.com/other.json", "file:///etc/passwd", "other.json#/a"] {
        let all = problems(build(dynamic(to(outside))));
        assert!(all.iter().any(|it| it.contains(outside)), "{all:#?}");
    }
    assert!(build(dynamic(to("#/$defs/gone"))).is_err());
}

#[test]
fn schemas_are_bounded() {
    let nested = |depth: usize| {
        (1..depth).fold(
            json!({"type": "object"}),
            |inner, _| json!({"type": "object", "properties": {"x": inner}}),
        )
    };
    let limits = CallLimits::default().schema_depth(8).subschemas(20);
    let build = |schema| Router::builder().limits(limits.clone()).add(dynamic(schema)).build();
    assert!(build(nested(8)).is_ok());
    assert!(problems(build(nested(9)))[0].contains("more than 8 deep"));
    let wide = |count: usize| {
        let properties: serde_json::Map<_, _> =
            (1..count).map(|n| (n.to_string(), json!(true))).collect();
        json!({"type": "object", "properties": properties})
    };
    assert!(build(wide(20)).is_ok());
    assert!(problems(build(wide(21)))[0].contains("more than 20 subschemas"));
}

#[test]
fn shared_subschemas_are_visited_once() {
    let mut defs = serde_json::Map::new();
    defs.insert("a0".into(), json!({"type": "object"}));
    for n in 1..=40 {
        let down = json!({"$ref": format!("#/$defs/a{}", n - 1)});
        defs.insert(format!("a{n}"), json!({"allOf": [down, down]}));
    }
    let schema =
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/a40"}}, "$defs": defs});
    let router = build(Tool::dynamic("t", schema, async |_: RawArgs| "ok")).unwrap();
    assert_eq!(text(now(&router, call("t", r#"{"x":{}}"#))), "ok");
    assert!(kind(now(&router, call("t", r#"{"x":1}"#))).is_invalid_tool_arguments());
}

#[test]
fn circular_references_are_rejected() {
    for circle in [
        json!({"type": "object", "$ref": "#"}),
        json!({"type": "object", "anyOf": [{"not": {"$ref": "#"}}]}),
    ] {
        assert!(one_problem(build(dynamic(circle))).contains("reference cycle"));
    }
}

#[test]
fn patterns_may_look_around_and_formats_may_be_unknown() {
    let schema = json!({"type": "object", "properties": {
        "x": {"type": "string", "pattern": "^(?!no)"}, "y": {"format": "x-mine"}}});
    let router = build(Tool::dynamic("t", schema, async |_: RawArgs| "ok")).unwrap();
    assert_eq!(text(now(&router, call("t", r#"{"x":"yes","y":1}"#))), "ok");
    assert!(kind(now(&router, call("t", r#"{"x":"no"}"#))).is_invalid_tool_arguments());
}

#[test]
fn invalid_schemas_are_rejected() {
    for bad in [
        json!(null),
        json!(true),
        json!({"type": "string"}),
        json!({}),
        json!({"type": "object", "properties": {"x": {"type": "nonsense"}}}),
        json!({"type": "object", "properties": {"x": {"pattern": "("}}}),
        json!({"type": "object", "properties": {"x": {"pattern": r"(a)\1"}}}),
    ] {
        assert!(build(dynamic(bad.clone())).is_err(), "{bad}");
    }
    assert!(build(tool("t").output_schema(json!({"type": 1}))).is_err());
    let numbers = Tool::new("n", async |Args(n): Args<i64>| n);
    assert!(one_problem(build(numbers)).contains("must be an object"));
}

#[test]
fn mirrored_headers_keep_to_the_rules() {
    let on = |property: Value| json!({"type": "object", "properties": {"x": property}});
    let header = |name: Value, kind: &str| on(json!({"type": kind, "x-mcp-header": name}));
    for kind in ["string", "integer", "boolean"] {
        assert!(build(dynamic(header(json!("Region"), kind))).is_ok());
    }
    assert!(
        build(dynamic(on(json!({"type": "object", "properties": {
        "y": {"type": "string", "x-mcp-header": "Deep"}}}))))
        .is_ok()
    );
    let bad = [
        header(json!(""), "string"),
        header(json!("a b"), "string"),
        header(json!("a\r\nb"), "string"),
        header(json!("é"), "string"),
        header(json!(1), "string"),
        header(json!("N"), "number"),
        header(json!("N"), "array"),
        on(json!({"x-mcp-header": "Untyped"})),
        on(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "Items"}})),
        on(json!({"anyOf": [{"type": "string", "x-mcp-header": "Any"}]})),
        json!({"type": "object", "x-mcp-header": "Root"}),
        json!({"type": "object", "$defs": {"d": {"type": "string", "x-mcp-header": "Def"}}}),
        json!({"type": "object", "properties": {
            "a": {"type": "string", "x-mcp-header": "Same"},
            "b": {"type": "string", "x-mcp-header": "sAME"}}}),
    ];
    for schema in bad {
        assert!(one_problem(build(dynamic(schema.clone()))).contains("x-mcp-header"), "{schema}");
    }
}

#[test]
fn an_optional_mirrored_parameter_has_a_plain_type() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Region {
        #[schemars(extend("x-mcp-header" = "Region"))]
        region: Option<String>,
    }
    let tool = Tool::new("t", async |_: Args<Region>| ());
    assert_eq!(tool.info().input_schema["properties"]["region"]["type"], "string");
    assert!(build(tool).is_ok());
}

#[test]
fn a_template_and_its_function_have_the_same_names() {
    let resource = |template: &str| {
        Router::builder()
            .add(Resource::new(template, async |Args(it): Args<Named>| it.name))
            .build()
    };
    assert!(resource("x://{name}").is_ok());
    let all = problems(resource("x://{nome}"));
    assert!(all[0].contains("`nome`") && all[1].contains("`name`"), "{all:#?}");
    assert!(one_problem(resource("x://{name}/{id}")).contains("`id`"));
    assert!(one_problem(resource("x://y")).contains("`name`"));
    let plain = Resource::new("x://{name}", async || "x");
    assert!(one_problem(Router::builder().add(plain).build()).contains("`name`"));
    let whole = Resource::new("x://{name}", async |Uri(uri): Uri| uri);
    assert!(Router::builder().add(whole).build().is_ok());
    let map = Resource::new(
        "x://{name}",
        async |Args(all): Args<std::collections::BTreeMap<String, String>>| all["name"].clone(),
    );
    assert!(Router::builder().add(map).build().is_ok());
    assert!(one_problem(resource("x://{name")).contains("template"));
}

#[test]
fn completions_belong_to_arguments_that_exist() {
    let prompt = || Prompt::new("p", async |Args(it): Args<Named>| it.name);
    assert!(Router::builder().add(prompt().complete_from("name", ["a"])).build().is_ok());
    let odd = prompt().complete_from("nome", ["a"]);
    assert!(one_problem(Router::builder().add(odd).build()).contains("`nome`"));
    let twice = prompt().complete_from("name", ["a"]).complete_from("name", ["b"]);
    assert!(one_problem(Router::builder().add(twice).build()).contains("twice"));
    let wrong = prompt().complete("name", async |_: Args<Named>| Vec::<String>::new());
    assert!(one_problem(Router::builder().add(wrong).build()).contains("CompletionRequest"));
}

#[test]
fn unsupported_handler_parameters_are_reported() {
    assert!(one_problem(build(Tool::new("t", async |_: Uri| ()))).contains("Uri"));
    assert!(
        one_problem(build(Tool::new("t", async |_: CompletionRequest| ())))
            .contains("CompletionRequest")
    );
    let twice = Tool::new("t", async |_: Args<Named>, _: Args<Named>| ());
    assert!(one_problem(build(twice)).contains("twice"));
    let prompt = Prompt::new("p", async |_: RawArgs| "x");
    assert!(one_problem(Router::builder().add(prompt).build()).contains("RawArgs"));
}

fn discovered(router: &Router) -> (ServerCapabilities, Option<String>, CacheHint) {
    match now(router, list(Method::Discover)) {
        Outcome::Complete(Reply::Discover(it)) => (it.capabilities, it.instructions, it.cache),
        other => panic!("{other:?}"),
    }
}

#[test]
fn capabilities_reflect_the_primitives() {
    let empty = Router::builder().build().unwrap();
    let (capabilities, instructions, _) = discovered(&empty);
    assert_eq!(serde_json::to_value(capabilities).unwrap(), json!({"logging": {}}));
    assert_eq!(instructions, None);
    let full = Router::builder()
        .add(tool("t"))
        .add(Prompt::new("p", async |Args(it): Args<Named>| it.name).complete_from("name", ["a"]))
        .add(Resource::new("x:y", async || "y"))
        .instructions("Be kind.")
        .logging(false)
        .cache(CacheHint::public(5))
        .build()
        .unwrap();
    let (capabilities, instructions, cache) = discovered(&full);
    assert_eq!(
        serde_json::to_value(capabilities).unwrap(),
        json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "completions": {},
        })
    );
    assert_eq!(instructions.as_deref(), Some("Be kind."));
    assert_eq!(cache, CacheHint::public(5));
}

#[test]
fn capabilities_can_be_overridden_and_decide_what_can_be_called() {
    let router = Router::builder()
        .add(tool("t"))
        .capabilities(|it| {
            it.tools = None;
            it.prompts = Some(ListCapability::default());
            it.experimental.insert("x".into(), json!({}));
            it.extensions.insert("com.example/y".into(), json!({"z": 1}));
        })
        .build()
        .unwrap();
    let (capabilities, ..) = discovered(&router);
    assert_eq!(capabilities.extensions["com.example/y"]["z"], 1);
    assert!(capabilities.experimental.contains_key("x"));
    assert!(kind(now(&router, call("t", "{}"))).is_capability_not_supported());
    assert!(matches!(
        now(&router, list(Method::ListPrompts)),
        Outcome::Complete(Reply::Prompts(page)) if page.items().is_empty()
    ));
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
enum Colour {
    Red,
    Blue,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Readable {
    text: String,
    number: Option<f64>,
    switch: bool,
    colour: Option<Colour>,
    list: Vec<Colour>,
    any: Value,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Unreadable {
    text: String,
    named: Option<Named>,
    map: std::collections::BTreeMap<String, String>,
    grid: Vec<Vec<u8>>,
    pair: (u8, u8),
}

#[test]
fn prompt_arguments_must_be_parsable_from_strings() {
    let build = |prompt: Prompt| Router::builder().add(prompt).build();
    assert!(build(Prompt::new("p", async |_: Args<Readable>| "x")).is_ok());
    let all = problems(build(Prompt::new("p", async |_: Args<Unreadable>| "x")));
    assert_eq!(all.len(), 4, "{all:#?}");
    for (problem, name) in all.iter().zip(["`named`", "`map`", "`grid`", "`pair`"]) {
        assert!(problem.starts_with("prompt `p`: ") && problem.contains(name), "{problem}");
    }
}

#[test]
fn template_parameters_must_be_parsable_from_strings() {
    let uri = "x:{text}{?named,map*,grid*,pair*}";
    let all = problems(
        Router::builder().add(Resource::new(uri, async |_: Args<Unreadable>| "x")).build(),
    );
    assert_eq!(all.len(), 3, "{all:#?}");
    assert!(all[0].contains("`named`") && all[0].starts_with("resource `x:"), "{all:#?}");
}

#[test]
fn titles_need_an_existing_argument() {
    let prompt = || Prompt::new("p", async |_: Args<Named>| "x");
    let build = |prompt: Prompt| Router::builder().add(prompt).build();
    assert!(build(prompt().argument_title("name", "Name")).is_ok());
    let problem = one_problem(build(prompt().argument_title("nmae", "Name")));
    assert!(problem.contains("`nmae`"), "{problem}");
}

fn nine() -> u8 {
    9
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Stars {
    #[serde(default = "nine")]
    #[schemars(extend("maximum" = 5))]
    stars: u8,
    #[serde(default)]
    #[schemars(extend("minimum" = 1))]
    fine: Option<u8>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Nested {
    inner: Option<Stars>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Ranged {
    #[schemars(extend("minimum" = 1))]
    text: Option<String>,
    #[schemars(extend("minimum" = 1))]
    number: Option<f32>,
}

#[test]
fn a_default_fits_its_own_schema() {
    for tool in
        [Tool::new("t", async |_: Args<Stars>| ()), Tool::new("t", async |_: Args<Nested>| ())]
    {
        let problem = one_problem(build(tool));
        assert!(problem.contains("the default of `stars`") && problem.contains('9'), "{problem}");
    }
    let prompt = Prompt::new("p", async |_: Args<Stars>| "x");
    assert!(one_problem(Router::builder().add(prompt).build()).contains("`stars`"));
}

#[test]
fn only_a_number_has_a_range() {
    let problem = one_problem(build(Tool::new("t", async |_: Args<Ranged>| ())));
    assert!(problem.contains("`text` has a range"), "{problem}");
}

#[test]
fn problems_read_well_at_run_time_too() {
    let router = Router::builder().build().unwrap();
    let error = router.registry().add(tool("a b")).unwrap_err().to_string();
    assert!(error.starts_with("cannot be built:\n- tool `a b`: "), "{error}");
}

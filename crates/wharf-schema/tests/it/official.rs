//! The official JSON-Schema-Test-Suite: all required and optional cases of all supported dialects.
//!
//! `cargo xtask foreign` installs it. `JSON_SCHEMA_TEST_SUITE` names the directory of another copy.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use wharf_schema::validate::{MAX_STEPS, Schema};

const DRAFTS: [(&str, &str); 5] = [
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft4", "http://json-schema.org/draft-04/schema#"),
];

/// Number of cases in the installed copy; later copies have more.
const CASES: usize = 7247;

/// Cases that are decided otherwise: the reason, the drafts, the file, and the cases.
type Exceptions = (&'static str, &'static [&'static str], &'static str, &'static [&'static str]);

const EXCEPTIONS: [Exceptions; 3] = [
    (
        "`format` is asserted, because authors of tools expect it; in 2020-12 it is an annotation by default",
        &["draft2020-12"],
        "format.json",
        &[
            "date format / invalid date string is only an annotation by default",
            "date-time format / invalid date-time string is only an annotation by default",
            "duration format / invalid duration string is only an annotation by default",
            "email format / invalid email string is only an annotation by default",
            "hostname format / invalid hostname string is only an annotation by default",
            "idn-email format / invalid idn-email string is only an annotation by default",
            "idn-hostname format / invalid idn-hostname string is only an annotation by default",
            "ipv4 format / invalid ipv4 string is only an annotation by default",
            "ipv6 format / invalid ipv6 string is only an annotation by default",
            "iri format / invalid iri string is only an annotation by default",
            "iri-reference format / invalid iri-reference string is only an annotation by default",
            "json-pointer format / invalid json-pointer string is only an annotation by default",
            "regex format / invalid regex string is only an annotation by default",
            "relative-json-pointer format / invalid relative-json-pointer string is only an annotation by default",
            "time format / invalid time string is only an annotation by default",
            "uri format / invalid uri string is only an annotation by default",
            "uri-reference format / invalid uri-reference string is only an annotation by default",
            "uri-template format / invalid uri-template string is only an annotation by default",
            "uuid format / invalid uuid string is only an annotation by default",
        ],
    ),
    (
        "metaschemas are not fetched, so that no schema can switch vocabularies off: foreign schemas with a custom one are rejected",
        &["draft2019-09", "draft2020-12"],
        "vocabulary.json",
        &[
            "schema that uses custom metaschema with with no validation vocabulary / no validation: invalid number, but it still validates",
        ],
    ),
    (
        "1.0 is an integer as in all later drafts: callers in JavaScript cannot choose between 1 and 1.0",
        &["draft4"],
        "optional/zeroTerminatedFloats.json",
        &[
            "some languages do not distinguish between different types of numeric value / a float is not an integer even without fractional part",
        ],
    ),
];

fn exceptions() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (_, drafts, file, cases) in &EXCEPTIONS {
        for draft in *drafts {
            all.extend(cases.iter().map(|case| format!("{draft} {file}: {case}")));
        }
    }
    all
}

fn suite() -> PathBuf {
    match env::var_os("JSON_SCHEMA_TEST_SUITE") {
        Some(directory) => directory.into(),
        None => {
            wharf_testbed::foreign_programs::Installed::find().unwrap().home.join("schema-suite")
        }
    }
}

/// Remote schemas of the suite, embedded into the schema because nothing is fetched.
struct RemoteSchemas(Vec<(String, Value)>);

impl RemoteSchemas {
    fn read(suite: &Path, draft: &str) -> Self {
        let root = suite.join("remotes");
        let remote = |path: PathBuf| {
            let name = slashed(path.strip_prefix(&root).unwrap());
            let json = read_json(&path);
            // Schemas of another draft are there for references between drafts, and name theirs.
            let dialect = json.get("$schema").and_then(Value::as_str).unwrap_or_default();
            let is_named = DRAFTS.iter().any(|(_, known)| *known == dialect);
            let folder = name.split_once('/').map_or("", |(folder, _)| folder);
            let is_own = !folder.starts_with("draft") && folder != "v1" || folder == draft;
            (is_own || is_named).then(|| (format!("http://localhost:1234/{name}"), json))
        };
        RemoteSchemas(json_files(&root).into_iter().filter_map(remote).collect())
    }

    fn bundle(&self, schema: &Value, dialect: &str) -> Value {
        let Value::Object(map) = schema else { return schema.clone() };
        let mut map = map.clone();
        map.entry("$schema").or_insert_with(|| dialect.into());
        if !schema.to_string().contains("localhost:1234") {
            return map.into();
        }
        let (id, defs) = match dialect {
            old if old.contains("draft-04") => ("id", "definitions"),
            old if old.contains("draft-0") => ("$id", "definitions"),
            _ => ("$id", "$defs"),
        };
        let known = map.entry(defs).or_insert_with(|| Map::new().into());
        for (at, (address, remote)) in self.0.iter().enumerate() {
            let mut remote = remote.clone();
            if let Some(own) = remote.get(id).cloned() {
                if own == **address {
                    known[format!("remote {at}")] = remote;
                    continue;
                }
                known[format!("alias {at}")] = json!({id: address, "allOf": [{"$ref": own}]});
            } else if let Some(remote) = remote.as_object_mut() {
                remote.insert(id.into(), address.as_str().into());
            }
            known[format!("remote {at}")] = remote;
        }
        map.into()
    }
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The path with slashes, on all systems.
fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

fn json_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(json_files(&path));
        } else if path.extension().is_some_and(|it| it == "json") {
            found.push(path);
        }
    }
    found
}

/// Result of all cases.
#[derive(Default)]
struct SuiteScore {
    cases: usize,
    /// Names of the cases with another result than the suite's, and that result.
    wrong: Vec<(String, String)>,
}

impl SuiteScore {
    fn run(&mut self, file: &str, case: &Value, schema: &Value) {
        let compiled = Schema::compile(schema);
        for test in case["tests"].as_array().unwrap() {
            let found = match &compiled {
                Ok(schema) => {
                    schema.is_valid(&test["data"], MAX_STEPS).map_err(|it| it.to_string())
                }
                Err(problem) => Err(problem.clone()),
            };
            self.cases += 1;
            if found != Ok(test["valid"] == true) {
                let text = |it: &Value| it["description"].as_str().unwrap_or_default().to_owned();
                let name = format!("{file}: {} / {}", text(case), text(test));
                self.wrong.push((name, format!("{found:?}")));
            }
        }
    }
}

fn run(suite: &Path) -> SuiteScore {
    let mut score = SuiteScore::default();
    for (draft, dialect) in DRAFTS {
        let remotes = RemoteSchemas::read(suite, draft);
        let root = suite.join("tests").join(draft);
        for path in json_files(&root) {
            let file = format!("{draft} {}", slashed(path.strip_prefix(&root).unwrap()));
            for case in read_json(&path).as_array().unwrap() {
                score.run(&file, case, &remotes.bundle(&case["schema"], dialect));
            }
        }
    }
    score
}

#[test]
fn all_cases_of_the_official_suite_have_its_results_but_the_exceptions() {
    let SuiteScore { cases, wrong } = run(&suite());
    assert!(cases >= CASES, "the suite has only {cases} cases");
    let mut exceptions = exceptions();
    let wrong: Vec<String> = wrong
        .iter()
        .filter(|(name, _)| !exceptions.remove(name))
        .map(|(name, found)| format!("{name}: {found}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(exceptions.is_empty(), "no exceptions any more: {exceptions:#?}");
}

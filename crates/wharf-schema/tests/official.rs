//! The official JSON-Schema-Test-Suite; requires a local copy:
//! `JSON_SCHEMA_TEST_SUITE=… cargo test -p wharf-schema --test official -- --ignored --nocapture`.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use wharf_schema::validate::Schema;

const DRAFTS: [(&str, &str); 5] = [
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft4", "http://json-schema.org/draft-04/schema#"),
];

/// Remote schemas of the suite, embedded into the schema because nothing is fetched.
struct RemoteSchemas(Vec<(String, Value)>);

impl RemoteSchemas {
    fn read(suite: &Path, draft: &str) -> Self {
        let root = suite.join("remotes");
        let remote = |path: PathBuf| {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let json: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            // Schemas without a dialect are in the dialect under test.
            let is_named = json.get("$schema").is_some_and(|it| it.to_string().contains(".org/"));
            let is_own = !name.starts_with(['d', 'v']) || name.starts_with(&format!("{draft}/"));
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
    found.sort();
    found
}

#[derive(Default)]
struct TestScore {
    right: usize,
    wrong: Vec<String>,
}

fn run_case(case: &Value, schema: &Value, score: &mut TestScore) {
    let compiled = Schema::compile(schema);
    for test in case["tests"].as_array().unwrap() {
        let found = match &compiled {
            Ok(schema) => schema.is_valid(&test["data"], 1_000_000).map_err(|it| it.to_string()),
            Err(problem) => Err(problem.clone()),
        };
        if found == Ok(test["valid"] == true) {
            score.right += 1;
        } else {
            let (case, test) = (&case["description"], &test["description"]);
            score.wrong.push(format!("{case} / {test}: {found:?}"));
        }
    }
}

#[test]
#[ignore = "needs a copy of the suite"]
fn the_official_suite() {
    let suite = PathBuf::from(std::env::var("JSON_SCHEMA_TEST_SUITE").unwrap());
    for (draft, dialect) in DRAFTS {
        let remotes = RemoteSchemas::read(&suite, draft);
        let root = suite.join("tests").join(draft);
        let mut scores: BTreeMap<&str, TestScore> = BTreeMap::new();
        for file in json_files(&root) {
            let name = file.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let group = match name {
                _ if name.contains("optional/format") => "optional/format",
                _ if name.contains("optional") => "optional",
                _ => "required",
            };
            let cases: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            for case in cases.as_array().unwrap() {
                let mut score = TestScore::default();
                run_case(case, &remotes.bundle(&case["schema"], dialect), &mut score);
                let sum = scores.entry(group).or_default();
                sum.right += score.right;
                sum.wrong.extend(score.wrong.into_iter().map(|it| format!("{name}: {it}")));
            }
        }
        for (group, score) in scores {
            println!("{draft} {group}: {} right, {} wrong", score.right, score.wrong.len());
            score.wrong.iter().for_each(|wrong| println!("    {wrong}"));
        }
    }
}

//! Methods and resources of skills.

use serde_json::{Value, json};
use wharf::{Client, ErrorKind, Principal, model::CacheHint, server::Item, skills::FileDigest};

use super::{TestDirectory, builders, connect, read, request, server, skill, uris};

#[tokio::test]
async fn skills_are_listed_loaded_and_read_in_every_revision() {
    let directory = TestDirectory::with_refunds();
    for builder in builders() {
        let client = builder.connect(directory.endpoint()).await.unwrap();
        let capabilities = client.capabilities();
        assert_eq!(
            json!(capabilities.extensions["io.modelcontextprotocol/skills"]),
            json!({"directoryRead": true})
        );
        assert!(capabilities.resources.is_some());
        let list = request(&client, "skills/list", json!({})).await;
        let file = skill("refunds");
        let entry = json!({
            "uri": "skill://refunds/SKILL.md",
            "frontmatter": {"name": "refunds", "description": "Does refunds."},
            "resources": [
                {"uri": "skill://refunds/SKILL.md", "digest": FileDigest::of(file.as_bytes()), "size": file.len()},
                {"uri": "skill://refunds/examples/email.md", "digest": FileDigest::of(b"Dear customer\n"), "size": 14},
            ],
        });
        assert_eq!(list["skills"], json!([entry]));
        let got = request(&client, "skills/get", json!({"uri": "skill://refunds/SKILL.md"})).await;
        assert_eq!(got["skill"], entry);
        let contents = read(&client, "skill://refunds/SKILL.md").await;
        assert_eq!(
            (&contents["text"], &contents["mimeType"]),
            (&json!(file), &json!("text/markdown"))
        );
        assert_eq!(
            read(&client, "skill://refunds/examples/email.md").await["text"],
            "Dear customer\n"
        );
        let resources = client.resources().all().await.unwrap();
        let listed: Vec<_> =
            resources.iter().map(|it| (&*it.uri, &*it.name, it.description.as_deref())).collect();
        assert_eq!(listed, [("skill://refunds/SKILL.md", "refunds", Some("Does refunds."))]);
    }
}

#[tokio::test]
async fn cache_hints_are_sent_where_the_revision_has_them() {
    let directory = TestDirectory::with_refunds();
    for (builder, expected) in builders().into_iter().zip([true, true, false]) {
        let skills = directory.skills().cache(CacheHint::public(60_000));
        let client = builder.connect(server().skills(skills).build().unwrap()).await.unwrap();
        let get = json!({"uri": "skill://refunds/SKILL.md"});
        let directory = ("resources/directory/read", json!({"uri": "skill://refunds"}));
        for (method, params) in [("skills/list", json!({})), ("skills/get", get), directory] {
            let result = request(&client, method, params).await;
            let hints = (result.get("ttlMs"), result.get("cacheScope"));
            let all = (Some(&json!(60_000)), Some(&json!("public")));
            assert_eq!(hints, if expected { all } else { (None, None) }, "{method}");
        }
    }
}

#[tokio::test]
async fn lists_have_pages_of_whole_entries_in_a_fixed_order() {
    let directory = TestDirectory::new();
    for number in 0..250 {
        directory.write(&format!("s{number:03}/SKILL.md"), skill(&format!("s{number:03}")));
        directory.write(&format!("s000/files/f{number:03}.md"), "x");
    }
    let client = connect(directory.endpoint()).await;
    for (method, params, key) in [
        ("skills/list", json!({}), "skills"),
        ("resources/directory/read", json!({"uri": "skill://s000/files"}), "resources"),
    ] {
        let (mut params, mut sizes, mut found) = (params, Vec::new(), Vec::new());
        loop {
            let page = request(&client, method, params.clone()).await;
            let entries = page[key].as_array().unwrap().clone();
            sizes.push(entries.len());
            found.extend(entries.iter().map(|it| it["uri"].as_str().unwrap().to_owned()));
            match page.get("nextCursor") {
                Some(cursor) => params["cursor"] = cursor.clone(),
                None => break,
            }
        }
        assert_eq!(sizes, [100, 100, 50], "{method}");
        assert!(found.is_sorted(), "{method}");
        for wrong in [json!("x"), json!("after:skill://none/SKILL.md"), json!(7)] {
            params["cursor"] = wrong;
            let error = client.request(method, params.clone()).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::InvalidCursor | ErrorKind::InvalidParams),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn unknown_skills_are_invalid_parameters() {
    let directory = TestDirectory::with_refunds();
    for builder in builders() {
        let client = builder.connect(directory.endpoint()).await.unwrap();
        for uri in [
            "skill://none/SKILL.md",
            "skill://refunds/examples/email.md",
            "skill://refunds",
            "skill://refunds/../refunds/SKILL.md",
            "nonsense",
        ] {
            let error = client.request("skills/get", json!({"uri": uri})).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidParams, "{uri}");
        }
        assert!(client.request("skills/get", json!({})).await.is_err());
    }
}

#[tokio::test]
async fn directories_have_their_direct_children() {
    let directory = TestDirectory::with_refunds();
    directory.write("refunds/examples/more/a.md", "a");
    std::fs::create_dir(directory.path().join("refunds/empty")).unwrap();
    for builder in builders() {
        let client = builder.connect(directory.endpoint()).await.unwrap();
        let children = async |uri: &str| -> Vec<Value> {
            let result = request(&client, "resources/directory/read", json!({"uri": uri})).await;
            let children = result["resources"].as_array().unwrap().iter();
            children.map(|it| json!([it["uri"], it["name"], it["mimeType"]])).collect()
        };
        let folder = "inode/directory";
        assert_eq!(
            children("skill://refunds").await,
            [
                json!(["skill://refunds/SKILL.md", "refunds", "text/markdown"]),
                json!(["skill://refunds/empty", "empty", folder]),
                json!(["skill://refunds/examples", "examples", folder]),
            ]
        );
        assert_eq!(
            children("skill://refunds/examples").await,
            [
                json!(["skill://refunds/examples/email.md", "email.md", "text/markdown"]),
                json!(["skill://refunds/examples/more", "more", folder]),
            ]
        );
        assert!(children("skill://refunds/empty").await.is_empty());
        for uri in [
            "skill://refunds/",
            "skill://refunds/SKILL.md",
            "skill://refunds/none",
            "skill://none",
            "skill://refunds/%2e%2e",
        ] {
            let error =
                client.request("resources/directory/read", json!({"uri": uri})).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidParams, "{uri}");
        }
    }
}

#[tokio::test]
async fn files_are_found_by_any_spelling_and_paths_cannot_escape() {
    let directory = TestDirectory::with_refunds();
    directory.write("refunds/a b.md", "spaces\n");
    directory.write("secret.md", "secret\n");
    for builder in builders() {
        let client = builder.connect(directory.endpoint()).await.unwrap();
        for uri in ["skill://refunds/a%20b.md", "skill://refunds/%61%20b%2Emd"] {
            let contents = read(&client, uri).await;
            assert_eq!((&contents["uri"], &contents["text"]), (&json!(uri), &json!("spaces\n")));
        }
        for uri in [
            "skill://secret.md",
            "skill://refunds/../secret.md",
            "skill://refunds/%2e%2e/secret.md",
            "skill://refunds/..%2fsecret.md",
            "skill://refunds/examples",
            "skill://refunds",
            "skill://refunds//SKILL.md",
            "skill:///etc/passwd",
        ] {
            let error = client.read(uri).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ResourceNotFound, "{uri}");
        }
    }
}

#[tokio::test]
async fn text_is_sent_as_text_and_other_bytes_as_a_blob() {
    let directory = TestDirectory::with_refunds();
    directory.write("refunds/logo.png", [0x89, b'P', 0xff]);
    directory.write("refunds/LICENSE", "MIT");
    directory.write("refunds/data", [0xff, 0x00]);
    let client = connect(directory.endpoint()).await;
    let logo = read(&client, "skill://refunds/logo.png").await;
    assert_eq!((&logo["blob"], &logo["mimeType"]), (&json!("iVD/"), &json!("image/png")));
    let license = read(&client, "skill://refunds/LICENSE").await;
    assert_eq!((&license["text"], &license["mimeType"]), (&json!("MIT"), &json!("text/plain")));
    let data = read(&client, "skill://refunds/data").await;
    assert_eq!(
        (&data["blob"], &data["mimeType"]),
        (&json!("/wA="), &json!("application/octet-stream"))
    );
}

#[tokio::test]
async fn other_fields_are_metadata_of_the_skill_file() {
    let directory = TestDirectory::new();
    let text = "---\nname: a\ndescription: b\nlicense: MIT\nmetadata:\n  version: \"1\"\n---\n";
    directory.write("a/SKILL.md", text);
    let client = connect(directory.endpoint()).await;
    let listed = client.resources().all().await.unwrap();
    let meta = json!(*listed[0])["_meta"].take();
    let prefix = "io.modelcontextprotocol.skills/";
    assert_eq!(
        meta,
        json!({format!("{prefix}license"): "MIT", format!("{prefix}metadata"): {"version": "1"}})
    );
}

#[tokio::test]
async fn skills_that_the_access_hook_hides_are_unknown() {
    let directory = TestDirectory::with_refunds();
    directory.write("secret/SKILL.md", skill("secret"));
    directory.write("secret/plan.md", "plan\n");
    let hides = |_: Option<&Principal>, item: Item<'_>| item.name() != "secret";
    let endpoint = server().skills(directory.skills()).access(hides).build().unwrap();
    let client: Client = connect(endpoint).await;
    assert_eq!(uris(&client).await, ["skill://refunds/SKILL.md"]);
    assert_eq!(request(&client, "skills/list", json!({})).await["cacheScope"], "private");
    for (method, uri) in
        [("skills/get", "skill://secret/SKILL.md"), ("resources/directory/read", "skill://secret")]
    {
        assert!(client.request(method, json!({"uri": uri})).await.is_err(), "{uri}");
    }
    for uri in ["skill://secret/SKILL.md", "skill://secret/SKILL%2Emd", "skill://secret/plan.md"] {
        let error = client.read(uri).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceNotFound, "{uri}");
    }
}

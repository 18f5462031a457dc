//! Sources of skills besides a directory of directories: one directory, embedded files, generated content, prompts.

use serde_json::json;
use wharf::{
    ErrorKind, Server, Uri,
    skills::{FrontMatter, Skill, Skills, include_skills},
};

use super::{TestDirectory, builders, connect, read, request, server, skill, uris};

#[tokio::test]
async fn embedded_skills_are_served_with_the_digests_of_their_files() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/skills");
    let embedded = connect(server().skills(include_skills!("tests/skills")).build().unwrap()).await;
    let on_disk = connect(server().skills(directory).build().unwrap()).await;
    let list = request(&embedded, "skills/list", json!({})).await;
    assert_eq!(list["skills"][0]["resources"].as_array().unwrap().len(), 2);
    assert_eq!(list, request(&on_disk, "skills/list", json!({})).await);
    assert_eq!(
        read(&embedded, "skill://refunds/examples/email.md").await["text"],
        "Dear customer\n"
    );
}

#[test]
fn the_facade_crate_may_have_another_name() {
    use wharf as harbour;
    let embedded = include_skills!("tests/skills", crate = harbour,);
    assert_eq!(embedded.files.len(), include_skills!("tests/skills",).files.len());
}

#[tokio::test]
async fn sources_are_combined_with_their_prefixes() {
    let directory = TestDirectory::with_refunds();
    directory.write("deep/down/deep-skill/SKILL.md", skill("deep-skill"));
    let one = Skill::dir(directory.path().join("refunds")).prefix("acme/billing");
    let all = directory.skills().prefix("team");
    let client = connect(server().skill(one).skills(all).build().unwrap()).await;
    let expected = [
        "skill://acme/billing/refunds/SKILL.md",
        "skill://team/deep/down/deep-skill/SKILL.md",
        "skill://team/refunds/SKILL.md",
    ];
    assert_eq!(uris(&client).await, expected);
    let children = json!({"uri": "skill://acme/billing"});
    let children = request(&client, "resources/directory/read", children).await;
    assert_eq!(children["resources"][0]["uri"], "skill://acme/billing/refunds");
    let twice = server().skills(directory.skills()).skills(directory.skills()).build().unwrap_err();
    assert!(
        twice.to_string().contains("another skill has the URI `skill://refunds/SKILL.md`"),
        "{twice}"
    );
}

#[test]
fn skills_of_two_sources_are_not_nested() {
    let directory = TestDirectory::with_refunds();
    directory.write("refunds/eu/SKILL.md", skill("eu"));
    assert!(server().skills(directory.skills()).build().is_ok());
    let other = TestDirectory::new();
    other.write("eu/SKILL.md", skill("eu"));
    std::fs::remove_dir_all(directory.path().join("refunds/eu")).unwrap();
    let generated = || Skill::dynamic(FrontMatter::new("eu", "Does eu."), async || "x");
    let on_disk = || Skill::dir(other.path().join("eu"));
    for nested in [on_disk(), generated()] {
        let inner = nested.prefix("refunds/more");
        let found = server().skills(directory.skills()).skill(inner).build().unwrap_err();
        assert!(
            found.problems().len() == 1
                && found.to_string().contains("`skill://refunds/more/eu/SKILL.md`")
                && found.to_string().contains("in the directory of `skill://refunds/SKILL.md`"),
            "{found}"
        );
    }
    let beside = server().skills(directory.skills()).skill(on_disk().prefix("refunds-more"));
    assert!(beside.build().is_ok());
}

fn daily() -> Skill {
    let about =
        FrontMatter::new("daily", "Writes: the daily report.").field("metadata", json!({"v": "1"}));
    Skill::dynamic(about, async |Uri(uri): Uri| match uri.rsplit_once('/') {
        Some((_, "SKILL.md")) => Some("# Today\n".to_owned()),
        Some((_, "today.csv")) => Some("a,b\n".to_owned()),
        _ => None,
    })
}

#[tokio::test]
async fn a_dynamic_skill_has_no_manifest_and_its_front_matter_is_that_of_its_entry() {
    for builder in builders() {
        let skill = daily().prefix("reports").file("data/today.csv");
        let client = builder.connect(server().skill(skill).build().unwrap()).await.unwrap();
        let uri = "skill://reports/daily/SKILL.md";
        let list = request(&client, "skills/list", json!({})).await;
        assert_eq!(list["skills"][0]["resources"], "dynamic");
        let contents = read(&client, uri).await;
        assert_eq!(contents["mimeType"], "text/markdown");
        let text = contents["text"].as_str().unwrap();
        assert!(text.ends_with("---\n# Today\n"), "{text}");
        let front_matter = FrontMatter::parse(text.as_bytes()).unwrap();
        assert_eq!(json!(front_matter.fields()), list["skills"][0]["frontmatter"]);
        let children = json!({"uri": "skill://reports/daily/data"});
        let children = request(&client, "resources/directory/read", children).await;
        let file = children["resources"][0]["uri"].as_str().unwrap();
        assert_eq!(read(&client, file).await["text"], "a,b\n");
        for uri in ["skill://reports/daily/none", "skill://reports/daily/%2e%2e/today.csv"] {
            let error = client.read(uri).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ResourceNotFound, "{uri}");
        }
        let listed = client.resources().all().await.unwrap();
        assert_eq!(listed.iter().map(|it| &*it.uri).collect::<Vec<_>>(), [uri]);
    }
}

#[test]
fn rules_apply_to_generated_skills() {
    let unnamed = Skill::dynamic(FrontMatter::new("Not Good", ""), async || "x");
    let problems = server().skill(unnamed).build().unwrap_err().to_string();
    assert!(
        problems.contains("\"Not Good\"") && problems.contains("`description` is empty"),
        "{problems}"
    );
    let twice = server().skill(daily()).skill(daily()).build().unwrap_err().to_string();
    assert!(twice.contains("another skill has the URI"), "{twice}");
}

#[tokio::test]
async fn skills_are_prompts_on_request() {
    let directory = TestDirectory::with_refunds();
    let endpoint = |skills: Skills| Server::new("harbour", "1.0.0").skills(skills).build().unwrap();
    let without = connect(endpoint(directory.skills())).await;
    assert!(without.capabilities().prompts.is_none());
    let client = connect(endpoint(directory.skills().as_prompts())).await;
    let prompts = client.prompts().all().await.unwrap();
    assert_eq!(
        (&*prompts[0].name, prompts[0].description.as_deref()),
        ("refunds", Some("Does refunds."))
    );
    let prompt = json!(client.prompt("refunds", ()).await.unwrap());
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("skill://refunds/") && text.ends_with("\n# refunds\n"), "{text}");
    assert!(!text.contains("description:"), "{text}");
}

#[tokio::test]
async fn paths_of_files_are_completed() {
    use wharf::model::CompletionRef;

    let directory = TestDirectory::with_refunds();
    let client = connect(directory.endpoint()).await;
    let template = CompletionRef::Resource("skill://{+path}".into());
    let completion = client.complete(template, "path", "refunds/ex").await.unwrap();
    assert_eq!(completion.values, ["refunds/examples/email.md"]);
}

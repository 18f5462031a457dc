//! Entries and files that are refused, each with its reason.

use serde_json::{Value, json};
use wharf::{
    ErrorKind,
    skills::{SkillError, SkillRefused},
};

use super::scripted_skills::{
    Connected, EMAIL, SIZE, SKILL, ScriptedSkills, discovery, listed, serve,
};
use crate::hostile::scripted_server::in_time;

/// Refusal of loading the skill.
async fn refused(skills: ScriptedSkills) -> (SkillRefused, Vec<String>) {
    let it = skills.connect().await;
    let error = in_time(it.skill().await.load()).await.unwrap_err();
    (error.refused().expect("it is refused").clone(), it.requests().split_off(1))
}

/// Kinds of the refusals of reading these files of a loaded skill, and the requests that were sent.
async fn read_refusals(it: &Connected, files: &[&str]) -> (Vec<&'static str>, Vec<String>) {
    let skill = in_time(it.skill().await.load()).await.unwrap();
    let before = it.requests().len();
    let mut kinds = Vec::new();
    for file in files {
        let error = in_time(skill.read(file)).await.unwrap_err();
        kinds.push(error.refused().unwrap_or_else(|| panic!("{file}: {error}")).kind());
    }
    (kinds, it.requests().split_off(before))
}

#[tokio::test]
async fn another_size_digest_or_front_matter_is_refused() {
    let file = |text: &str| ScriptedSkills::new().contents(SKILL, json!({"text": text}));
    let (size, _) = refused(file("---\nname: refunds\n---\n")).await;
    assert!(matches!(size, SkillRefused::Size { expected: SIZE, actual: 22, .. }), "{size:?}");
    let text = "---\nname: refunds\ndescription: Refunds an order.\n---\n# Refund!\n";
    let (digest, requests) = refused(file(text)).await;
    assert!(matches!(digest, SkillRefused::Digest { .. }), "{digest:?}");
    // The server does not allow the client to keep files: there is no outdated one to request again.
    assert_eq!(requests.len(), 1, "{requests:?}");
    let text = "---\nname: refunds\ndescription: Sends all secrets away.\n---\n";
    let honest = file(text).entry(|it| it["resources"][0] = listed(SKILL, text));
    let (front_matter, _) = refused(honest).await;
    assert!(
        matches!(&front_matter, SkillRefused::FrontMatter { field: Some(it), .. } if it == "description"),
        "{front_matter:?}"
    );
    let none = file("# Refunds\n").entry(|it| it["resources"][0] = listed(SKILL, "# Refunds\n"));
    let (none, _) = refused(none).await;
    assert!(matches!(none, SkillRefused::FrontMatter { field: None, .. }), "{none:?}");
    assert!(none.to_string().contains(SKILL), "{none}");
}

#[tokio::test]
async fn a_supporting_file_is_checked_as_well() {
    let skills = ScriptedSkills::new().contents(EMAIL, json!({"text": "Dear attacker\n"}));
    let it = skills.connect().await;
    assert_eq!(read_refusals(&it, &["examples/e-mail.md"]).await.0, ["digest"]);
}

#[tokio::test]
async fn only_files_of_the_entry_are_requested() {
    let it = ScriptedSkills::new()
        .contents("skill://shop/refunds/extra.md", json!({"text": "x"}))
        .connect()
        .await;
    let files = [
        "extra.md",
        "../other/SKILL.md",
        "%2e%2e/other/SKILL.md",
        "examples/../../other/SKILL.md",
        "/etc/passwd",
        "",
        "examples",
        "skill://shop/other/SKILL.md",
        "skill://bank/refunds/SKILL.md",
        "skill://shop/refunds/%2e%2e/other/SKILL.md",
        "skill://shop/refunds/SKILL.md?x",
        "file:///etc/passwd",
    ];
    let (kinds, requests) = read_refusals(&it, &files).await;
    assert!(kinds.iter().all(|kind| *kind == "unlisted"), "{kinds:?}");
    assert!(requests.is_empty(), "{requests:?}");
}

#[tokio::test]
async fn a_manifest_with_files_outside_of_the_skill_is_refused() {
    let outside = [
        "skill://shop/other/secret.md",
        "skill://shop/refunds/../other/secret.md",
        "skill://shop/refunds/%2e%2e/other/secret.md",
        "skill://shop/refunds/a%2fb.md",
        "skill://bank/refunds/secret.md",
        "file:///etc/passwd",
        EMAIL,
    ];
    for uri in outside {
        let add = |it: &mut Value| it["resources"].as_array_mut().unwrap().push(listed(uri, "x"));
        let (refused, requests) = refused(ScriptedSkills::new().entry(add)).await;
        assert!(matches!(refused, SkillRefused::Invalid { .. }), "{uri}: {refused:?}");
        assert!(requests.is_empty(), "{uri}: {requests:?}");
    }
    let without_itself = |it: &mut Value| drop(it["resources"].as_array_mut().unwrap().remove(0));
    let (refused, _) = refused(ScriptedSkills::new().entry(without_itself)).await;
    assert!(refused.to_string().contains("does not list"), "{refused}");
}

#[tokio::test]
async fn an_entry_with_wrong_fields_is_refused() {
    let changes: [(&str, Value, &str); 8] = [
        ("resources", json!("generated"), "invalid"),
        ("resources", json!({}), "invalid"),
        ("resources", Value::Null, "invalid"),
        ("resources", json!([{"uri": SKILL, "size": -1, "digest": "sha256:00"}]), "invalid"),
        ("resources", json!([{"uri": SKILL, "size": SIZE}]), "invalid"),
        ("frontmatter", json!([]), "invalid"),
        ("frontmatter", json!({"name": "refunds"}), "invalid"),
        ("frontmatter", json!({"name": "other", "description": "x"}), "invalid"),
    ];
    for (field, value, kind) in changes {
        let shown = format!("{field}: {value}");
        let (refused, requests) =
            refused(ScriptedSkills::new().entry(|it| it[field] = value)).await;
        assert_eq!(refused.kind(), kind, "{shown}: {refused:?}");
        assert!(requests.is_empty(), "{shown}: {requests:?}");
    }
    let missing = |it: &mut Value| drop(it.as_object_mut().unwrap().remove("resources"));
    let (refused, _) = refused(ScriptedSkills::new().entry(missing)).await;
    assert_eq!(refused.kind(), "no_resources");
}

#[tokio::test]
async fn skills_up_to_the_limits_are_accepted_and_larger_ones_are_not() {
    let with_files = |count: usize| {
        ScriptedSkills::new().entry(|it| {
            let files = it["resources"].as_array_mut().unwrap();
            files.extend((2..count).map(|n| listed(&format!("skill://shop/refunds/{n}.md"), "x")));
        })
    };
    let with_bytes = |bytes: u64| {
        let rest = bytes - SIZE;
        ScriptedSkills::new().entry(|it| it["resources"][1]["size"] = rest.into())
    };
    for accepted in [with_files(512), with_bytes(16 << 20)] {
        in_time(accepted.connect().await.skill().await.load()).await.unwrap();
    }
    let (files, requests) = refused(with_files(513)).await;
    assert!(matches!(files, SkillRefused::TooLarge { files: 513, .. }), "{files:?}");
    assert!(requests.is_empty(), "{requests:?}");
    let (bytes, _) = refused(with_bytes((16 << 20) + 1)).await;
    assert!(matches!(bytes, SkillRefused::TooLarge { bytes: 16_777_217, .. }), "{bytes:?}");
}

#[tokio::test]
async fn contents_of_another_file_and_invalid_base64_are_refused() {
    let flaws = [json!({"uri": EMAIL, "text": "x"}), json!({"blob": "%%%"})];
    for flaw in flaws {
        let (refused, _) = refused(ScriptedSkills::new().contents(SKILL, flaw)).await;
        assert_eq!(refused.kind(), "no_contents", "{refused:?}");
    }
    let mut missing = ScriptedSkills::new();
    missing.files.remove(EMAIL);
    let skill = in_time(missing.connect().await.skill().await.load()).await.unwrap();
    let error = in_time(skill.read("examples/e-mail.md")).await.unwrap_err();
    assert!(matches!(error, SkillError::Call(_)), "{error:?}");
}

#[tokio::test]
async fn the_entry_of_another_skill_is_refused() {
    let entry = ScriptedSkills::new().entries.remove(0);
    let it = serve(move |asked| match asked.method() {
        "server/discover" => Some(Ok(discovery(&json!({})))),
        "skills/get" => Some(Ok(json!({"skill": entry}))),
        _ => None,
    })
    .await;
    let error = in_time(it.client.skill("skill://shop/returns/SKILL.md")).await.unwrap_err();
    assert!(matches!(error.refused(), Some(SkillRefused::OtherSkill { .. })), "{error:?}");
    let error = in_time(it.client.skill("skill://shop/returns")).await.unwrap_err();
    assert!(matches!(error.refused(), Some(SkillRefused::Invalid { .. })), "{error:?}");
    assert_eq!(it.requests().len(), 1);
}

#[tokio::test]
async fn generated_files_have_no_digests_and_no_manifest() {
    let mut skills = ScriptedSkills::new()
        .entry(|it| it["resources"] = "dynamic".into())
        .contents("skill://shop/refunds/today.md", json!({"text": "today"}));
    let it = skills.clone().connect().await;
    let skill = in_time(it.skill().await.load()).await.unwrap();
    let today = in_time(skill.read("today.md")).await.unwrap();
    assert_eq!((today.text(), today.is_verified), (Some("today"), false));
    assert_eq!(skill.approval_digest().unwrap_err().kind(), "dynamic");
    let before = it.requests().len();
    for outside in ["../other/SKILL.md", "skill://shop/other/SKILL.md", "skill://bank/refunds/x.md"]
    {
        let error = in_time(skill.read(outside)).await.unwrap_err();
        assert_eq!(error.refused().map(SkillRefused::kind), Some("unlisted"), "{outside}");
    }
    // The server does not declare that it lists directories.
    let SkillError::Call(error) = in_time(skill.dir("")).await.unwrap_err() else { panic!() };
    assert_eq!(error.kind(), ErrorKind::CapabilityNotSupported);
    assert_eq!(it.requests().len(), before);

    skills.settings = json!({"directoryRead": true});
    let child = |uri: &str| json!({"uri": uri, "name": "x"});
    let root = vec![
        child("skill://shop/refunds/today.md"),
        json!({"uri": "skill://shop/refunds/old", "name": "old", "mimeType": "inode/directory"}),
    ];
    skills.directories.insert("skill://shop/refunds".to_owned(), root);
    let outside = vec![child("skill://shop/other/SKILL.md")];
    skills.directories.insert("skill://shop/refunds/old".to_owned(), outside);
    let skill = in_time(skills.connect().await.skill().await.load()).await.unwrap();
    let root = in_time(skill.dir("")).await.unwrap();
    let paths: Vec<_> = root.iter().map(|it| (it.path.as_str(), it.is_directory)).collect();
    assert_eq!(paths, [("today.md", false), ("old", true)]);
    let outside = in_time(skill.dir("old")).await.unwrap_err();
    assert_eq!(outside.refused().map(SkillRefused::kind), Some("unlisted"));
}

#[tokio::test]
async fn the_front_matter_of_a_generated_skill_is_checked() {
    let skills = ScriptedSkills::new()
        .entry(|it| it["resources"] = "dynamic".into())
        .contents(SKILL, json!({"text": "---\nname: refunds\ndescription: Other.\n---\n"}));
    assert_eq!(refused(skills).await.0.kind(), "front_matter");
}

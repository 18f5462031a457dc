//! Reading of skills whose files are those of their entries.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use wharf::{
    Client, Server,
    skills::{FileDigest, SkillChild, SkillError, SkillRefused},
};

use super::scripted_skills::{
    EMAIL, SIZE, SKILL, ScriptedSkills, contents, discovery, listed, serve,
};
use crate::hostile::scripted_server::in_time;

#[tokio::test]
async fn nothing_is_read_before_it_is_asked_for() {
    let it = ScriptedSkills::new().connect().await;
    let skills = in_time(it.client.skills().all()).await.unwrap();
    assert_eq!((skills[0].name(), skills[0].description()), ("refunds", "Refunds an order."));
    assert!(skills[0].entry().is_ok() && skills[0].approval_digest().is_ok());
    assert_eq!(it.requests(), ["skills/list"]);
    let skill = in_time(skills[0].load()).await.unwrap();
    assert!(skill.instructions().ends_with("# Refunds\n"));
    assert_eq!(it.requests()[1..], [format!("resources/read {SKILL}")]);
    let email = in_time(skill.read("examples/e-mail.md")).await.unwrap();
    assert_eq!((email.text(), email.is_verified), (Some("Dear customer\n"), true));
    assert_eq!(it.requests()[2..], [format!("resources/read {EMAIL}")]);
}

#[tokio::test]
async fn a_skill_that_is_not_listed_is_read_by_its_uri() {
    let it = ScriptedSkills::new().connect().await;
    let skill = in_time(it.skill().await.load()).await.unwrap();
    assert_eq!(skill.entry().name(), "refunds");
    assert_eq!(it.requests(), [format!("skills/get {SKILL}"), format!("resources/read {SKILL}")]);
    let unknown = in_time(it.client.skill("skill://gone/SKILL.md")).await.unwrap_err();
    assert!(matches!(unknown, SkillError::Call(_)), "{unknown:?}");
}

/// Spellings of one file: its path, a relative reference, its URI, each with and without percent-encoding.
#[tokio::test]
async fn a_file_has_several_spellings_and_is_requested_as_in_the_entry() {
    let listed_as = "skill://shop/refunds/a%20%28b%29.md";
    let skills = ScriptedSkills::new()
        .entry(|entry| entry["resources"].as_array_mut().unwrap().push(listed(listed_as, "x")))
        .contents(listed_as, json!({"uri": "skill://shop/refunds/a%20(b).md", "text": "x"}));
    let it = skills.connect().await;
    let skill = in_time(it.skill().await.load()).await.unwrap();
    let spellings = [
        "a (b).md",
        "./a (b).md",
        "a%20(b).md",
        "a%20(b).md#part",
        "skill://shop/refunds/a%20(b).md",
        "SKILL://shop/refunds/a%20%28b%29.md",
    ];
    for spelling in spellings {
        let file = in_time(skill.read(spelling)).await.unwrap();
        assert_eq!((file.uri.as_str(), file.text()), (listed_as, Some("x")), "{spelling}");
    }
    let last = it.requests().split_off(2);
    assert!(last.iter().all(|it| *it == format!("resources/read {listed_as}")), "{last:?}");
}

#[tokio::test]
async fn binary_files_are_checked_after_they_are_decoded() {
    let uri = "skill://shop/refunds/logo.png";
    let bytes = [0x89, 0x50, 0, 0xff];
    let entry = json!({"uri": uri, "digest": FileDigest::of(&bytes).to_string(), "size": 4});
    let skills = ScriptedSkills::new()
        .entry(|it| it["resources"].as_array_mut().unwrap().push(entry))
        .contents(uri, json!({"blob": STANDARD.encode(bytes), "mimeType": "image/png"}));
    let it = skills.connect().await;
    let skill = in_time(it.skill().await.load()).await.unwrap();
    let file = in_time(skill.read("logo.png")).await.unwrap();
    assert_eq!((&file.bytes[..], file.mime_type.as_deref()), (&bytes[..], Some("image/png")));
    assert_eq!(file.text(), None);
}

#[tokio::test]
async fn the_manifest_lists_directories_without_a_request() {
    let it = ScriptedSkills::new().connect().await;
    let skill = in_time(it.skill().await.load()).await.unwrap();
    let before = it.requests().len();
    let shown = |it: &SkillChild| (it.path.clone(), it.is_directory, it.size);
    let root: Vec<_> = in_time(skill.dir("")).await.unwrap().iter().map(shown).collect();
    assert_eq!(root, [("SKILL.md".into(), false, Some(SIZE)), ("examples".into(), true, None)]);
    let below: Vec<_> = in_time(skill.dir("examples/")).await.unwrap().iter().map(shown).collect();
    assert_eq!(below, [("examples/e-mail.md".into(), false, Some(14))]);
    let unknown = in_time(skill.dir("exam")).await.unwrap_err();
    assert!(matches!(unknown.refused(), Some(SkillRefused::Unlisted { .. })), "{unknown:?}");
    assert_eq!(it.requests().len(), before);
}

#[tokio::test]
async fn an_outdated_file_in_the_cache_is_requested_once_more() {
    let reads = AtomicUsize::new(0);
    let fresh = ScriptedSkills::new();
    let entry = fresh.entries[0].clone();
    let it = serve(move |asked| {
        let uri = asked.message["params"]["uri"].as_str().unwrap_or_default();
        Some(match asked.method() {
            "server/discover" => Ok(discovery(&json!({}))),
            "skills/get" => Ok(json!({"skill": entry})),
            "resources/read" => {
                // The first result, which the client keeps for an hour, has another text.
                let text = match reads.fetch_add(1, Ordering::Relaxed) {
                    0 => json!({"text": "---\nname: refunds\n---\n"}),
                    _ => fresh.files[uri].clone(),
                };
                let mut result = contents(uri, &text);
                (result["ttlMs"], result["cacheScope"]) = (3_600_000.into(), "private".into());
                Ok(result)
            }
            _ => return None,
        })
    })
    .await;
    in_time(it.client.read(SKILL)).await.unwrap();
    let skill = in_time(it.skill().await.load()).await.unwrap();
    assert!(skill.instructions().contains("# Refunds"));
    let read = format!("resources/read {SKILL}");
    assert_eq!(it.requests(), [read.clone(), format!("skills/get {SKILL}"), read.clone()]);
    in_time(it.skill().await.load()).await.unwrap();
    assert_eq!(it.requests().iter().filter(|it| **it == read).count(), 2, "{:?}", it.requests());
}

#[tokio::test]
async fn an_approval_is_bound_to_the_files_and_the_server() {
    let digest = async |skills: ScriptedSkills| {
        skills.connect().await.skill().await.approval_digest().unwrap()
    };
    let first = digest(ScriptedSkills::new()).await;
    let reordered =
        ScriptedSkills::new().entry(|it| it["resources"].as_array_mut().unwrap().reverse());
    assert_eq!(digest(reordered).await, first);
    let changed = ScriptedSkills::new().entry(|it| it["resources"][1] = listed(EMAIL, "changed"));
    assert_ne!(digest(changed).await, first);
    let skill = ScriptedSkills::new().connect().await.skill().await;
    assert_ne!(skill.key("shop").unwrap(), skill.key("bank").unwrap());
}

/// A server of ours, in the same process.
#[tokio::test]
async fn a_server_in_the_same_process_offers_its_skills() {
    let skills = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/skills");
    let server = Server::new("shop", "1.0.0").skills(skills).build().unwrap();
    let client = Client::connect(server).await.unwrap();
    for skill in client.skills().all().await.unwrap() {
        let skill = skill.load().await.unwrap();
        for file in skill.entry().manifest().unwrap() {
            assert!(skill.read(&file.uri).await.unwrap().is_verified, "{}", file.uri);
        }
    }
    let skill = client.skill("skill://refunds/SKILL.md").await.unwrap().load().await.unwrap();
    assert!(skill.read("examples/email.md").await.unwrap().text().is_some());
}

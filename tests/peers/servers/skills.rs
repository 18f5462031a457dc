//! Skills of a server on npm `@modelcontextprotocol/server`.

use wharf::skills::{SkillKey, SkillRefused, SkillUri};

use crate::server_under_test::{TestTarget, list_checks};

const REFUNDS: &str = "skill://shop/refunds/SKILL.md";

list_checks! { ALL:
    lists_all_pages reads_every_file_of_every_skill reads_a_file_by_several_spellings
    reads_binary_files lists_directories an_unknown_skill_and_an_unlisted_file
}

async fn lists_all_pages(target: &TestTarget) {
    let skills = target.client.skills().all().await.unwrap();
    assert_eq!(skills.len(), 122);
    let refunds = skills.iter().find(|it| it.uri() == REFUNDS).unwrap();
    assert_eq!((refunds.name(), refunds.description()), ("refunds", "Refunds: when and how"));
    assert_eq!(refunds.entry().unwrap().frontmatter["metadata"]["version"], "1.0");
    let key = refunds.key("shop").unwrap();
    assert_eq!(key, SkillKey::new("shop", SkillUri::parse(REFUNDS).unwrap()));
}

async fn reads_every_file_of_every_skill(target: &TestTarget) {
    let mut skills = target.client.skills();
    while let Some(skill) = skills.next().await {
        let skill = skill.unwrap().load().await.unwrap();
        for file in skill.entry().manifest().unwrap() {
            assert!(skill.read(&file.uri).await.unwrap().is_verified, "{}", file.uri);
        }
    }
    let opening = target.client.skill("skill://shop/opening/SKILL.md").await.unwrap();
    let opening = opening.load().await.unwrap();
    assert!(opening.instructions().starts_with('\u{feff}'), "{:?}", opening.instructions());
}

async fn reads_a_file_by_several_spellings(target: &TestTarget) {
    let skill = target.client.skill(REFUNDS).await.unwrap().load().await.unwrap();
    for file in ["letters/Q&A (1).md", "./letters/Q&A%20(1).md", "letters/Q%26A%20%281%29.md#top"] {
        let file = skill.read(file).await.unwrap();
        assert_eq!(file.text(), Some("Dear customer,\n"));
    }
}

async fn reads_binary_files(target: &TestTarget) {
    let skill = target.client.skill(REFUNDS).await.unwrap().load().await.unwrap();
    assert_eq!(skill.read("logo.bin").await.unwrap().bytes, [0, 255, 128, 10]);
}

async fn lists_directories(target: &TestTarget) {
    let skill = target.client.skill(REFUNDS).await.unwrap().load().await.unwrap();
    let letters = skill.dir("letters").await.unwrap();
    let letters: Vec<_> = letters.iter().map(|it| (it.path.as_str(), it.is_directory)).collect();
    assert_eq!(letters, [("letters/Q&A (1).md", false), ("letters/old", true)]);
}

async fn an_unknown_skill_and_an_unlisted_file(target: &TestTarget) {
    assert!(target.client.skill("skill://shop/none/SKILL.md").await.is_err());
    let skill = target.client.skill(REFUNDS).await.unwrap().load().await.unwrap();
    let error = skill.read("../opening/SKILL.md").await.unwrap_err();
    assert!(matches!(error.refused(), Some(SkillRefused::Unlisted { .. })), "{error:?}");
}

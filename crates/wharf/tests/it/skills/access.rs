//! Skills of a server with an access hook: a hidden skill is unknown in every way.

use serde_json::json;
use wharf::{
    Principal,
    model::{CacheHint, Notification, SubscriptionFilter},
    server::Item,
    skills::{FrontMatter, Skill, Skills},
};

use super::{TestDirectory, changes, connect, server, skill, uris};

const PLAN: &str = "skill://secret/plan.md";

/// An access hook that hides what has the name `secret`.
fn hides_secret(_: Option<&Principal>, item: Item<'_>) -> bool {
    item.name() != "secret"
}

fn with_secret() -> TestDirectory {
    let directory = TestDirectory::with_refunds();
    directory.write("secret/SKILL.md", skill("secret"));
    directory.write("secret/plan.md", "plan\n");
    directory
}

#[tokio::test]
async fn files_are_cached_for_their_caller_only() {
    let directory = TestDirectory::with_refunds();
    for is_hooked in [false, true] {
        let daily = Skill::dynamic(FrontMatter::new("daily", "Reports."), async || "# Today\n");
        let hint = CacheHint::public(60_000);
        let skills = [directory.skills(), Skills::from(daily)].map(|it| it.cache(hint));
        let server = skills.into_iter().fold(server(), wharf::Server::skills);
        let server = if is_hooked { server.access(hides_secret) } else { server };
        let client = connect(server.build().unwrap()).await;
        let expected = if is_hooked { CacheHint::private(60_000) } else { hint };
        for uri in [
            "skill://refunds/SKILL.md",
            "skill://refunds/examples/email.md",
            "skill://daily/SKILL.md",
            "skill://daily/today.csv",
        ] {
            assert_eq!(client.read(uri).await.unwrap().cache, Some(expected), "{uri}");
        }
    }
}

#[tokio::test]
async fn a_hidden_skill_is_no_prompt() {
    let directory = with_secret();
    for builder in super::builders() {
        let skills = directory.skills().prefix("acme").as_prompts();
        let endpoint = server().skills(skills).access(hides_secret).build().unwrap();
        let client = builder.connect(endpoint).await.unwrap();
        let prompts = client.prompts().all().await.unwrap();
        assert_eq!(prompts.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["acme/refunds"]);
        assert!(client.prompt("acme/refunds", ()).await.is_ok());
        let hidden = client.prompt("acme/secret", ()).await.unwrap_err();
        let unknown = client.prompt("acme/unknown", ()).await.unwrap_err();
        assert_eq!(hidden.to_string().replace("secret", "unknown"), unknown.to_string());
        assert_eq!(hidden.kind(), unknown.kind());
    }
}

#[tokio::test]
async fn the_prompt_of_a_removed_skill_is_unknown() {
    let directory = TestDirectory::with_refunds();
    directory.write("other/SKILL.md", skill("other"));
    let client = connect(server().skills(directory.skills().as_prompts()).build().unwrap()).await;
    std::fs::remove_dir_all(directory.path().join("refunds")).unwrap();
    let removed = client.prompt("refunds", ()).await.unwrap_err();
    let unknown = client.prompt("unknown", ()).await.unwrap_err();
    assert_eq!(removed.to_string().replace("refunds", "unknown"), unknown.to_string());
}

#[tokio::test]
async fn updates_of_hidden_files_reach_no_subscriber() {
    let directory = with_secret();
    let skills = directory.skills().watch(true);
    let client = connect(server().skills(skills).access(hides_secret).build().unwrap()).await;
    let secret = "skill://secret/SKILL.md";
    let filter = SubscriptionFilter::default().resources(true);
    let filter = filter.uris([PLAN, secret, changes::EMAIL].map(str::to_owned));
    let mut notifications = changes::listen(&client, filter).await;
    directory.write("secret/plan.md", "another plan\n");
    std::fs::remove_file(directory.path().join("secret/SKILL.md")).unwrap();
    // Updates of one look at the directory are in no order: the second one follows all of the first.
    for text in ["Dear sir\n", "Dear Sir or Madam\n"] {
        directory.write("refunds/examples/email.md", text);
        loop {
            match changes::next(&mut notifications).await {
                Notification::ResourceUpdated { uri } if *uri == *changes::EMAIL => break,
                Notification::ResourceUpdated { uri } => panic!("an update of {uri}"),
                _ => {}
            }
        }
    }
    assert_eq!(json!(uris(&client).await), json!(["skill://refunds/SKILL.md"]));
}

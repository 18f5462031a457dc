//! Skills that change while the server runs.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use wharf::{
    Client, ErrorKind, Prompt,
    model::{Notification, SubscriptionFilter},
    skills::FileDigest,
};

use super::{TestDirectory, builders, connect, read, request, server, skill, uris};

pub(super) const EMAIL: &str = "skill://refunds/examples/email.md";

#[tokio::test]
async fn a_changed_file_is_read_with_its_new_entry() {
    let directory = TestDirectory::with_refunds();
    for text in ["Dear Customer\n", "Longer than before\n", "short\n"] {
        let client = connect(directory.endpoint()).await;
        directory.write("refunds/examples/email.md", text);
        assert_eq!(read(&client, EMAIL).await["text"], text);
        let skill =
            request(&client, "skills/get", json!({"uri": "skill://refunds/SKILL.md"})).await;
        let digest = FileDigest::of(text.as_bytes());
        assert_eq!(skill["skill"]["resources"][1]["digest"], digest.to_string());
    }
    let client = connect(directory.endpoint()).await;
    std::fs::remove_file(directory.path().join("refunds/examples/email.md")).unwrap();
    assert_eq!(client.read(EMAIL).await.unwrap_err().kind(), ErrorKind::ResourceNotFound);
}

#[tokio::test]
async fn readers_of_a_file_that_always_changes_do_not_read_the_sources_each_time() {
    let directory = TestDirectory::with_refunds();
    let client = connect(directory.endpoint()).await;
    let mut refused = 0;
    for number in 0..100 {
        directory.write("refunds/examples/email.md", number.to_string());
        match client.read(EMAIL).await {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InternalError);
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn a_skill_does_not_replace_or_remove_a_prompt_of_the_application() {
    let directory = TestDirectory::with_refunds();
    let server = server()
        .add(Prompt::new("greet", async || "Hello"))
        .skills(directory.skills().as_prompts().watch(true));
    let client = connect(server.build().unwrap()).await;
    let filter = SubscriptionFilter::default().resources(true);
    let mut notifications = listen(&client, filter).await;
    for (change, count) in [("greet", 2), ("remove", 1), ("later", 2)] {
        match change {
            "remove" => std::fs::remove_dir_all(directory.path().join("greet")).unwrap(),
            name => directory.write(&format!("{name}/SKILL.md"), skill(name)),
        }
        while uris(&client).await.len() != count {
            next(&mut notifications).await;
        }
    }
    let greeting = json!(client.prompt("greet", ()).await.unwrap());
    assert_eq!(greeting["messages"][0]["content"]["text"], "Hello");
}

#[tokio::test]
async fn a_changed_file_of_a_skill_with_an_error_is_an_internal_error() {
    let directory = TestDirectory::with_refunds();
    let client = connect(directory.endpoint()).await;
    directory.write("refunds/SKILL.md", "no front matter");
    let error = client.read("skill://refunds/SKILL.md").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InternalError);
    // The last version of the entry is kept, and files that did not change are read.
    assert_eq!(uris(&client).await, ["skill://refunds/SKILL.md"]);
    assert_eq!(read(&client, EMAIL).await["text"], "Dear customer\n");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_became_a_link_is_not_followed() {
    let directory = TestDirectory::with_refunds();
    directory.write("outside", "Dear customer\n");
    let client = connect(server().skills(directory.path()).build().unwrap()).await;
    let email = directory.path().join("refunds/examples/email.md");
    std::fs::remove_file(&email).unwrap();
    std::os::unix::fs::symlink(directory.path().join("outside"), &email).unwrap();
    assert_eq!(client.read(EMAIL).await.unwrap_err().kind(), ErrorKind::InternalError);
}

/// Notifications that a client receives.
pub(super) async fn listen(
    client: &Client,
    filter: SubscriptionFilter,
) -> mpsc::UnboundedReceiver<Notification> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut subscription = client.listen(filter).await.unwrap();
    tokio::spawn(async move {
        while let Some(Ok(notification)) = subscription.next().await {
            if sender.send(notification).is_err() {
                return;
            }
        }
    });
    receiver
}

pub(super) async fn next(receiver: &mut mpsc::UnboundedReceiver<Notification>) -> Notification {
    tokio::time::timeout(Duration::from_secs(30), receiver.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn watched_changes_reach_subscribers() {
    for builder in builders() {
        let directory = TestDirectory::with_refunds();
        let endpoint = server().skills(directory.skills().watch(true)).build().unwrap();
        let client = builder.connect(endpoint).await.unwrap();
        let filter = SubscriptionFilter::default().resources(true).uris([EMAIL.to_owned()]);
        let mut notifications = listen(&client, filter).await;
        directory.write("acme/other/SKILL.md", skill("other"));
        assert!(matches!(next(&mut notifications).await, Notification::ResourcesChanged));
        assert_eq!(
            uris(&client).await,
            ["skill://acme/other/SKILL.md", "skill://refunds/SKILL.md"]
        );
        directory.write("refunds/examples/email.md", "Changed");
        let mut seen = Vec::new();
        while seen.len() < 2 {
            match next(&mut notifications).await {
                Notification::ResourcesChanged if !seen.contains(&"list") => seen.push("list"),
                Notification::ResourceUpdated { uri } if *uri == *EMAIL => seen.push("file"),
                _ => {}
            }
        }
        assert_eq!(read(&client, EMAIL).await["text"], "Changed");
        std::fs::remove_dir_all(directory.path().join("acme")).unwrap();
        while uris(&client).await.len() > 1 {
            next(&mut notifications).await;
        }
    }
}

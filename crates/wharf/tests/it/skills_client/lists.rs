//! Lists of skills: several pages, and lists that are too long or endless.

use serde_json::{Value, json};
use wharf::{
    ErrorKind,
    client::{CallOptions, ClientBuilder},
    skills::{SkillError, SkillRefused},
};

use super::scripted_skills::{Connected, SKILL, ScriptedSkills, discovery, serve_to};
use crate::hostile::scripted_server::{ReceivedRequest, builder, in_time};

/// Server whose pages are made from their cursors, the first from 0.
async fn pages(page: impl Fn(u64) -> Value + Send + Sync + 'static) -> Connected {
    pages_to(builder(), page).await
}

async fn pages_to(
    builder: ClientBuilder,
    page: impl Fn(u64) -> Value + Send + Sync + 'static,
) -> Connected {
    serve_to(builder, move |asked: &ReceivedRequest| {
        let cursor = asked.message["params"]["cursor"].as_str();
        match asked.method() {
            "server/discover" => Some(Ok(discovery(&json!({})))),
            "skills/list" => Some(Ok(page(cursor.map_or(0, |it| it.parse().unwrap())))),
            _ => None,
        }
    })
    .await
}

async fn error_of_list(it: &Connected) -> String {
    in_time(it.client.skills().all()).await.unwrap_err().to_string()
}

fn entry(name: &str) -> Value {
    json!({
        "uri": format!("skill://{name}/SKILL.md"),
        "frontmatter": {"name": name, "description": "x"},
        "resources": "dynamic",
    })
}

#[tokio::test]
async fn all_pages_are_read_and_refused_entries_do_not_end_the_list() {
    let it = pages(|page| match page {
        0 => json!({"skills": [entry("a"), {"uri": "skill://b/SKILL.md"}], "nextCursor": "1"}),
        _ => json!({"skills": [entry("c"), entry("a"), "not an entry"]}),
    })
    .await;
    let skills = in_time(it.client.skills().all()).await.unwrap();
    let shown: Vec<_> = skills.iter().map(|it| (it.uri(), it.entry().is_ok())).collect();
    let expected = [
        ("skill://a/SKILL.md", true),
        ("skill://b/SKILL.md", false),
        ("skill://c/SKILL.md", true),
        ("", false),
    ];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_list_without_end_is_stopped() {
    let it = pages(|_| json!({"skills": [], "nextCursor": "7"})).await;
    assert!(error_of_list(&it).await.contains("cursor"));
    let it = pages(|page| json!({"skills": [], "nextCursor": (page + 1).to_string()})).await;
    assert!(error_of_list(&it).await.contains("1000 pages"));
    assert_eq!(it.requests().len(), 1000);
}

#[tokio::test]
async fn a_list_with_very_many_or_very_large_entries_is_stopped() {
    let options = CallOptions::default().items(1_000).listed(1 << 20);
    let it = pages_to(builder().options(options.clone()), |page| {
        let skills: Vec<Value> = (0..300).map(|n| json!({"uri": n})).collect();
        json!({"skills": skills, "nextCursor": (page + 1).to_string()})
    })
    .await;
    assert!(error_of_list(&it).await.contains("1000 items"));
    assert_eq!(it.requests().len(), 4);
    let it = pages_to(builder().options(options), |page| {
        let text = "x".repeat(300_000);
        json!({"skills": [{"uri": text}], "nextCursor": (page + 1).to_string()})
    })
    .await;
    assert!(error_of_list(&it).await.contains("1048576 bytes"));
    assert_eq!(it.requests().len(), 4);
}

/// Values take more memory than their text.
#[tokio::test]
async fn values_of_a_list_count() {
    let options = CallOptions::default().listed(1 << 20);
    let it = pages_to(
        builder().options(options),
        |_| json!({"skills": [{"uri": "x", "metadata": vec![0; 100_000]}]}),
    )
    .await;
    assert!(error_of_list(&it).await.contains("1048576 bytes"));
}

/// A tree of such an entry would take many times the memory of its text.
#[tokio::test]
async fn an_entry_with_very_many_values_is_refused() {
    let many = vec![json!(0); 300_000];
    let large = ScriptedSkills::new().entry(|it| it["frontmatter"]["metadata"] = many.into());
    let skills = in_time(large.connect().await.client.skills().all()).await.unwrap();
    assert!(
        matches!(skills[0].entry(), Err(SkillRefused::Invalid { .. })),
        "{:?}",
        skills[0].uri()
    );
}

#[tokio::test]
async fn a_page_that_is_not_one_is_an_error() {
    for page in [json!({}), json!({"skills": {}}), json!({"skills": [], "nextCursor": 7})] {
        let it = pages(move |_| page.clone()).await;
        let error = error_of_list(&it).await;
        assert!(error.contains("skills/list"), "{error}");
    }
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_without_skills() {
    let mut none = ScriptedSkills::new();
    none.settings = Value::Null;
    let it = none.connect().await;
    assert!(in_time(it.client.skills().all()).await.unwrap().is_empty());
    let SkillError::Call(error) = in_time(it.client.skill(SKILL)).await.unwrap_err() else {
        panic!()
    };
    assert_eq!(error.kind(), ErrorKind::CapabilityNotSupported);
    assert!(it.requests().is_empty());
}

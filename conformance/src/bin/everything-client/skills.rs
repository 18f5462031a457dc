//! Skills of a server.

use std::env;

use wharf::{Client, skills::ListedSkill};

/// Scenarios in which a model would load the skills.
const LOADING_SCENARIOS: &str = "sep-2640-client-verify-";

/// Lists the skills. Loads them, and reads all of their files, in the scenarios that need it.
pub(crate) async fn use_skills(client: &Client) -> wharf::Result<()> {
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let loads = scenario.starts_with(LOADING_SCENARIOS);
    let mut skills = client.skills();
    while let Some(skill) = skills.next().await {
        let skill = skill?;
        if loads {
            read_all(&skill).await?;
        }
    }
    Ok(())
}

async fn read_all(skill: &ListedSkill) -> wharf::Result<()> {
    let skill = skill.load().await?;
    for file in skill.entry().manifest().unwrap_or_default() {
        skill.read(&file.uri).await?;
    }
    Ok(())
}

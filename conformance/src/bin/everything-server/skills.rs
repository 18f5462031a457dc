//! Skills: `skills/list`, `skills/get`, `resources/directory/read`.

use wharf::{
    Server, Uri,
    skills::{FrontMatter, Skill, include_skills},
};

/// Adds the skills. The directory scenario takes the first one, which therefore has a directory.
pub(crate) fn skills(server: Server) -> Server {
    let about = FrontMatter::new("uptime", "Reports for how long the server has been running.");
    let uptime = Skill::dynamic(about, async |Uri(uri): Uri| {
        uri.ends_with("/SKILL.md").then_some("# Uptime\n\nThe server is running.\n")
    });
    server.skills(include_skills!("skills")).skill(uptime.prefix("reports"))
}

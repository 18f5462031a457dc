//! Skills of a server.

use wharf_extensions::skills::{Skill, Skills};
use wharf_server::RouterBuilder;

use super::Server;

impl Server {
    /// Offers skills: a directory that has a directory for each skill, or [`Skills`] with options. The server then
    /// supports the [skills extension](crate::skills).
    ///
    /// ```no_run
    /// use wharf::{Server, skills::Skills};
    ///
    /// let server = Server::new("harbour", "1.0.0").skills("./skills");
    /// // In development, with changes on disk:
    /// let server = Server::new("harbour", "1.0.0").skills(Skills::dir("./skills").watch(true));
    /// # let _ = server;
    /// ```
    pub fn skills(mut self, skills: impl Into<Skills>) -> Self {
        let before = self.skills.take();
        self.skills = Some(before.unwrap_or_default().and(skills));
        self
    }

    /// Offers one skill: a directory, or content that a function generates.
    ///
    /// ```
    /// use wharf::{prelude::*, skills::{FrontMatter, Skill}};
    ///
    /// let about = FrontMatter::new("daily", "Writes the daily report.");
    /// let daily = Skill::dynamic(about, async |Uri(uri): Uri| {
    ///     uri.ends_with("/SKILL.md").then(|| "# The report of today\n".to_owned())
    /// });
    /// let server = Server::new("harbour", "1.0.0").skill(daily);
    /// # let _ = server;
    /// ```
    pub fn skill(self, skill: Skill) -> Self {
        self.skills(skill)
    }
}

/// Adds the skills to the router.
pub(super) fn add(skills: Option<Skills>, router: RouterBuilder) -> RouterBuilder {
    match skills {
        Some(skills) => skills.add_to(router),
        None => router,
    }
}

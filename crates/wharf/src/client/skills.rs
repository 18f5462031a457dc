//! Skills of a server.

use wharf_extensions::skills::{ListedSkill, SkillError, SkillList};

use super::Client;

/// Skills (extension `io.modelcontextprotocol/skills`).
impl Client {
    /// Lists the skills of the server: a stream over all pages. No file of a skill is read.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let mut skills = client.skills();
    /// while let Some(skill) = skills.next().await {
    ///     let skill = skill?;
    ///     println!("{}: {}", skill.name(), skill.description());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn skills(&self) -> SkillList {
        SkillList::new(&self.0)
    }

    /// Gets the skill at this URI, listed or not. No file is read before the skill is loaded.
    ///
    /// ```no_run
    /// # async fn example(client: wharf::Client) -> wharf::Result<()> {
    /// let skill = client.skill("skill://pdf-processing/SKILL.md").await?.load().await?;
    /// println!("{}", skill.instructions());
    /// let forms = skill.read("references/FORMS.md").await?;
    /// # drop(forms);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the URI is not that of a skill, or if the server does not declare the extension or does not have the skill.
    pub async fn skill(&self, uri: impl Into<String>) -> Result<ListedSkill, SkillError> {
        ListedSkill::get(&self.0, uri).await
    }
}

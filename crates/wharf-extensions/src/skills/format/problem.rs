//! Problems of skills: violated rules, each with the place in the file.

use std::fmt;

/// Violated rule of a skill, with the file and the line if they are known.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use wharf::skills::{ProblemLevel, SkillProblem};
///
/// let problem = SkillProblem::error("it has no description: add one").at("refunds/SKILL.md", 2);
/// assert_eq!(problem.to_string(), "refunds/SKILL.md:2: it has no description: add one");
/// assert_eq!(problem.level, ProblemLevel::Error);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillProblem {
    /// Severity of the problem.
    pub level: ProblemLevel,
    /// Path or URI of the file.
    pub file: Option<String>,
    /// Line in the file, from 1.
    pub line: Option<usize>,
    /// Description of the problem and of its solution.
    pub text: String,
}

/// Severity of a [`SkillProblem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemLevel {
    /// A rule that is recommended.
    Warning,
    /// A rule that is required: hosts do not load the skill.
    Error,
}

impl SkillProblem {
    /// Creates an error without a place.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        SkillProblem { level: ProblemLevel::Error, file: None, line: None, text: text.into() }
    }

    /// Creates a warning without a place.
    #[must_use]
    pub fn warning(text: impl Into<String>) -> Self {
        SkillProblem { level: ProblemLevel::Warning, ..SkillProblem::error(text) }
    }

    /// Sets the file.
    #[must_use]
    pub fn in_file(self, file: impl Into<String>) -> Self {
        SkillProblem { file: Some(file.into()), ..self }
    }

    /// Sets the file and the line.
    #[must_use]
    pub fn at(self, file: impl Into<String>, line: usize) -> Self {
        SkillProblem { line: Some(line), ..self.in_file(file) }
    }

    /// Returns whether hosts do not load the skill because of this problem.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.level == ProblemLevel::Error
    }
}

impl fmt::Display for SkillProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            f.write_str(file)?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.text)
    }
}

//! Errors of building a server.

use std::fmt;

/// Error of building a server: contains every problem, each with what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildError {
    problems: Vec<BuildProblem>,
}

/// One problem that must be fixed before the server can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildProblem {
    /// The part it is about, such as "tool `add`".
    pub item: String,
    /// Description of the problem and of its solution.
    pub text: String,
}

impl BuildError {
    /// Returns the problems, in the order they were found.
    #[must_use]
    pub fn problems(&self) -> &[BuildProblem] {
        &self.problems
    }

    /// Creates an error with one problem, for code that builds a server around a router.
    #[must_use]
    pub fn new(item: impl Into<String>, text: impl Into<String>) -> Self {
        let mut error = BuildError::default();
        error.add(item, text);
        error
    }

    pub(crate) fn add(&mut self, item: impl Into<String>, text: impl Into<String>) {
        self.problems.push(BuildProblem { item: item.into(), text: text.into() });
    }

    /// Returns `value` if there are no problems.
    pub(crate) fn or<T>(self, value: T) -> Result<T, BuildError> {
        if self.problems.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot be built:")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

impl fmt::Display for BuildProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.item, self.text)
    }
}

impl std::error::Error for BuildError {}

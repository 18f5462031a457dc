//! ECMAScript regular expressions, matched in linear time with counted steps.
//!
//! A schema only tests for a match. All alternatives are therefore followed at once, one character
//! at a time. The number of steps is at most the pattern's size times the text's length, and is
//! limited by the step budget (`match_general.rs`). Patterns of at most 64 characters and sets, as most
//! are, have a faster search of their own (`match_small.rs`).
//!
//! No crate offers this: `regex` has another syntax and no look-around, `regress` and `fancy-regex`
//! backtrack, and none of them can be stopped after a number of steps. These are 900 lines.

mod compile;
mod match_general;
mod match_small;
mod parse;
mod property;
mod set;

use std::fmt;

use compile::Program;
use match_general::{PatternSearch, SearchStart};

use crate::validate::step_budget::{StepBudget, StopReason};

/// A compiled pattern.
pub(super) struct Pattern {
    source: Box<str>,
    program: Program,
}

/// Maximum number of characters of an unsupported pattern in a message.
const MAX_SHOWN_CHARS: usize = 100;

impl Pattern {
    /// Compiles a pattern into at most `budget` operations, and subtracts them from it.
    ///
    /// # Errors
    /// Contains the reason for which the pattern is rejected.
    pub(super) fn new(source: &str, budget: &mut usize) -> Result<Self, String> {
        let program = parse::parse(source).and_then(|parsed| Program::new(&parsed, budget));
        let program = program.map_err(|reason| {
            let shown: String = source.chars().take(MAX_SHOWN_CHARS).collect();
            let rest = if shown.len() < source.len() { "…" } else { "" };
            format!("the pattern `{shown}{rest}`: {reason}")
        })?;
        Ok(Pattern { source: source.into(), program })
    }

    /// The pattern as written.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// True if the text contains a match.
    #[inline(never)]
    pub(super) fn is_in(&self, text: &str, budget: &mut StepBudget) -> Result<bool, StopReason> {
        let ops = &*self.program.ops;
        if let Some(positions) = &self.program.positions {
            return positions.is_in(ops, text, budget);
        }
        let from = SearchStart { entry: 0, at: 0, is_fixed: self.program.is_anchored };
        PatternSearch { ops, text, budget, ahead: Vec::new() }.finds(from, None)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

/// True if the text is a valid ECMAScript pattern.
pub(super) fn is_pattern(text: &str) -> bool {
    parse::parse(text).is_ok_and(|it| it.is_ecma)
}

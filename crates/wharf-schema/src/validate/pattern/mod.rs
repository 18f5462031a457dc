//! ECMAScript regular expressions, matched in linear time with counted steps.
//!
//! A schema only tests for a match. All alternatives are therefore followed at once, one character
//! at a time. The number of steps is at most the pattern's size times the text's length, and is
//! limited by the step budget. Patterns of at most 64 characters and sets, as most are, have a faster
//! search of their own (`match_small`).
//!
//! No crate offers this: `regex` has another syntax and no look-around, `regress` and `fancy-regex`
//! backtrack, and none of them can be stopped after a number of steps. These are 900 lines.

mod compile;
mod match_small;
mod parse;
mod property;
mod set;

use std::fmt;

use compile::{PatternOp, Program};

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

/// Start of a search.
struct SearchStart {
    /// Index in the program.
    entry: usize,
    /// Byte offset in the text.
    at: usize,
    /// True if the match must begin at `at`, not later.
    is_fixed: bool,
}

struct PatternSearch<'w> {
    ops: &'w [PatternOp],
    text: &'w str,
    budget: &'w mut StepBudget,
    /// Operations still to visit; the vector is kept to reuse its allocation.
    ahead: Vec<usize>,
}

/// Operations reached at one position of the text, each once.
struct ReachedOps {
    /// Operations that wait for a character.
    waiting: Vec<usize>,
    seen: Vec<bool>,
    is_match: bool,
}

impl ReachedOps {
    fn new(size: usize) -> Self {
        ReachedOps { waiting: Vec::new(), seen: vec![false; size], is_match: false }
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.seen.fill(false);
        self.is_match = false;
    }
}

impl PatternSearch<'_> {
    /// Searches for a match; one that ends at `end`, if given.
    fn finds(&mut self, from: SearchStart, end: Option<usize>) -> Result<bool, StopReason> {
        self.budget.spend(self.ops.len() / 16)?;
        let (mut now, mut next) =
            (ReachedOps::new(self.ops.len()), ReachedOps::new(self.ops.len()));
        let (mut at, text) = (from.at, self.text);
        let mut chars = text[from.at..end.unwrap_or(text.len())].chars();
        loop {
            if !from.is_fixed || at == from.at {
                self.reach(from.entry, at, &mut now)?;
            }
            if now.is_match && end.is_none_or(|end| end == at) {
                return Ok(true);
            }
            let Some(char) = chars.next().filter(|_| !from.is_fixed || !now.waiting.is_empty())
            else {
                return Ok(false);
            };
            at += char.len_utf8();
            // Clearing is cheap, but it happens for each character.
            self.budget.spend(1 + self.ops.len() / 64)?;
            for op in &now.waiting {
                self.budget.spend(self.ops[*op].cost())?;
                if self.ops[*op].takes(char) {
                    self.reach(op + 1, at, &mut next)?;
                }
            }
            now.clear();
            std::mem::swap(&mut now, &mut next);
        }
    }

    /// Marks the operations that are reachable from `op` without consuming a character.
    fn reach(&mut self, op: usize, at: usize, reached: &mut ReachedOps) -> Result<(), StopReason> {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.push(op);
        while let Some(op) = ahead.pop() {
            self.budget.spend(1)?;
            if std::mem::replace(&mut reached.seen[op], true) {
                continue;
            }
            match &self.ops[op] {
                PatternOp::Match => reached.is_match = true,
                PatternOp::Jump(to) => ahead.push(*to),
                PatternOp::Split(one, other) => ahead.extend([*one, *other]),
                PatternOp::Char(_) | PatternOp::Set(_) => reached.waiting.push(op),
                assertion => {
                    if self.holds(assertion, at)? {
                        ahead.push(match assertion {
                            PatternOp::Look { after, .. } => *after,
                            _ => op + 1,
                        });
                    }
                }
            }
        }
        self.ahead = ahead;
        Ok(())
    }

    fn holds(&mut self, assertion: &PatternOp, at: usize) -> Result<bool, StopReason> {
        let (before, after) = self.text.split_at(at);
        Ok(match assertion {
            PatternOp::Start => before.is_empty(),
            PatternOp::End => after.is_empty(),
            PatternOp::Boundary { is_wanted } => {
                let before = before.chars().next_back().is_some_and(set::is_word);
                let after = after.chars().next().is_some_and(set::is_word);
                (before != after) == *is_wanted
            }
            PatternOp::Look { entry, is_behind, is_wanted, .. } => {
                let found = if *is_behind {
                    self.finds(SearchStart { entry: *entry, at: 0, is_fixed: false }, Some(at))?
                } else {
                    self.finds(SearchStart { entry: *entry, at, is_fixed: true }, None)?
                };
                found == *is_wanted
            }
            _ => true,
        })
    }
}

//! Matches patterns of any size: follows all alternatives at once, one character at a time.

use super::{compile::PatternOp, set};
use crate::validate::step_budget::{StepBudget, StopReason};

/// Start of a search.
pub(super) struct SearchStart {
    /// Index in the program.
    pub(super) entry: usize,
    /// Byte offset in the text.
    pub(super) at: usize,
    /// True if the match must begin at `at`, not later.
    pub(super) is_fixed: bool,
}

pub(super) struct PatternSearch<'w> {
    pub(super) ops: &'w [PatternOp],
    pub(super) text: &'w str,
    pub(super) budget: &'w mut StepBudget,
    /// Operations still to visit; the vector is kept to reuse its allocation.
    pub(super) ahead: Vec<usize>,
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
    pub(super) fn finds(
        &mut self,
        from: SearchStart,
        end: Option<usize>,
    ) -> Result<bool, StopReason> {
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

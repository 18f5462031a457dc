//! Regular expressions of schemas: those of ECMAScript, matched in steps that are counted.
//!
//! A schema only asks whether a pattern is found in a text. So all ways through the pattern are
//! walked at once, one character after the other: no pattern takes more steps than its size times
//! the length of the text, and none more than it may.

mod parse;
mod program;
mod property;
mod set;

use std::fmt;

use program::{Op, Program};

use crate::validate::step_budget::{Fuel, Stop};

/// A compiled pattern.
pub(super) struct Pattern {
    source: Box<str>,
    program: Program,
}

/// How many characters of a pattern that cannot be used are shown.
const SHOWN: usize = 100;

impl Pattern {
    /// Compiles a pattern into at most `room` operations, which it takes away.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn new(source: &str, room: &mut usize) -> Result<Self, String> {
        let program = parse::parse(source).and_then(|parsed| Program::new(&parsed, room));
        let program = program.map_err(|reason| {
            let shown: String = source.chars().take(SHOWN).collect();
            let rest = if shown.len() < source.len() { "…" } else { "" };
            format!("the pattern `{shown}{rest}`: {reason}")
        })?;
        Ok(Pattern { source: source.into(), program })
    }

    /// As its author wrote it.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether it is found in a text.
    pub(super) fn is_in(&self, text: &str, fuel: &mut Fuel) -> Result<bool, Stop> {
        let ops = &*self.program.ops;
        let from = Start { entry: 0, at: 0, is_fixed: self.program.is_anchored };
        Walk { ops, text, fuel, ahead: Vec::new() }.finds(from, None)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

/// Whether a text could be a pattern.
pub(super) fn is_pattern(text: &str) -> bool {
    parse::parse(text).is_ok_and(|it| it.is_ecma)
}

/// Where a walk begins.
struct Start {
    /// In the program.
    entry: usize,
    /// In the text.
    at: usize,
    /// Whether it may begin there only, not later.
    is_fixed: bool,
}

struct Walk<'w> {
    ops: &'w [Op],
    text: &'w str,
    fuel: &'w mut Fuel,
    /// What is yet to be reached; kept for the sake of its memory.
    ahead: Vec<usize>,
}

/// The places in a program that are reached at one place in the text, each once.
struct Reached {
    /// Those that wait for a character.
    waiting: Vec<usize>,
    seen: Vec<bool>,
    is_match: bool,
}

impl Reached {
    fn new(size: usize) -> Self {
        Reached { waiting: Vec::new(), seen: vec![false; size], is_match: false }
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.seen.fill(false);
        self.is_match = false;
    }
}

impl Walk<'_> {
    /// Whether a match is found, if `end` is given: one that ends there.
    fn finds(&mut self, from: Start, end: Option<usize>) -> Result<bool, Stop> {
        self.fuel.spend(self.ops.len() / 16)?;
        let (mut now, mut next) = (Reached::new(self.ops.len()), Reached::new(self.ops.len()));
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
            // Clearing is quick, but it is done for each character.
            self.fuel.spend(1 + self.ops.len() / 64)?;
            for op in &now.waiting {
                self.fuel.spend(self.ops[*op].cost())?;
                if self.ops[*op].takes(char) {
                    self.reach(op + 1, at, &mut next)?;
                }
            }
            now.clear();
            std::mem::swap(&mut now, &mut next);
        }
    }

    /// Notes what can be reached from `op` without another character.
    fn reach(&mut self, op: usize, at: usize, reached: &mut Reached) -> Result<(), Stop> {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.push(op);
        while let Some(op) = ahead.pop() {
            self.fuel.spend(1)?;
            if std::mem::replace(&mut reached.seen[op], true) {
                continue;
            }
            match &self.ops[op] {
                Op::Match => reached.is_match = true,
                Op::Jump(to) => ahead.push(*to),
                Op::Split(one, other) => ahead.extend([*one, *other]),
                Op::Char(_) | Op::Set(_) => reached.waiting.push(op),
                assertion => {
                    if self.holds(assertion, at)? {
                        ahead.push(match assertion {
                            Op::Look { after, .. } => *after,
                            _ => op + 1,
                        });
                    }
                }
            }
        }
        self.ahead = ahead;
        Ok(())
    }

    fn holds(&mut self, assertion: &Op, at: usize) -> Result<bool, Stop> {
        let (before, after) = self.text.split_at(at);
        Ok(match assertion {
            Op::Start => before.is_empty(),
            Op::End => after.is_empty(),
            Op::Boundary { is_wanted } => {
                let before = before.chars().next_back().is_some_and(set::is_word);
                let after = after.chars().next().is_some_and(set::is_word);
                (before != after) == *is_wanted
            }
            Op::Look { entry, is_behind, is_wanted, .. } => {
                let found = if *is_behind {
                    self.finds(Start { entry: *entry, at: 0, is_fixed: false }, Some(at))?
                } else {
                    self.finds(Start { entry: *entry, at, is_fixed: true }, None)?
                };
                found == *is_wanted
            }
            _ => true,
        })
    }
}

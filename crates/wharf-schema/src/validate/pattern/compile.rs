//! Compiles a pattern to a list of operations.

use std::sync::Arc;

use super::{
    match_small::Positions,
    parse::{ParsedPattern, SyntaxNode},
    set::CharSet,
};

/// A single operation. Unless noted otherwise, the next one follows.
#[derive(Debug)]
pub(super) enum PatternOp {
    Char(char),
    /// Shared between the copies that a quantifier makes.
    Set(Arc<CharSet>),
    Start,
    End,
    Boundary {
        is_wanted: bool,
    },
    /// Lookaround: the program at `entry` must, or must not, match ahead or behind.
    Look {
        entry: usize,
        after: usize,
        is_behind: bool,
        is_wanted: bool,
    },
    Split(usize, usize),
    Jump(usize),
    Match,
}

impl PatternOp {
    /// Additional steps for testing a character.
    pub(super) fn cost(&self) -> usize {
        match self {
            PatternOp::Set(set) => set.cost(),
            _ => 0,
        }
    }

    /// ASCII characters that it takes, as bits; `None` if they are not known in advance.
    pub(super) fn ascii(&self) -> Option<u128> {
        match self {
            PatternOp::Char(wanted) if wanted.is_ascii() => Some(1 << *wanted as u32),
            PatternOp::Char(_) => Some(0),
            PatternOp::Set(set) => set.ascii(),
            _ => None,
        }
    }

    pub(super) fn takes(&self, char: char) -> bool {
        match self {
            PatternOp::Char(wanted) => *wanted == char,
            PatternOp::Set(set) => set.has(char),
            _ => false,
        }
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) ops: Vec<PatternOp>,
    /// True if it can match only at the start of the text.
    pub(super) is_anchored: bool,
    /// For a faster search, if possible.
    pub(super) positions: Option<Positions>,
}

impl Program {
    /// Compiles into at most `budget` operations, and subtracts them from it.
    pub(super) fn new(parsed: &ParsedPattern, budget: &mut usize) -> Result<Self, String> {
        if parsed.refers_back {
            return Err("it contains a backreference, which is not supported".into());
        }
        let mut writer = ProgramWriter { ops: Vec::new(), budget };
        writer.piece(&parsed.piece)?;
        writer.push(PatternOp::Match)?;
        let ops = writer.ops;
        let is_anchored = matches!(ops[0], PatternOp::Start);
        let positions = Positions::new(&ops);
        Ok(Program { ops, is_anchored, positions })
    }
}

struct ProgramWriter<'r> {
    ops: Vec<PatternOp>,
    budget: &'r mut usize,
}

impl ProgramWriter<'_> {
    /// Appends an operation and returns its index.
    fn push(&mut self, op: PatternOp) -> Result<usize, String> {
        *self.budget = self.budget.checked_sub(1).ok_or("it is too large")?;
        self.ops.push(op);
        Ok(self.ops.len() - 1)
    }

    fn piece(&mut self, piece: &SyntaxNode) -> Result<(), String> {
        // A node without operations takes time as well, and may be repeated.
        *self.budget = self.budget.checked_sub(1).ok_or("it is too large")?;
        match piece {
            SyntaxNode::Char(char) => drop(self.push(PatternOp::Char(*char))?),
            SyntaxNode::Set(set) => drop(self.push(PatternOp::Set(set.clone()))?),
            SyntaxNode::Start => drop(self.push(PatternOp::Start)?),
            SyntaxNode::End => drop(self.push(PatternOp::End)?),
            SyntaxNode::Boundary(is_wanted) => {
                self.push(PatternOp::Boundary { is_wanted: *is_wanted })?;
            }
            SyntaxNode::Sequence(all) => all.iter().try_for_each(|one| self.piece(one))?,
            SyntaxNode::Either(all) => self.either(all)?,
            SyntaxNode::Repeat(inner, least, most) => self.repeat(inner, *least, *most)?,
            SyntaxNode::Look { inner, is_behind, is_wanted } => {
                let look = self.push(PatternOp::Match)?;
                let entry = self.ops.len();
                self.piece(inner)?;
                let after = self.push(PatternOp::Match)? + 1;
                let (is_behind, is_wanted) = (*is_behind, *is_wanted);
                self.ops[look] = PatternOp::Look { entry, after, is_behind, is_wanted };
            }
        }
        Ok(())
    }

    fn either(&mut self, all: &[SyntaxNode]) -> Result<(), String> {
        let Some((last, first)) = all.split_last() else { return Ok(()) };
        let mut ends = Vec::new();
        for one in first {
            let split = self.push(PatternOp::Match)?;
            self.piece(one)?;
            ends.push(self.push(PatternOp::Match)?);
            self.ops[split] = PatternOp::Split(split + 1, self.ops.len());
        }
        self.piece(last)?;
        for end in ends {
            self.ops[end] = PatternOp::Jump(self.ops.len());
        }
        Ok(())
    }

    fn repeat(&mut self, inner: &SyntaxNode, least: u32, most: Option<u32>) -> Result<(), String> {
        for _ in 0..least {
            let before = self.ops.len();
            self.piece(inner)?;
            if self.ops.len() == before {
                // Repetitions of an empty node have no effect.
                return Ok(());
            }
        }
        let Some(most) = most else {
            let split = self.push(PatternOp::Match)?;
            self.piece(inner)?;
            self.push(PatternOp::Jump(split))?;
            self.ops[split] = PatternOp::Split(split + 1, self.ops.len());
            return Ok(());
        };
        let mut exits = Vec::new();
        for _ in least..most {
            exits.push(self.push(PatternOp::Match)?);
            self.piece(inner)?;
        }
        for exit in exits {
            self.ops[exit] = PatternOp::Split(exit + 1, self.ops.len());
        }
        Ok(())
    }
}

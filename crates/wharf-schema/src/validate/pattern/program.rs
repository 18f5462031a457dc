//! A pattern as a list of operations.

use std::sync::Arc;

use super::{
    parse::{Parsed, Piece},
    set::Set,
};

/// One operation. Where it says nothing else, the next one follows.
#[derive(Debug)]
pub(super) enum Op {
    Char(char),
    /// Shared, because a repetition repeats it.
    Set(Arc<Set>),
    Start,
    End,
    Boundary {
        is_wanted: bool,
    },
    /// What stands at `entry` is, or is not, found ahead or behind.
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

impl Op {
    /// The steps that it takes beyond the first one to look at a character.
    pub(super) fn cost(&self) -> usize {
        match self {
            Op::Set(set) => set.cost(),
            _ => 0,
        }
    }

    pub(super) fn takes(&self, char: char) -> bool {
        match self {
            Op::Char(wanted) => *wanted == char,
            Op::Set(set) => set.has(char),
            _ => false,
        }
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    /// Whether it can only be found at the start of a text.
    pub(super) is_anchored: bool,
}

impl Program {
    /// Compiles into at most `room` operations, which it takes away.
    pub(super) fn new(parsed: &Parsed, room: &mut usize) -> Result<Self, String> {
        if parsed.refers_back {
            return Err("it refers back to a group, which is not supported".into());
        }
        let mut writer = Writer { ops: Vec::new(), room };
        writer.piece(&parsed.piece)?;
        writer.push(Op::Match)?;
        let ops = writer.ops;
        let is_anchored = matches!(ops[0], Op::Start);
        Ok(Program { ops, is_anchored })
    }
}

struct Writer<'r> {
    ops: Vec<Op>,
    room: &'r mut usize,
}

impl Writer<'_> {
    /// Says where the operation is.
    fn push(&mut self, op: Op) -> Result<usize, String> {
        *self.room = self.room.checked_sub(1).ok_or("it is too large")?;
        self.ops.push(op);
        Ok(self.ops.len() - 1)
    }

    fn piece(&mut self, piece: &Piece) -> Result<(), String> {
        // Even what becomes no operation takes time, and may be repeated.
        *self.room = self.room.checked_sub(1).ok_or("it is too large")?;
        match piece {
            Piece::Char(char) => drop(self.push(Op::Char(*char))?),
            Piece::Set(set) => drop(self.push(Op::Set(set.clone()))?),
            Piece::Start => drop(self.push(Op::Start)?),
            Piece::End => drop(self.push(Op::End)?),
            Piece::Boundary(is_wanted) => {
                self.push(Op::Boundary { is_wanted: *is_wanted })?;
            }
            Piece::Sequence(all) => all.iter().try_for_each(|one| self.piece(one))?,
            Piece::Either(all) => self.either(all)?,
            Piece::Repeat(inner, least, most) => self.repeat(inner, *least, *most)?,
            Piece::Look { inner, is_behind, is_wanted } => {
                let look = self.push(Op::Match)?;
                let entry = self.ops.len();
                self.piece(inner)?;
                let after = self.push(Op::Match)? + 1;
                let (is_behind, is_wanted) = (*is_behind, *is_wanted);
                self.ops[look] = Op::Look { entry, after, is_behind, is_wanted };
            }
        }
        Ok(())
    }

    fn either(&mut self, all: &[Piece]) -> Result<(), String> {
        let Some((last, first)) = all.split_last() else { return Ok(()) };
        let mut ends = Vec::new();
        for one in first {
            let split = self.push(Op::Match)?;
            self.piece(one)?;
            ends.push(self.push(Op::Match)?);
            self.ops[split] = Op::Split(split + 1, self.ops.len());
        }
        self.piece(last)?;
        for end in ends {
            self.ops[end] = Op::Jump(self.ops.len());
        }
        Ok(())
    }

    fn repeat(&mut self, inner: &Piece, least: u32, most: Option<u32>) -> Result<(), String> {
        for _ in 0..least {
            let before = self.ops.len();
            self.piece(inner)?;
            if self.ops.len() == before {
                // Nothing, however often.
                return Ok(());
            }
        }
        let Some(most) = most else {
            let split = self.push(Op::Match)?;
            self.piece(inner)?;
            self.push(Op::Jump(split))?;
            self.ops[split] = Op::Split(split + 1, self.ops.len());
            return Ok(());
        };
        let mut exits = Vec::new();
        for _ in least..most {
            exits.push(self.push(Op::Match)?);
            self.piece(inner)?;
        }
        for exit in exits {
            self.ops[exit] = Op::Split(exit + 1, self.ops.len());
        }
        Ok(())
    }
}

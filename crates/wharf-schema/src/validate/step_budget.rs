//! How much work a check may be: schemas and values may come from somebody who means harm.

/// Why a check ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It was too much work, or went too deep.
    TooMuch,
    /// Enough problems are known.
    Enough,
}

/// Bytes of text that are looked at in one step.
const TEXT: usize = 32;

/// Steps that are left.
#[derive(Debug)]
pub(super) struct Fuel {
    budget: usize,
    left: usize,
}

impl Fuel {
    pub(super) fn new(steps: usize) -> Self {
        Fuel { budget: steps, left: steps }
    }

    #[inline]
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(steps).ok_or(Stop::TooMuch)?;
        Ok(())
    }

    /// For one look over a text.
    pub(super) fn spend_on_text(&mut self, text: &str) -> Result<(), Stop> {
        self.spend(text.len() / TEXT)
    }

    /// For the lookup of a name in an object, which reads the whole name.
    pub(super) fn spend_on_lookup(&mut self, name: &str) -> Result<(), Stop> {
        self.spend(1 + name.len() / TEXT)
    }

    /// For a list of `count` references to values.
    pub(super) fn spend_on_list(&mut self, count: usize) -> Result<(), Stop> {
        self.spend(count / TEXT)
    }

    pub(super) fn spent(&self) -> usize {
        self.budget - self.left
    }
}

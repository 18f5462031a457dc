//! How much work a check may be: schemas and values may come from somebody who means harm.

/// Why a check ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// It was too much work, or went too deep.
    BudgetExceeded,
    /// Enough problems are known.
    EnoughProblems,
}

/// Bytes of text that are looked at in one step.
const TEXT_BYTES_PER_STEP: usize = 32;

/// Steps that are left.
#[derive(Debug)]
pub(super) struct StepBudget {
    total: usize,
    left: usize,
}

impl StepBudget {
    pub(super) fn new(steps: usize) -> Self {
        StepBudget { total: steps, left: steps }
    }

    #[inline]
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), StopReason> {
        self.left = self.left.checked_sub(steps).ok_or(StopReason::BudgetExceeded)?;
        Ok(())
    }

    /// For one look over a text.
    pub(super) fn spend_on_text(&mut self, text: &str) -> Result<(), StopReason> {
        self.spend(text.len() / TEXT_BYTES_PER_STEP)
    }

    /// For the lookup of a name in an object, which reads the whole name.
    pub(super) fn spend_on_lookup(&mut self, name: &str) -> Result<(), StopReason> {
        self.spend(1 + name.len() / TEXT_BYTES_PER_STEP)
    }

    /// For a list of `count` references to values.
    pub(super) fn spend_on_list(&mut self, count: usize) -> Result<(), StopReason> {
        self.spend(count / TEXT_BYTES_PER_STEP)
    }

    pub(super) fn spent(&self) -> usize {
        self.total - self.left
    }
}

//! Step budget of a validation, because schemas and values may be malicious.

/// Step budget of one validation: about a tenth of a second if all steps are slow.
pub const MAX_STEPS: usize = 4_000_000;

/// Step budget for collecting the problems.
pub const MAX_REPORT_STEPS: usize = 100_000;

/// Reason for which an evaluation stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The step budget or the recursion depth is exceeded.
    BudgetExceeded,
    /// Enough problems are found.
    EnoughProblems,
}

/// Bytes of text that are processed in one step.
const TEXT_BYTES_PER_STEP: usize = 32;

/// Remaining steps.
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

    /// Spends the steps for one pass over a text.
    #[inline]
    pub(super) fn spend_on_text(&mut self, text: &str) -> Result<(), StopReason> {
        match text.len() / TEXT_BYTES_PER_STEP {
            0 => Ok(()),
            steps => self.spend(steps),
        }
    }

    /// Spends the steps for looking up a name in an object, which reads the whole name.
    pub(super) fn spend_on_lookup(&mut self, name: &str) -> Result<(), StopReason> {
        self.spend(1 + name.len() / TEXT_BYTES_PER_STEP)
    }

    /// Spends the steps for a list of `count` references to values.
    pub(super) fn spend_on_list(&mut self, count: usize) -> Result<(), StopReason> {
        self.spend(count / TEXT_BYTES_PER_STEP)
    }

    pub(super) fn spent(&self) -> usize {
        self.total - self.left
    }
}

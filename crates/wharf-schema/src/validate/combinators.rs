//! Applicator keywords that apply several schemas to the same value.

use crate::problem_report::{ProblemKind, ValueProblem};
use crate::validate::{
    compiled::SchemaId,
    evaluate::{MESSAGE_STEPS, StepResult, ValueCheck, ValuePart, add_problem},
    evaluated_marks::EvaluatedMarks,
    step_budget::StopReason,
};

impl<const REPORTS: bool> ValueCheck<'_, REPORTS> {
    #[inline(never)]
    pub(super) fn all_of(
        &mut self,
        ids: &[SchemaId],
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let mut fits = true;
        for id in ids {
            fits &= self.node(*id, part, marks.as_deref_mut())?;
            if !fits && !self.reports() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    /// Evaluates an alternative silently; its marks count only if it matches.
    #[inline(always)]
    fn try_node(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        match marks {
            None => self.without_problems(|check| check.node(id, part, None)),
            Some(marks) => self.try_node_with_marks(id, part, marks),
        }
    }

    #[inline(never)]
    fn try_node_with_marks(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
        marks: &mut EvaluatedMarks,
    ) -> StepResult {
        let mut fresh = marks.fresh();
        self.budget.spend(fresh.len())?;
        let fits = self.without_problems(|check| check.node(id, part, Some(&mut fresh)))?;
        if fits {
            marks.add(&fresh);
        }
        Ok(fits)
    }

    #[inline(never)]
    pub(super) fn any_of(
        &mut self,
        ids: &[SchemaId],
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let mut fits = false;
        for id in ids {
            fits |= self.try_node(*id, part, marks.as_deref_mut())?;
            // Marks are those of all alternatives that match.
            if fits && marks.is_none() {
                return Ok(true);
            }
        }
        if fits { Ok(true) } else { self.report_no_match(ids, "anyOf", part) }
    }

    #[inline(never)]
    pub(super) fn one_of(
        &mut self,
        ids: &[SchemaId],
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let mut fitting = 0;
        for id in ids {
            fitting += usize::from(self.try_node(*id, part, marks.as_deref_mut())?);
            if fitting > 1 {
                let messages = self.messages;
                return self
                    .report(ProblemKind::Other, part, || messages.more_than_one(part.value));
            }
        }
        if fitting == 1 { Ok(true) } else { self.report_no_match(ids, "oneOf", part) }
    }

    #[inline(never)]
    pub(super) fn conditional(
        &mut self,
        [condition, then, otherwise]: [SchemaId; 3],
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let is_so = self.try_node(condition, part, marks.as_deref_mut())?;
        self.node(if is_so { then } else { otherwise }, part, marks)
    }

    /// Reports the problems of the intended alternative if exactly one is recognizable: by the type
    /// of the value, such as object or null, or by its tag (`const`).
    fn report_no_match(
        &mut self,
        ids: &[SchemaId],
        keyword: &str,
        part: ValuePart<'_>,
    ) -> StepResult {
        if !self.reports() {
            return Ok(false);
        }
        self.budget.spend(MESSAGE_STEPS)?;
        let path = part.path.dotted();
        self.budget.spend_on_text(&path)?;
        let is_other = |it: &ValueProblem| match it.kind {
            ProblemKind::Type => it.path == path,
            ProblemKind::Constant => true,
            ProblemKind::Other => false,
        };
        let mut meant: Option<Vec<ValueProblem>> = None;
        let mut several = false;
        for id in ids {
            let problems = self.problems_by(*id, part)?;
            if !problems.iter().any(is_other) {
                several |= meant.is_some();
                meant = Some(problems);
            }
        }
        match (meant, &mut self.problems) {
            (Some(meant), Some(problems)) if !several && !meant.is_empty() => {
                meant.into_iter().try_fold(false, |_, problem| add_problem(problems, problem))
            }
            _ => {
                let messages = self.messages;
                self.report(ProblemKind::Other, part, || messages.none(keyword, part.value))
            }
        }
    }

    /// Problems of a part under one schema alone.
    fn problems_by(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
    ) -> Result<Vec<ValueProblem>, StopReason> {
        let outer = self.problems.replace(Vec::new());
        let outcome = self.node(id, part, None);
        let problems = std::mem::replace(&mut self.problems, outer).unwrap_or_default();
        if outcome == Err(StopReason::BudgetExceeded) {
            Err(StopReason::BudgetExceeded)
        } else {
            Ok(problems)
        }
    }
}

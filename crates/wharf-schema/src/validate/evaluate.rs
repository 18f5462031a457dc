//! A value held against a schema.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::Value;

use crate::problems::{MAX_PROBLEMS, ProblemKind, ValuePath, ValueProblem};
use crate::validate::{
    Schema, assertions,
    compiled::{Rule, SchemaId},
    evaluated::EvaluatedMarks,
    messages::MessageStyle,
    step_budget::{StepBudget, StopReason},
};

/// How many schemas within schemas one value within values may be held against: the stack ends.
const MAX_DEPTH: usize = 640;

/// What it takes to remember how a part was judged, in steps.
const MEMO_STEPS: usize = 8;

/// After so many steps it is worth remembering what references led to.
const MEMO_AFTER_STEPS: usize = 4096;

/// The steps that it takes to put a problem into words.
pub(super) const MESSAGE_STEPS: usize = 64;

/// Whether a value fits; the check may stop before that is known.
pub(super) type StepResult = Result<bool, StopReason>;

/// A part of the value, and how the check came there.
#[derive(Clone, Copy)]
pub(super) struct ValuePart<'a> {
    pub(super) value: &'a Value,
    pub(super) path: &'a ValuePath<'a>,
    pub(super) scope: &'a DynamicScope<'a>,
}

/// The resources that references led through, the innermost first.
pub(super) struct DynamicScope<'a> {
    resource: usize,
    outer: Option<&'a DynamicScope<'a>>,
}

/// One check under way.
pub(super) struct ValueCheck<'s> {
    pub(super) schema: &'s Schema,
    pub(super) budget: StepBudget,
    /// The problems found, if they are wanted.
    pub(super) problems: Option<Vec<ValueProblem>>,
    pub(super) messages: MessageStyle,
    /// What references led to; none where parts of the value do not stay where they are.
    memo: Option<HashMap<(SchemaId, *const Value), bool, RandomState>>,
    depth: usize,
}

impl<'s> ValueCheck<'s> {
    pub(super) fn fits_only(schema: &'s Schema, steps: usize) -> Self {
        // Where references lead hangs on more than the part if any of them is dynamic.
        let memo = schema.anchors.is_empty().then(HashMap::default);
        let (budget, messages) = (StepBudget::new(steps), MessageStyle { quotes: false });
        ValueCheck { schema, budget, problems: None, messages, memo, depth: 0 }
    }

    pub(super) fn collecting(schema: &'s Schema, steps: usize, quotes: bool) -> Self {
        let (problems, messages) = (Some(Vec::new()), MessageStyle { quotes });
        ValueCheck { problems, messages, ..ValueCheck::fits_only(schema, steps) }
    }

    pub(super) fn run(&mut self, value: &Value) -> StepResult {
        let scope = DynamicScope { resource: 0, outer: None };
        self.node(
            self.schema.root,
            ValuePart { value, path: &ValuePath::ROOT, scope: &scope },
            None,
        )
    }

    /// The problems that were found.
    pub(super) fn problems(self) -> Vec<ValueProblem> {
        self.problems.unwrap_or_default()
    }

    /// Holds a part of the value against a schema; `marks` are for those who ask what was looked at.
    pub(super) fn node(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let node = &self.schema.nodes[id];
        self.budget.spend(1)?;
        if node.rules.is_empty() {
            return Ok(true);
        }
        if self.depth == MAX_DEPTH {
            return Err(StopReason::BudgetExceeded);
        }
        self.depth += 1;
        let entered = DynamicScope { resource: node.resource, outer: Some(part.scope) };
        let is_same = part.scope.resource == node.resource;
        let part = ValuePart { scope: if is_same { part.scope } else { &entered }, ..part };
        let fits = if node.needs_marks {
            self.rules_with_marks(&node.rules, part, marks)
        } else {
            self.rules(&node.rules, part, marks)
        };
        self.depth -= 1;
        fits
    }

    fn rules_with_marks(
        &mut self,
        rules: &[Rule],
        part: ValuePart<'_>,
        outer: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let mut marks = EvaluatedMarks::of(part.value);
        self.budget.spend(marks.len())?;
        let fits = self.rules(rules, part, Some(&mut marks))?;
        if let Some(outer) = outer {
            outer.add(&marks);
        }
        Ok(fits)
    }

    fn rules(
        &mut self,
        rules: &[Rule],
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let mut fits = true;
        for rule in rules {
            fits &= match rule {
                // What the failed rules would have looked at is not known.
                Rule::UnevaluatedItems(_) | Rule::UnevaluatedProperties(_) if !fits => false,
                rule => self.rule(rule, part, marks.as_deref_mut())?,
            };
            if !fits && self.problems.is_none() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn rule(
        &mut self,
        rule: &Rule,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        match rule {
            Rule::Required(names) => self.required(names, part),
            Rule::DependentRequired(all) => self.dependent_required(all, part),
            Rule::Properties(all) => self.properties(all, part, marks),
            Rule::PropertyNames(id) => self.property_names(*id, part),
            Rule::Items { prefix, rest } => self.items(prefix, *rest, part, marks),
            Rule::Contains(contains) => self.contains(contains, part, marks),
            Rule::UnevaluatedItems(id) => self.unevaluated_items(*id, part, marks),
            Rule::UnevaluatedProperties(id) => self.unevaluated_properties(*id, part, marks),
            Rule::DependentSchemas(all) => self.dependent_schemas(all, part, marks),
            Rule::AllOf(ids) => self.all_of(ids, part, marks),
            Rule::AnyOf(ids) => self.any_of(ids, part, marks),
            Rule::OneOf(ids) => self.one_of(ids, part, marks),
            Rule::Not(id, _) => {
                let fits = !self.without_problems(|check| check.node(*id, part, None))?;
                if fits { Ok(true) } else { self.report_rule(rule, part) }
            }
            Rule::If { condition, then, otherwise } => {
                self.conditional([*condition, *then, *otherwise], part, marks)
            }
            Rule::Reference(id) => self.follow_reference(*id, part, marks),
            Rule::DynamicReference(id, anchor) => {
                let outermost = self.outermost(part.scope, anchor)?;
                self.node(outermost.unwrap_or(*id), part, marks)
            }
            leaf => match assertions::holds(leaf, part.value, &mut self.budget)? {
                true => Ok(true),
                false => self.report_rule(leaf, part),
            },
        }
    }

    /// The schema with this anchor that the check came through first.
    fn outermost(
        &mut self,
        scope: &DynamicScope<'_>,
        anchor: &str,
    ) -> Result<Option<SchemaId>, StopReason> {
        let (mut found, mut at) = (None, Some(scope));
        while let Some(scope) = at {
            let named = self.schema.anchors.get(scope.resource);
            self.budget.spend(1)?;
            for _ in named.into_iter().flatten() {
                self.budget.spend_on_lookup(anchor)?;
            }
            let here = named.and_then(|all| all.iter().find(|(name, _)| **name == *anchor));
            found = here.map(|(_, id)| *id).or(found);
            at = scope.outer;
        }
        Ok(found)
    }

    /// Follows a reference. A part that references lead to again and again is judged once.
    fn follow_reference(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let is_worth_it =
            self.budget.spent() > MEMO_AFTER_STEPS && self.problems.is_none() && marks.is_none();
        if !is_worth_it {
            return self.node(id, part, marks);
        }
        let key = (id, std::ptr::from_ref(part.value));
        if let Some(fits) = self.memo.as_ref().and_then(|memo| memo.get(&key)) {
            return Ok(*fits);
        }
        let fits = self.node(id, part, None)?;
        if let Some(memo) = &mut self.memo {
            self.budget.spend(MEMO_STEPS)?;
            memo.insert(key, fits);
        }
        Ok(fits)
    }

    /// Looks without telling what is found.
    pub(super) fn without_problems(
        &mut self,
        look: impl FnOnce(&mut Self) -> StepResult,
    ) -> StepResult {
        let problems = self.problems.take();
        let fits = look(self);
        self.problems = problems;
        fits
    }

    /// Looks at what is no part of the value: its address may be another's later.
    pub(super) fn without_memo(
        &mut self,
        look: impl FnOnce(&mut Self) -> StepResult,
    ) -> StepResult {
        let memo = self.memo.take();
        let fits = look(self);
        self.memo = memo;
        fits
    }

    fn report_rule(&mut self, rule: &Rule, part: ValuePart<'_>) -> StepResult {
        let kind = match rule {
            Rule::Type(_) => ProblemKind::Type,
            Rule::Const(_) => ProblemKind::Constant,
            _ => ProblemKind::Other,
        };
        let messages = self.messages;
        self.report(kind, part, || messages.of(rule, part.value))
    }

    /// Notes a problem, if problems are wanted.
    pub(super) fn report(
        &mut self,
        kind: ProblemKind,
        part: ValuePart<'_>,
        text: impl FnOnce() -> String,
    ) -> StepResult {
        let Some(problems) = &mut self.problems else { return Ok(false) };
        self.budget.spend(MESSAGE_STEPS)?;
        let problem = ValueProblem { kind, path: part.path.dotted(), text: text() };
        self.budget.spend_on_text(&problem.path)?;
        add_problem(problems, problem)
    }
}

/// Schemas that repeat themselves find the same problem again and again; it is told once.
pub(super) fn add_problem(problems: &mut Vec<ValueProblem>, problem: ValueProblem) -> StepResult {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
    if problems.len() < MAX_PROBLEMS { Ok(false) } else { Err(StopReason::EnoughProblems) }
}

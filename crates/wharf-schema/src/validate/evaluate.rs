//! Evaluates a value against a compiled schema.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::Value;

use crate::problem_report::{MAX_PROBLEMS, ProblemKind, ValuePath, ValueProblem};
use crate::validate::{
    Schema, assertions,
    compiled::{Rule, SchemaId, SchemaNode, TypeSet},
    evaluated_marks::EvaluatedMarks,
    rule_messages::MessageStyle,
    step_budget::{StepBudget, StopReason},
};

/// Maximum recursion depth of schemas and values, because the stack is limited.
const MAX_DEPTH: usize = 640;

/// Steps that a memo entry costs.
const MEMO_STEPS: usize = 8;

/// Steps after which results of references are memoized.
const MEMO_AFTER_STEPS: usize = 4096;

/// Steps that the text of a problem costs.
pub(super) const MESSAGE_STEPS: usize = 64;

/// True if the value matches; the evaluation may stop early.
pub(super) type StepResult = Result<bool, StopReason>;

/// Part of the value, with its path and dynamic scope.
#[derive(Clone, Copy)]
pub(super) struct ValuePart<'a> {
    pub(super) value: &'a Value,
    pub(super) path: &'a ValuePath<'a>,
    pub(super) scope: &'a DynamicScope<'a>,
}

/// Schema resources that references passed through, innermost first.
pub(super) struct DynamicScope<'a> {
    resource: usize,
    outer: Option<&'a DynamicScope<'a>>,
}

/// State of one evaluation. `REPORTS`: true if problems may be collected; a check that only answers
/// whether a value matches is compiled without all that.
pub(super) struct ValueCheck<'s, const REPORTS: bool> {
    pub(super) schema: &'s Schema,
    pub(super) budget: StepBudget,
    /// Problems found; `None` if they are not collected.
    pub(super) problems: Option<Vec<ValueProblem>>,
    pub(super) messages: MessageStyle,
    /// Memoized results of references; `None` for parts without a stable address.
    memo: Option<HashMap<(SchemaId, *const Value), bool, RandomState>>,
    depth: usize,
}

impl<'s> ValueCheck<'s, false> {
    pub(super) fn without_report(schema: &'s Schema, steps: usize) -> Self {
        ValueCheck::new(schema, steps, MessageStyle { quotes: false })
    }
}

impl<'s> ValueCheck<'s, true> {
    pub(super) fn with_report(schema: &'s Schema, steps: usize, quotes: bool) -> Self {
        ValueCheck::new(schema, steps, MessageStyle { quotes })
    }
}

impl<'s, const REPORTS: bool> ValueCheck<'s, REPORTS> {
    fn new(schema: &'s Schema, steps: usize, messages: MessageStyle) -> Self {
        // With dynamic references, a result depends on the dynamic scope as well as on the part.
        let memo = schema.anchors.is_empty().then(HashMap::default);
        let problems = REPORTS.then(Vec::new);
        ValueCheck { schema, budget: StepBudget::new(steps), problems, messages, memo, depth: 0 }
    }

    /// True if problems are collected now.
    #[inline]
    pub(super) fn reports(&self) -> bool {
        REPORTS && self.problems.is_some()
    }

    pub(super) fn run(&mut self, value: &Value) -> StepResult {
        let scope = DynamicScope { resource: 0, outer: None };
        self.node(
            self.schema.root,
            ValuePart { value, path: &ValuePath::ROOT, scope: &scope },
            None,
        )
    }

    /// Problems that were found.
    pub(super) fn problems(self) -> Vec<ValueProblem> {
        self.problems.unwrap_or_default()
    }

    /// Evaluates a part against a schema; `marks` receives the evaluated items or properties.
    // Most schemas of properties and items have a type and no rules: they need no call.
    #[inline(always)]
    pub(super) fn node(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let mut node = &self.schema.nodes[id];
        self.budget.spend(1)?;
        if !REPORTS
            && let Some(target) = node.alias
            && self.budget.spent() <= MEMO_AFTER_STEPS
        {
            self.budget.spend(1)?;
            node = &self.schema.nodes[target];
        }
        let is_of_type = node.types.allow(part.value);
        if !is_of_type {
            self.report_type(node.types, part)?;
        }
        if node.rules.is_empty() || !(is_of_type || self.reports()) {
            return Ok(is_of_type);
        }
        if !REPORTS
            && marks.is_none()
            && let Some(types) = node.sufficient
            && types.allow(part.value)
        {
            return Ok(true);
        }
        if !REPORTS && node.is_flat {
            return self.flat_rules(node, part.value);
        }
        self.all_rules(node, part, marks, is_of_type)
    }

    /// Rules that look at the value alone need neither scope nor depth.
    #[inline(never)]
    fn flat_rules(&mut self, node: &SchemaNode, value: &Value) -> StepResult {
        for rule in &node.rules {
            if !assertions::holds(rule, value, &mut self.budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline(never)]
    fn all_rules(
        &mut self,
        node: &SchemaNode,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
        is_of_type: bool,
    ) -> StepResult {
        if self.depth == MAX_DEPTH {
            return Err(StopReason::BudgetExceeded);
        }
        self.depth += 1;
        let is_dynamic = !self.schema.anchors.is_empty();
        let fits = if node.needs_marks || (is_dynamic && part.scope.resource != node.resource) {
            self.rules_in_scope(node, part, marks, is_of_type)
        } else {
            self.rules(&node.rules, part, marks, is_of_type)
        };
        self.depth -= 1;
        fits
    }

    #[inline(never)]
    fn rules_in_scope(
        &mut self,
        node: &SchemaNode,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
        is_of_type: bool,
    ) -> StepResult {
        let entered = DynamicScope { resource: node.resource, outer: Some(part.scope) };
        let is_same = part.scope.resource == node.resource;
        let part = ValuePart { scope: if is_same { part.scope } else { &entered }, ..part };
        if node.needs_marks {
            self.rules_with_marks(&node.rules, part, marks, is_of_type)
        } else {
            self.rules(&node.rules, part, marks, is_of_type)
        }
    }

    fn rules_with_marks(
        &mut self,
        rules: &[Rule],
        part: ValuePart<'_>,
        outer: Option<&mut EvaluatedMarks>,
        fits: bool,
    ) -> StepResult {
        let mut marks = EvaluatedMarks::of(part.value);
        self.budget.spend(marks.len())?;
        let fits = self.rules(rules, part, Some(&mut marks), fits)?;
        if let Some(outer) = outer {
            outer.add(&marks);
        }
        Ok(fits)
    }

    #[inline(always)]
    fn rules(
        &mut self,
        rules: &[Rule],
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
        mut fits: bool,
    ) -> StepResult {
        for rule in rules {
            if !REPORTS {
                if !self.rule(rule, part, marks.as_deref_mut())? {
                    return Ok(false);
                }
                continue;
            }
            fits &= match rule {
                // The marks of failed rules are incomplete, so the `unevaluated…` keywords cannot
                // be checked.
                Rule::UnevaluatedItems(_) | Rule::UnevaluatedProperties(_) if !fits => false,
                rule => self.rule(rule, part, marks.as_deref_mut())?,
            };
            if !fits && !self.reports() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    #[inline(always)]
    fn rule(
        &mut self,
        rule: &Rule,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        match rule {
            // The rule of the properties counts them.
            Rule::Required(required) if !REPORTS && required.is_counted => Ok(true),
            Rule::Required(required) => self.required(&required.names, part),
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
            Rule::Not(id, _) => self.not(rule, *id, part),
            Rule::If { condition, then, otherwise } => {
                self.conditional([*condition, *then, *otherwise], part, marks)
            }
            Rule::Reference(id) => self.follow_reference(*id, part, marks),
            Rule::DynamicReference(id, anchor) => self.dynamic_reference(*id, anchor, part, marks),
            leaf => match assertions::holds(leaf, part.value, &mut self.budget)? {
                true => Ok(true),
                false => self.report_rule(leaf, part),
            },
        }
    }

    #[inline(never)]
    fn dynamic_reference(
        &mut self,
        id: SchemaId,
        anchor: &str,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let outermost = self.outermost(part.scope, anchor)?;
        self.node(outermost.unwrap_or(id), part, marks)
    }

    #[inline(never)]
    fn not(&mut self, rule: &Rule, id: SchemaId, part: ValuePart<'_>) -> StepResult {
        let fits = !self.without_problems(|check| check.node(id, part, None))?;
        if fits { Ok(true) } else { self.report_rule(rule, part) }
    }

    /// Outermost schema in the dynamic scope with this anchor.
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

    /// Follows a reference. Results are memoized, so that a part is evaluated once per schema.
    #[inline(never)]
    fn follow_reference(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let is_worth_it =
            self.budget.spent() > MEMO_AFTER_STEPS && !self.reports() && marks.is_none();
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

    /// Evaluates without collecting problems.
    #[inline(always)]
    pub(super) fn without_problems(
        &mut self,
        look: impl FnOnce(&mut Self) -> StepResult,
    ) -> StepResult {
        if !REPORTS {
            return look(self);
        }
        let problems = self.problems.take();
        let fits = look(self);
        self.problems = problems;
        fits
    }

    /// Evaluates a temporary value without the memo, because its address may be reused.
    pub(super) fn without_memo(
        &mut self,
        look: impl FnOnce(&mut Self) -> StepResult,
    ) -> StepResult {
        let memo = self.memo.take();
        let fits = look(self);
        self.memo = memo;
        fits
    }

    #[cold]
    fn report_type(&mut self, types: TypeSet, part: ValuePart<'_>) -> StepResult {
        let messages = self.messages;
        self.report(ProblemKind::Type, part, || messages.of_type(types, part.value))
    }

    #[cold]
    fn report_rule(&mut self, rule: &Rule, part: ValuePart<'_>) -> StepResult {
        let kind = match rule {
            Rule::Const(_) => ProblemKind::Constant,
            _ => ProblemKind::Other,
        };
        let messages = self.messages;
        self.report(kind, part, || messages.of(rule, part.value))
    }

    /// Adds a problem, if problems are collected.
    pub(super) fn report(
        &mut self,
        kind: ProblemKind,
        part: ValuePart<'_>,
        text: impl FnOnce() -> String,
    ) -> StepResult {
        let Some(problems) = self.problems.as_mut().filter(|_| REPORTS) else { return Ok(false) };
        self.budget.spend(MESSAGE_STEPS)?;
        let problem = ValueProblem { kind, path: part.path.dotted(), text: text() };
        self.budget.spend_on_text(&problem.path)?;
        add_problem(problems, problem)
    }
}

/// Adds a problem once, because recursive schemas find the same problem repeatedly.
pub(super) fn add_problem(problems: &mut Vec<ValueProblem>, problem: ValueProblem) -> StepResult {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
    if problems.len() < MAX_PROBLEMS { Ok(false) } else { Err(StopReason::EnoughProblems) }
}

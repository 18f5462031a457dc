//! A value held against a schema.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::Value;

use crate::problems::{Kind, Path, Problem, TOLD};
use crate::validate::{
    Schema, assertions,
    compiled::{Id, Rule},
    evaluated::Marks,
    messages::Words,
    step_budget::{Fuel, Stop},
};

/// How many schemas within schemas one value within values may be held against: the stack ends.
const DEPTH: usize = 640;

/// What it takes to remember how a part was judged, in steps.
const REMEMBERING: usize = 8;

/// After so many steps it is worth remembering what references led to.
const LONG: usize = 4096;

/// The steps that it takes to put a problem into words.
pub(super) const PUT_INTO_WORDS: usize = 64;

/// Whether a value fits; the check may stop before that is known.
pub(super) type Step = Result<bool, Stop>;

/// A part of the value, and how the check came there.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) value: &'a Value,
    pub(super) path: &'a Path<'a>,
    pub(super) scope: &'a Scope<'a>,
}

/// The resources that references led through, the innermost first.
pub(super) struct Scope<'a> {
    resource: usize,
    outer: Option<&'a Scope<'a>>,
}

/// One check under way.
pub(super) struct Check<'s> {
    pub(super) schema: &'s Schema,
    pub(super) fuel: Fuel,
    /// The problems found, if they are wanted.
    pub(super) told: Option<Vec<Problem>>,
    pub(super) words: Words,
    /// What references led to; none where parts of the value do not stay where they are.
    known: Option<HashMap<(Id, *const Value), bool, RandomState>>,
    depth: usize,
}

impl<'s> Check<'s> {
    pub(super) fn silent(schema: &'s Schema, steps: usize) -> Self {
        // Where references lead hangs on more than the part if any of them is dynamic.
        let known = schema.anchors.is_empty().then(HashMap::default);
        let (fuel, words) = (Fuel::new(steps), Words { quotes: false });
        Check { schema, fuel, told: None, words, known, depth: 0 }
    }

    pub(super) fn telling(schema: &'s Schema, steps: usize, quotes: bool) -> Self {
        let (told, words) = (Some(Vec::new()), Words { quotes });
        Check { told, words, ..Check::silent(schema, steps) }
    }

    pub(super) fn run(&mut self, value: &Value) -> Step {
        let scope = Scope { resource: 0, outer: None };
        self.node(self.schema.root, Part { value, path: &Path::ROOT, scope: &scope }, None)
    }

    /// The problems that were found.
    pub(super) fn told(self) -> Vec<Problem> {
        self.told.unwrap_or_default()
    }

    /// Holds a part of the value against a schema; `marks` are for those who ask what was looked at.
    pub(super) fn node(&mut self, id: Id, part: Part<'_>, marks: Option<&mut Marks>) -> Step {
        let node = &self.schema.nodes[id];
        self.fuel.spend(1)?;
        if node.rules.is_empty() {
            return Ok(true);
        }
        if self.depth == DEPTH {
            return Err(Stop::TooMuch);
        }
        self.depth += 1;
        let entered = Scope { resource: node.resource, outer: Some(part.scope) };
        let is_same = part.scope.resource == node.resource;
        let part = Part { scope: if is_same { part.scope } else { &entered }, ..part };
        let fits = if node.wants_marks {
            self.marked(&node.rules, part, marks)
        } else {
            self.rules(&node.rules, part, marks)
        };
        self.depth -= 1;
        fits
    }

    fn marked(&mut self, rules: &[Rule], part: Part<'_>, outer: Option<&mut Marks>) -> Step {
        let mut marks = Marks::of(part.value);
        self.fuel.spend(marks.len())?;
        let fits = self.rules(rules, part, Some(&mut marks))?;
        if let Some(outer) = outer {
            outer.add(&marks);
        }
        Ok(fits)
    }

    fn rules(&mut self, rules: &[Rule], part: Part<'_>, mut marks: Option<&mut Marks>) -> Step {
        let mut fits = true;
        for rule in rules {
            fits &= match rule {
                // What the failed rules would have looked at is not known.
                Rule::UnevaluatedItems(_) | Rule::UnevaluatedProperties(_) if !fits => false,
                rule => self.rule(rule, part, marks.as_deref_mut())?,
            };
            if !fits && self.told.is_none() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn rule(&mut self, rule: &Rule, part: Part<'_>, marks: Option<&mut Marks>) -> Step {
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
                let fits = !self.silently(|check| check.node(*id, part, None))?;
                if fits { Ok(true) } else { self.refuse_by(rule, part) }
            }
            Rule::If { condition, then, otherwise } => {
                self.conditional([*condition, *then, *otherwise], part, marks)
            }
            Rule::Reference(id) => self.referred(*id, part, marks),
            Rule::DynamicReference(id, anchor) => {
                let outermost = self.outermost(part.scope, anchor)?;
                self.node(outermost.unwrap_or(*id), part, marks)
            }
            leaf => match assertions::holds(leaf, part.value, &mut self.fuel)? {
                true => Ok(true),
                false => self.refuse_by(leaf, part),
            },
        }
    }

    /// The schema with this anchor that the check came through first.
    fn outermost(&mut self, scope: &Scope<'_>, anchor: &str) -> Result<Option<Id>, Stop> {
        let (mut found, mut at) = (None, Some(scope));
        while let Some(scope) = at {
            let named = self.schema.anchors.get(scope.resource);
            self.fuel.spend(1)?;
            for _ in named.into_iter().flatten() {
                self.fuel.spend_on_lookup(anchor)?;
            }
            let here = named.and_then(|all| all.iter().find(|(name, _)| **name == *anchor));
            found = here.map(|(_, id)| *id).or(found);
            at = scope.outer;
        }
        Ok(found)
    }

    /// Follows a reference. A part that references lead to again and again is judged once.
    fn referred(&mut self, id: Id, part: Part<'_>, marks: Option<&mut Marks>) -> Step {
        let is_worth_it = self.fuel.spent() > LONG && self.told.is_none() && marks.is_none();
        if !is_worth_it {
            return self.node(id, part, marks);
        }
        let key = (id, std::ptr::from_ref(part.value));
        if let Some(fits) = self.known.as_ref().and_then(|known| known.get(&key)) {
            return Ok(*fits);
        }
        let fits = self.node(id, part, None)?;
        if let Some(known) = &mut self.known {
            self.fuel.spend(REMEMBERING)?;
            known.insert(key, fits);
        }
        Ok(fits)
    }

    /// Looks without telling what is found.
    pub(super) fn silently(&mut self, look: impl FnOnce(&mut Self) -> Step) -> Step {
        let told = self.told.take();
        let fits = look(self);
        self.told = told;
        fits
    }

    /// Looks at what is no part of the value: its address may be another's later.
    pub(super) fn aside(&mut self, look: impl FnOnce(&mut Self) -> Step) -> Step {
        let known = self.known.take();
        let fits = look(self);
        self.known = known;
        fits
    }

    fn refuse_by(&mut self, rule: &Rule, part: Part<'_>) -> Step {
        let kind = match rule {
            Rule::Type(_) => Kind::Type,
            Rule::Const(_) => Kind::Constant,
            _ => Kind::Other,
        };
        let words = self.words;
        self.refuse(kind, part, || words.of(rule, part.value))
    }

    /// Notes a problem, if problems are wanted.
    pub(super) fn refuse(
        &mut self,
        kind: Kind,
        part: Part<'_>,
        text: impl FnOnce() -> String,
    ) -> Step {
        let Some(told) = &mut self.told else { return Ok(false) };
        self.fuel.spend(PUT_INTO_WORDS)?;
        let problem = Problem { kind, path: part.path.dotted(), text: text() };
        self.fuel.spend_on_text(&problem.path)?;
        note(told, problem)
    }
}

/// Schemas that repeat themselves find the same problem again and again; it is told once.
pub(super) fn note(told: &mut Vec<Problem>, problem: Problem) -> Step {
    if !told.contains(&problem) {
        told.push(problem);
    }
    if told.len() < TOLD { Ok(false) } else { Err(Stop::Enough) }
}

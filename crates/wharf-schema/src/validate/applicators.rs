//! Applicator keywords for array items and object properties.

use serde_json::{Map, Value};

use crate::problem_report::ProblemKind;
use crate::validate::{
    compiled::{Contains, NEVER, NameList, NamedList, Properties, SchemaId},
    evaluate::{StepResult, ValueCheck, ValuePart},
    evaluated_marks::EvaluatedMarks,
    rule_messages::MessageStyle,
    step_budget::StopReason,
};

/// Properties of a schema that were found in a value.
#[derive(Default)]
struct FoundProperties {
    required: usize,
    /// Where the next one probably is.
    next: usize,
}

/// Result of applying the property schemas to one property.
enum PropertyOutcome {
    /// No schema applies to it.
    NotCovered,
    /// No schema applies to it, and additional properties are not allowed.
    Unexpected,
    Fits(bool),
}

impl<const REPORTS: bool> ValueCheck<'_, REPORTS> {
    #[inline(never)]
    pub(super) fn properties(
        &mut self,
        all: &Properties,
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let Value::Object(map) = part.value else { return Ok(true) };
        if !REPORTS && marks.is_none() && all.patterns.is_empty() {
            return self.plain_properties(all, map, part);
        }
        let (mut fits, mut unexpected) = (true, Vec::new());
        let mut found = FoundProperties::default();
        for (at, (name, value)) in map.iter().enumerate() {
            self.budget.spend_on_lookup(name)?;
            let path = part.path.key(name);
            match self.property(all, name, ValuePart { value, path: &path, ..part }, &mut found)? {
                PropertyOutcome::NotCovered => continue,
                PropertyOutcome::Unexpected if self.reports() => unexpected.push(name.as_str()),
                PropertyOutcome::Unexpected => return Ok(false),
                PropertyOutcome::Fits(here) => fits &= here,
            }
            if let Some(marks) = marks.as_deref_mut() {
                marks.set(at);
            }
            if !fits && !self.reports() {
                return Ok(false);
            }
        }
        // Where problems are collected, `required` reports the missing ones.
        if !REPORTS {
            return Ok(fits && found.required == all.named.required);
        }
        self.unexpected("Additional properties", &unexpected, part).map(|none| none && fits)
    }

    /// The usual case: no patterns, no problems to collect, no marks.
    #[inline(always)]
    fn plain_properties(
        &mut self,
        all: &Properties,
        map: &Map<String, Value>,
        part: ValuePart<'_>,
    ) -> StepResult {
        let mut found = FoundProperties::default();
        self.budget.spend(map.len())?;
        for (name, value) in map {
            self.budget.spend_on_text(name)?;
            let schema = match (all.named.get(name, &mut found.next), all.rest) {
                (Some(property), _) => {
                    found.required += usize::from(property.is_required);
                    property.schema
                }
                (None, None) => continue,
                (None, Some(NEVER)) => return Ok(false),
                (None, Some(rest)) => rest,
            };
            if !self.node(schema, ValuePart { value, ..part }, None)? {
                return Ok(false);
            }
        }
        Ok(found.required == all.named.required)
    }

    fn property(
        &mut self,
        all: &Properties,
        name: &str,
        part: ValuePart<'_>,
        found: &mut FoundProperties,
    ) -> Result<PropertyOutcome, StopReason> {
        let mut known = PropertyOutcome::NotCovered;
        if let Some(property) = all.named.get(name, &mut found.next) {
            found.required += usize::from(property.is_required);
            known = PropertyOutcome::Fits(self.node(property.schema, part, None)?);
        }
        for (pattern, id) in &all.patterns {
            if pattern.is_in(name, &mut self.budget)? {
                let before = !matches!(known, PropertyOutcome::Fits(false));
                known = PropertyOutcome::Fits(self.node(*id, part, None)? && before);
            }
        }
        match (known, all.rest) {
            (PropertyOutcome::NotCovered, Some(NEVER)) => Ok(PropertyOutcome::Unexpected),
            (PropertyOutcome::NotCovered, Some(rest)) => {
                self.node(rest, part, None).map(PropertyOutcome::Fits)
            }
            (known, _) => Ok(known),
        }
    }

    #[inline(never)]
    pub(super) fn required(&mut self, names: &[Box<str>], part: ValuePart<'_>) -> StepResult {
        let Value::Object(map) = part.value else { return Ok(true) };
        let mut fits = true;
        for name in names {
            self.budget.spend_on_lookup(name)?;
            if map.contains_key(&**name) {
                continue;
            }
            fits = self.report(ProblemKind::Other, part, || MessageStyle::missing(name))?;
            if !self.reports() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    #[inline(never)]
    pub(super) fn dependent_required(
        &mut self,
        all: &NamedList<NameList>,
        part: ValuePart<'_>,
    ) -> StepResult {
        let Value::Object(map) = part.value else { return Ok(true) };
        let mut fits = true;
        for (name, names) in all {
            self.budget.spend_on_lookup(name)?;
            if map.contains_key(&**name) {
                fits &= self.required(names, part)?;
            }
        }
        Ok(fits)
    }

    /// Property names are reported even if values may not be quoted.
    fn unexpected(&mut self, what: &str, names: &[&str], part: ValuePart<'_>) -> StepResult {
        if names.is_empty() {
            return Ok(true);
        }
        let messages = self.messages;
        self.report(ProblemKind::Other, part, || messages.unexpected_names(what, names))
    }

    #[inline(never)]
    pub(super) fn property_names(&mut self, id: SchemaId, part: ValuePart<'_>) -> StepResult {
        let Value::Object(map) = part.value else { return Ok(true) };
        let mut fits = true;
        for name in map.keys() {
            self.budget.spend_on_text(name)?;
            let value = Value::from(name.as_str());
            let named = ValuePart { value: &value, ..part };
            fits &= self.without_memo(|check| check.node(id, named, None))?;
            if !fits && !self.reports() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    #[inline(never)]
    pub(super) fn dependent_schemas(
        &mut self,
        all: &NamedList<SchemaId>,
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let Value::Object(map) = part.value else { return Ok(true) };
        let mut fits = true;
        for (name, id) in all {
            self.budget.spend_on_lookup(name)?;
            if map.contains_key(&**name) {
                fits &= self.node(*id, part, marks.as_deref_mut())?;
            }
        }
        Ok(fits)
    }

    #[inline(never)]
    pub(super) fn unevaluated_properties(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let (Value::Object(map), Some(marks)) = (part.value, marks) else { return Ok(true) };
        let mut unexpected = Vec::new();
        for (at, (name, value)) in map.iter().enumerate() {
            self.budget.spend(1)?;
            if marks.is_set(at) {
                continue;
            }
            marks.set(at);
            let path = part.path.key(name);
            let child = ValuePart { value, path: &path, ..part };
            if !self.without_problems(|check| check.node(id, child, None))? {
                if !self.reports() {
                    return Ok(false);
                }
                unexpected.push(name.as_str());
            }
        }
        self.unexpected("Unevaluated properties", &unexpected, part)
    }

    #[inline(never)]
    pub(super) fn items(
        &mut self,
        prefix: &[SchemaId],
        rest: Option<SchemaId>,
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let Value::Array(items) = part.value else { return Ok(true) };
        if rest == Some(NEVER) && items.len() > prefix.len() && !self.reports() {
            return Ok(false);
        }
        let more = rest.filter(|rest| *rest != NEVER);
        if !REPORTS && marks.is_none() && prefix.is_empty() {
            let Some(id) = more else { return Ok(true) };
            for value in items {
                if !self.node(id, ValuePart { value, ..part }, None)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut fits = true;
        for (at, value) in items.iter().enumerate() {
            let Some(id) = prefix.get(at).copied().or(more) else { break };
            let path = part.path.index(at);
            fits &= self.node(id, ValuePart { value, path: &path, ..part }, None)?;
            if let Some(marks) = marks.as_deref_mut() {
                marks.set(at);
            }
            if !fits && !self.reports() {
                return Ok(false);
            }
        }
        if rest == Some(NEVER) && items.len() > prefix.len() {
            let (messages, more) = (self.messages, &items[prefix.len()..]);
            self.budget.spend_on_list(more.len())?;
            let all: Vec<&Value> = more.iter().collect();
            return self.report(ProblemKind::Other, part, || {
                messages.unexpected_items("Additional", &all)
            });
        }
        Ok(fits)
    }

    #[inline(never)]
    pub(super) fn contains(
        &mut self,
        contains: &Contains,
        part: ValuePart<'_>,
        mut marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let Value::Array(items) = part.value else { return Ok(true) };
        let mut found = 0;
        for (at, value) in items.iter().enumerate() {
            let path = part.path.index(at);
            let child = ValuePart { value, path: &path, ..part };
            if self.without_problems(|check| check.node(contains.schema, child, None))? {
                found += 1;
                if let Some(marks) = marks.as_deref_mut().filter(|_| contains.marks) {
                    marks.set(at);
                }
            }
        }
        if (contains.least..=contains.most).contains(&found) {
            return Ok(true);
        }
        let messages = self.messages;
        self.report(ProblemKind::Other, part, || messages.contained(contains, found, part.value))
    }

    #[inline(never)]
    pub(super) fn unevaluated_items(
        &mut self,
        id: SchemaId,
        part: ValuePart<'_>,
        marks: Option<&mut EvaluatedMarks>,
    ) -> StepResult {
        let (Value::Array(items), Some(marks)) = (part.value, marks) else { return Ok(true) };
        let mut unexpected = Vec::new();
        for (at, value) in items.iter().enumerate() {
            self.budget.spend(1)?;
            if marks.is_set(at) {
                continue;
            }
            marks.set(at);
            let path = part.path.index(at);
            let child = ValuePart { value, path: &path, ..part };
            if !self.without_problems(|check| check.node(id, child, None))? {
                if !self.reports() {
                    return Ok(false);
                }
                unexpected.push(value);
            }
        }
        if unexpected.is_empty() {
            return Ok(true);
        }
        let messages = self.messages;
        self.report(ProblemKind::Other, part, || {
            messages.unexpected_items("Unevaluated", &unexpected)
        })
    }
}

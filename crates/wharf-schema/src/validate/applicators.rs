//! Rules about the items of a list and the properties of an object.

use serde_json::Value;

use crate::problems::Kind;
use crate::validate::{
    compiled::{Contains, Id, NEVER, Named, Names, Properties},
    evaluate::{Check, Part, Step},
    evaluated::Marks,
    messages::Words,
    step_budget::Stop,
};

/// What the schemas for properties say about one of them.
enum Known {
    /// None is for it.
    Not,
    /// There must be none that others are not for.
    Unwanted,
    Fits(bool),
}

impl Check<'_> {
    pub(super) fn properties(
        &mut self,
        all: &Properties,
        part: Part<'_>,
        mut marks: Option<&mut Marks>,
    ) -> Step {
        let Value::Object(map) = part.value else { return Ok(true) };
        let (mut fits, mut unexpected) = (true, Vec::new());
        for (at, (name, value)) in map.iter().enumerate() {
            self.fuel.spend_on_lookup(name)?;
            let path = part.path.key(name);
            match self.property(all, name, Part { value, path: &path, ..part })? {
                Known::Not => continue,
                Known::Unwanted if self.told.is_some() => unexpected.push(name.as_str()),
                Known::Unwanted => return Ok(false),
                Known::Fits(here) => fits &= here,
            }
            if let Some(marks) = marks.as_deref_mut() {
                marks.set(at);
            }
            if !fits && self.told.is_none() {
                return Ok(false);
            }
        }
        self.unexpected("Additional properties", &unexpected, part).map(|none| none && fits)
    }

    fn property(&mut self, all: &Properties, name: &str, part: Part<'_>) -> Result<Known, Stop> {
        let mut known = Known::Not;
        if let Some(id) = all.named(name) {
            known = Known::Fits(self.node(id, part, None)?);
        }
        for (pattern, id) in &all.patterns {
            if pattern.is_in(name, &mut self.fuel)? {
                let before = !matches!(known, Known::Fits(false));
                known = Known::Fits(self.node(*id, part, None)? && before);
            }
        }
        match (known, all.rest) {
            (Known::Not, Some(NEVER)) => Ok(Known::Unwanted),
            (Known::Not, Some(rest)) => self.node(rest, part, None).map(Known::Fits),
            (known, _) => Ok(known),
        }
    }

    pub(super) fn required(&mut self, names: &[Box<str>], part: Part<'_>) -> Step {
        let Value::Object(map) = part.value else { return Ok(true) };
        let mut fits = true;
        for name in names {
            self.fuel.spend_on_lookup(name)?;
            if map.contains_key(&**name) {
                continue;
            }
            fits = self.refuse(Kind::Other, part, || Words::missing(name))?;
            if self.told.is_none() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    pub(super) fn dependent_required(&mut self, all: &Named<Names>, part: Part<'_>) -> Step {
        let Value::Object(map) = part.value else { return Ok(true) };
        let mut fits = true;
        for (name, names) in all {
            self.fuel.spend_on_lookup(name)?;
            if map.contains_key(&**name) {
                fits &= self.required(names, part)?;
            }
        }
        Ok(fits)
    }

    /// Names are told even where values are not.
    fn unexpected(&mut self, what: &str, names: &[&str], part: Part<'_>) -> Step {
        if names.is_empty() {
            return Ok(true);
        }
        let words = self.words;
        self.refuse(Kind::Other, part, || words.unexpected_names(what, names))
    }

    pub(super) fn property_names(&mut self, id: Id, part: Part<'_>) -> Step {
        let Value::Object(map) = part.value else { return Ok(true) };
        let mut fits = true;
        for name in map.keys() {
            self.fuel.spend_on_text(name)?;
            let value = Value::from(name.as_str());
            let named = Part { value: &value, ..part };
            fits &= self.aside(|check| check.node(id, named, None))?;
            if !fits && self.told.is_none() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    pub(super) fn dependent_schemas(
        &mut self,
        all: &Named<Id>,
        part: Part<'_>,
        mut marks: Option<&mut Marks>,
    ) -> Step {
        let Value::Object(map) = part.value else { return Ok(true) };
        let mut fits = true;
        for (name, id) in all {
            self.fuel.spend_on_lookup(name)?;
            if map.contains_key(&**name) {
                fits &= self.node(*id, part, marks.as_deref_mut())?;
            }
        }
        Ok(fits)
    }

    pub(super) fn unevaluated_properties(
        &mut self,
        id: Id,
        part: Part<'_>,
        marks: Option<&mut Marks>,
    ) -> Step {
        let (Value::Object(map), Some(marks)) = (part.value, marks) else { return Ok(true) };
        let mut unexpected = Vec::new();
        for (at, (name, value)) in map.iter().enumerate() {
            self.fuel.spend(1)?;
            if marks.is_set(at) {
                continue;
            }
            marks.set(at);
            let path = part.path.key(name);
            let child = Part { value, path: &path, ..part };
            if !self.silently(|check| check.node(id, child, None))? {
                if self.told.is_none() {
                    return Ok(false);
                }
                unexpected.push(name.as_str());
            }
        }
        self.unexpected("Unevaluated properties", &unexpected, part)
    }

    pub(super) fn items(
        &mut self,
        prefix: &[Id],
        rest: Option<Id>,
        part: Part<'_>,
        mut marks: Option<&mut Marks>,
    ) -> Step {
        let Value::Array(items) = part.value else { return Ok(true) };
        if rest == Some(NEVER) && items.len() > prefix.len() && self.told.is_none() {
            return Ok(false);
        }
        let mut fits = true;
        let more = rest.filter(|rest| *rest != NEVER);
        for (at, value) in items.iter().enumerate() {
            let Some(id) = prefix.get(at).copied().or(more) else { break };
            let path = part.path.index(at);
            fits &= self.node(id, Part { value, path: &path, ..part }, None)?;
            if let Some(marks) = marks.as_deref_mut() {
                marks.set(at);
            }
            if !fits && self.told.is_none() {
                return Ok(false);
            }
        }
        if rest == Some(NEVER) && items.len() > prefix.len() {
            let (words, more) = (self.words, &items[prefix.len()..]);
            self.fuel.spend_on_list(more.len())?;
            let all: Vec<&Value> = more.iter().collect();
            return self.refuse(Kind::Other, part, || words.unexpected_items("Additional", &all));
        }
        Ok(fits)
    }

    pub(super) fn contains(
        &mut self,
        contains: &Contains,
        part: Part<'_>,
        mut marks: Option<&mut Marks>,
    ) -> Step {
        let Value::Array(items) = part.value else { return Ok(true) };
        let mut found = 0;
        for (at, value) in items.iter().enumerate() {
            let path = part.path.index(at);
            let child = Part { value, path: &path, ..part };
            if self.silently(|check| check.node(contains.schema, child, None))? {
                found += 1;
                if let Some(marks) = marks.as_deref_mut().filter(|_| contains.marks) {
                    marks.set(at);
                }
            }
        }
        if (contains.least..=contains.most).contains(&found) {
            return Ok(true);
        }
        let words = self.words;
        self.refuse(Kind::Other, part, || words.contained(contains, found, part.value))
    }

    pub(super) fn unevaluated_items(
        &mut self,
        id: Id,
        part: Part<'_>,
        marks: Option<&mut Marks>,
    ) -> Step {
        let (Value::Array(items), Some(marks)) = (part.value, marks) else { return Ok(true) };
        let mut unexpected = Vec::new();
        for (at, value) in items.iter().enumerate() {
            self.fuel.spend(1)?;
            if marks.is_set(at) {
                continue;
            }
            marks.set(at);
            let path = part.path.index(at);
            let child = Part { value, path: &path, ..part };
            if !self.silently(|check| check.node(id, child, None))? {
                if self.told.is_none() {
                    return Ok(false);
                }
                unexpected.push(value);
            }
        }
        if unexpected.is_empty() {
            return Ok(true);
        }
        let words = self.words;
        self.refuse(Kind::Other, part, || words.unexpected_items("Unevaluated", &unexpected))
    }
}

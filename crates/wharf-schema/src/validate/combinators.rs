//! Rules that hold one value against several schemas.

use crate::problems::{Kind, Problem};
use crate::validate::{
    compiled::Id,
    evaluate::{Check, PUT_INTO_WORDS, Part, Step, note},
    evaluated::Marks,
    step_budget::Stop,
};

impl Check<'_> {
    pub(super) fn all_of(
        &mut self,
        ids: &[Id],
        part: Part<'_>,
        mut marks: Option<&mut Marks>,
    ) -> Step {
        let mut fits = true;
        for id in ids {
            fits &= self.node(*id, part, marks.as_deref_mut())?;
            if !fits && self.told.is_none() {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    /// Looks whether a schema fits that need not; only then it counts what it looked at.
    fn tried(&mut self, id: Id, part: Part<'_>, marks: Option<&mut Marks>) -> Step {
        let Some(marks) = marks else { return self.silently(|check| check.node(id, part, None)) };
        let mut fresh = marks.fresh();
        self.fuel.spend(fresh.len())?;
        let fits = self.silently(|check| check.node(id, part, Some(&mut fresh)))?;
        if fits {
            marks.add(&fresh);
        }
        Ok(fits)
    }

    pub(super) fn any_of(
        &mut self,
        ids: &[Id],
        part: Part<'_>,
        mut marks: Option<&mut Marks>,
    ) -> Step {
        let mut fits = false;
        for id in ids {
            fits |= self.tried(*id, part, marks.as_deref_mut())?;
            if fits && marks.is_none() {
                return Ok(true);
            }
        }
        if fits { Ok(true) } else { self.none_of(ids, "anyOf", part) }
    }

    pub(super) fn one_of(
        &mut self,
        ids: &[Id],
        part: Part<'_>,
        mut marks: Option<&mut Marks>,
    ) -> Step {
        let mut fitting = 0;
        for id in ids {
            fitting += usize::from(self.tried(*id, part, marks.as_deref_mut())?);
            if fitting > 1 {
                let words = self.words;
                return self.refuse(Kind::Other, part, || words.several(part.value));
            }
        }
        if fitting == 1 { Ok(true) } else { self.none_of(ids, "oneOf", part) }
    }

    pub(super) fn conditional(
        &mut self,
        [condition, then, otherwise]: [Id; 3],
        part: Part<'_>,
        mut marks: Option<&mut Marks>,
    ) -> Step {
        let is_so = self.tried(condition, part, marks.as_deref_mut())?;
        self.node(if is_so { then } else { otherwise }, part, marks)
    }

    /// Tells what is wrong by the one schema of several that was meant, if that can be told: by
    /// the type of the value, such as an object where it may also be null, or by its tag.
    fn none_of(&mut self, ids: &[Id], keyword: &str, part: Part<'_>) -> Step {
        if self.told.is_none() {
            return Ok(false);
        }
        self.fuel.spend(PUT_INTO_WORDS)?;
        let path = part.path.dotted();
        self.fuel.spend_on_text(&path)?;
        let is_other = |it: &Problem| match it.kind {
            Kind::Type => it.path == path,
            Kind::Constant => true,
            Kind::Other => false,
        };
        let mut meant: Option<Vec<Problem>> = None;
        let mut several = false;
        for id in ids {
            let problems = self.problems_by(*id, part)?;
            if !problems.iter().any(is_other) {
                several |= meant.is_some();
                meant = Some(problems);
            }
        }
        match (meant, &mut self.told) {
            (Some(meant), Some(told)) if !several && !meant.is_empty() => {
                meant.into_iter().try_fold(false, |_, problem| note(told, problem))
            }
            _ => {
                let words = self.words;
                self.refuse(Kind::Other, part, || words.none(keyword, part.value))
            }
        }
    }

    /// The problems of a part by one schema alone.
    fn problems_by(&mut self, id: Id, part: Part<'_>) -> Result<Vec<Problem>, Stop> {
        let outer = self.told.replace(Vec::new());
        let outcome = self.node(id, part, None);
        let problems = std::mem::replace(&mut self.told, outer).unwrap_or_default();
        if outcome == Err(Stop::TooMuch) { Err(Stop::TooMuch) } else { Ok(problems) }
    }
}

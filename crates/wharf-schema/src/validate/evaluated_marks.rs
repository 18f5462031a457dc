//! Marks of evaluated items and properties, for the `unevaluated…` keywords.

use serde_json::Value;

/// One mark per item or property of a value.
#[derive(Debug)]
pub(super) struct EvaluatedMarks(Vec<bool>);

impl EvaluatedMarks {
    pub(super) fn of(value: &Value) -> Self {
        let parts = match value {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        EvaluatedMarks(vec![false; parts])
    }

    /// Empty marks for the same value.
    pub(super) fn fresh(&self) -> Self {
        EvaluatedMarks(vec![false; self.0.len()])
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn set(&mut self, at: usize) {
        if let Some(mark) = self.0.get_mut(at) {
            *mark = true;
        }
    }

    pub(super) fn is_set(&self, at: usize) -> bool {
        self.0.get(at).is_none_or(|mark| *mark)
    }

    pub(super) fn add(&mut self, others: &EvaluatedMarks) {
        for (mark, other) in self.0.iter_mut().zip(&others.0) {
            *mark |= other;
        }
    }
}

//! JSON equality: `1` equals `1.0`, and the order of keys is ignored.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::RandomState;
use serde_json::Value;

use super::number;
use crate::validate::step_budget::{StepBudget, StopReason};

/// Up to this many items, all pairs are compared.
const PAIRWISE_LIMIT: usize = 8;

/// True if two values are equal.
pub(super) fn equal(
    one: &Value,
    other: &Value,
    budget: &mut StepBudget,
) -> Result<bool, StopReason> {
    budget.spend(1)?;
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            Ok(number::identity(one) == number::identity(other))
        }
        (Value::String(one), Value::String(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            budget.spend_on_text(one)?;
            Ok(one == other)
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other);
            all(pairs, |(one, other)| equal(one, other, budget))
        }
        (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
            all(one.iter(), |(key, one)| {
                budget.spend_on_lookup(key)?;
                match other.get(key) {
                    Some(other) => equal(one, other, budget),
                    None => Ok(false),
                }
            })
        }
        (Value::Array(_), _) | (Value::Object(_), _) => Ok(false),
        (one, other) => Ok(one == other),
    }
}

/// True if the predicate holds for all items.
fn all<T>(
    items: impl Iterator<Item = T>,
    mut is_so: impl FnMut(T) -> Result<bool, StopReason>,
) -> Result<bool, StopReason> {
    for item in items {
        if !is_so(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if no two items are equal.
pub(super) fn are_unique(items: &[Value], budget: &mut StepBudget) -> Result<bool, StopReason> {
    if items.len() > PAIRWISE_LIMIT {
        return are_many_unique(items, budget);
    }
    for (at, one) in items.iter().enumerate() {
        for other in &items[at + 1..] {
            if equal(one, other, budget)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn are_many_unique(items: &[Value], budget: &mut StepBudget) -> Result<bool, StopReason> {
    let state = RandomState::default();
    let mut digests = Vec::with_capacity(items.len());
    for item in items {
        digests.push((digest(item, &state, budget)?, item));
    }
    digests.sort_unstable_by_key(|(digest, _)| *digest);
    for (at, (digest, one)) in digests.iter().enumerate() {
        for (_, other) in digests[at + 1..].iter().take_while(|(next, _)| next == digest) {
            if equal(one, other, budget)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Hash that is the same for equal values.
fn digest(value: &Value, state: &RandomState, budget: &mut StepBudget) -> Result<u64, StopReason> {
    budget.spend(1)?;
    let mut hasher = state.build_hasher();
    match value {
        Value::Null => 0_u8.hash(&mut hasher),
        Value::Bool(it) => (1_u8, it).hash(&mut hasher),
        Value::Number(it) => (2_u8, number::identity(it)).hash(&mut hasher),
        Value::String(text) => {
            budget.spend_on_text(text)?;
            (3_u8, text).hash(&mut hasher);
        }
        Value::Array(items) => {
            4_u8.hash(&mut hasher);
            for item in items {
                digest(item, state, budget)?.hash(&mut hasher);
            }
        }
        Value::Object(map) => {
            // Addition is independent of the order of keys.
            let mut sum = 0_u64;
            for (key, value) in map {
                budget.spend_on_text(key)?;
                sum = sum.wrapping_add(state.hash_one((key, digest(value, state, budget)?)));
            }
            (5_u8, sum).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

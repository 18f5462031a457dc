//! Assertion keywords without subschemas: type, enum, bounds, pattern, format.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::validate::{
    compiled::{BoundKeyword, CountKeyword, Rule},
    equal::{are_unique, equal},
    evaluate::StepResult,
    number,
    step_budget::StepBudget,
};

/// True if the value satisfies a rule without subschemas, or if the rule concerns another type.
#[inline(always)]
pub(super) fn holds(rule: &Rule, value: &Value, budget: &mut StepBudget) -> StepResult {
    match (rule, value) {
        (Rule::Never, _) => Ok(false),
        (Rule::Const(wanted), _) => equal(wanted, value, budget),
        (Rule::Enum(choices), _) => is_one_of(choices, value, budget),
        (Rule::Bound(bound, limit), Value::Number(number)) => Ok(is_within(*bound, limit, number)),
        (Rule::MultipleOf(step), Value::Number(number)) => Ok(number::is_multiple(number, step)),
        (Rule::Count(count, limit), _) => is_right_count(*count, *limit, value, budget),
        (Rule::Pattern(pattern), Value::String(text)) => pattern.is_in(text, budget),
        (Rule::Format(format), Value::String(text)) => format.is_in(text, budget),
        (Rule::Content(content), Value::String(text)) => content.is_in(text, budget),
        (Rule::UniqueItems, Value::Array(items)) => are_unique(items, budget),
        _ => Ok(true),
    }
}

#[inline(never)]
fn is_one_of(choices: &[Value], value: &Value, budget: &mut StepBudget) -> StepResult {
    if let Value::String(text) = value {
        budget.spend(choices.len())?;
        for choice in choices.iter().filter_map(Value::as_str) {
            if choice.len() == text.len() {
                budget.spend_on_text(text)?;
                if choice == text {
                    return Ok(true);
                }
            }
        }
        return Ok(false);
    }
    for choice in choices {
        if equal(choice, value, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[inline(never)]
fn is_within(bound: BoundKeyword, limit: &Number, number: &Number) -> bool {
    let order = number::compare(number, limit);
    match bound {
        BoundKeyword::Minimum => order != Ordering::Less,
        BoundKeyword::Maximum => order != Ordering::Greater,
        BoundKeyword::ExclusiveMinimum => order == Ordering::Greater,
        BoundKeyword::ExclusiveMaximum => order == Ordering::Less,
    }
}

#[inline(never)]
fn is_right_count(
    count: CountKeyword,
    limit: usize,
    value: &Value,
    budget: &mut StepBudget,
) -> StepResult {
    let found = match (count, value) {
        (CountKeyword::MinLength | CountKeyword::MaxLength, Value::String(text)) => {
            budget.spend_on_text(text)?;
            // A character has at most four bytes.
            match count {
                CountKeyword::MaxLength if text.len() <= limit => return Ok(true),
                CountKeyword::MinLength if text.len() / 4 >= limit => return Ok(true),
                _ => text.chars().count(),
            }
        }
        (CountKeyword::MinItems | CountKeyword::MaxItems, Value::Array(items)) => items.len(),
        (CountKeyword::MinProperties | CountKeyword::MaxProperties, Value::Object(map)) => {
            map.len()
        }
        _ => return Ok(true),
    };
    Ok(match count {
        CountKeyword::MinLength | CountKeyword::MinItems | CountKeyword::MinProperties => {
            found >= limit
        }
        CountKeyword::MaxLength | CountKeyword::MaxItems | CountKeyword::MaxProperties => {
            found <= limit
        }
    })
}

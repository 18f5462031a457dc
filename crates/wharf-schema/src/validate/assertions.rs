//! Assertion keywords without subschemas: type, enum, bounds, pattern, format.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::validate::{
    compiled::{BoundKeyword, CountKeyword, Rule, TypeSet},
    equal::{are_unique, equal},
    evaluate::StepResult,
    number,
    step_budget::StepBudget,
};

/// True if the value satisfies a rule without subschemas, or if the rule concerns another type.
pub(super) fn holds(rule: &Rule, value: &Value, budget: &mut StepBudget) -> StepResult {
    match (rule, value) {
        (Rule::Never, _) => Ok(false),
        (Rule::Type(types), _) => Ok(types.meet(TypeSet::of(value))),
        (Rule::Const(wanted), _) => equal(wanted, value, budget),
        (Rule::Enum(choices), _) => is_one_of(choices, value, budget),
        (Rule::Bound(bound, limit), Value::Number(number)) => Ok(is_within(*bound, limit, number)),
        (Rule::MultipleOf(step), Value::Number(number)) => Ok(number::is_multiple(number, step)),
        (Rule::Count(count, limit), _) => is_right_count(*count, *limit, value, budget),
        (Rule::Pattern(pattern), Value::String(text)) => pattern.is_in(text, budget),
        (Rule::Format(format), Value::String(text)) => {
            budget.spend(format.cost(text))?;
            Ok((format.is_met)(text))
        }
        (Rule::Content(content), Value::String(text)) => {
            budget.spend(text.len())?;
            Ok(content.is_met(text))
        }
        (Rule::UniqueItems, Value::Array(items)) => are_unique(items, budget),
        _ => Ok(true),
    }
}

fn is_one_of(choices: &[Value], value: &Value, budget: &mut StepBudget) -> StepResult {
    for choice in choices {
        if equal(choice, value, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_within(bound: BoundKeyword, limit: &Number, number: &Number) -> bool {
    let order = number::compare(number, limit);
    match bound {
        BoundKeyword::Minimum => order != Ordering::Less,
        BoundKeyword::Maximum => order != Ordering::Greater,
        BoundKeyword::ExclusiveMinimum => order == Ordering::Greater,
        BoundKeyword::ExclusiveMaximum => order == Ordering::Less,
    }
}

fn is_right_count(
    count: CountKeyword,
    limit: usize,
    value: &Value,
    budget: &mut StepBudget,
) -> StepResult {
    let found = match (count, value) {
        (CountKeyword::MinLength | CountKeyword::MaxLength, Value::String(text)) => {
            budget.spend_on_text(text)?;
            text.chars().count()
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

//! Rules that a value meets by itself.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::validate::{
    compiled::{Bound, Count, Rule, Types},
    equal::{are_unique, equal},
    evaluate::Step,
    number,
    step_budget::Fuel,
};

/// Whether a rule without schemas in it holds; it does where it is about another type.
pub(super) fn holds(rule: &Rule, value: &Value, fuel: &mut Fuel) -> Step {
    match (rule, value) {
        (Rule::Never, _) => Ok(false),
        (Rule::Type(types), _) => Ok(types.meet(Types::of(value))),
        (Rule::Const(wanted), _) => equal(wanted, value, fuel),
        (Rule::Enum(choices), _) => is_one_of(choices, value, fuel),
        (Rule::Bound(bound, limit), Value::Number(number)) => Ok(is_within(*bound, limit, number)),
        (Rule::MultipleOf(step), Value::Number(number)) => Ok(number::is_multiple(number, step)),
        (Rule::Count(count, limit), _) => is_right_count(*count, *limit, value, fuel),
        (Rule::Pattern(pattern), Value::String(text)) => pattern.is_in(text, fuel),
        (Rule::Format(format), Value::String(text)) => {
            fuel.spend(format.cost(text))?;
            Ok((format.is_met)(text))
        }
        (Rule::Content(content), Value::String(text)) => {
            fuel.spend(text.len())?;
            Ok(content.is_met(text))
        }
        (Rule::UniqueItems, Value::Array(items)) => are_unique(items, fuel),
        _ => Ok(true),
    }
}

fn is_one_of(choices: &[Value], value: &Value, fuel: &mut Fuel) -> Step {
    for choice in choices {
        if equal(choice, value, fuel)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_within(bound: Bound, limit: &Number, number: &Number) -> bool {
    let order = number::compare(number, limit);
    match bound {
        Bound::Minimum => order != Ordering::Less,
        Bound::Maximum => order != Ordering::Greater,
        Bound::ExclusiveMinimum => order == Ordering::Greater,
        Bound::ExclusiveMaximum => order == Ordering::Less,
    }
}

fn is_right_count(count: Count, limit: usize, value: &Value, fuel: &mut Fuel) -> Step {
    let found = match (count, value) {
        (Count::MinLength | Count::MaxLength, Value::String(text)) => {
            fuel.spend_on_text(text)?;
            text.chars().count()
        }
        (Count::MinItems | Count::MaxItems, Value::Array(items)) => items.len(),
        (Count::MinProperties | Count::MaxProperties, Value::Object(map)) => map.len(),
        _ => return Ok(true),
    };
    Ok(match count {
        Count::MinLength | Count::MinItems | Count::MinProperties => found >= limit,
        Count::MaxLength | Count::MaxItems | Count::MaxProperties => found <= limit,
    })
}

//! JSON Schema keywords and the functions that compile them.

use std::ops::RangeInclusive;

use serde_json::{Number, Value};

use super::{
    compile::SchemaReader,
    content::Content,
    dialect::{
        Draft,
        Draft::{Four, Seven, Six, Y2019, Y2020},
    },
    format,
    reference::ReferenceTarget,
};
use crate::validate::{
    compiled::{
        ANY, BoundKeyword, Contains, CountKeyword, NameList, NamedList, NamedProperties,
        Properties, RequiredNames, Rule, SchemaId, TypeSet,
    },
    rule_messages::as_json,
};

/// Compiles a keyword together with the keywords that belong to it.
type ReadKeyword = fn(&mut SchemaReader<'_, '_>, &'static str) -> Result<(), String>;

const ALL_DRAFTS: RangeInclusive<Draft> = Four..=Y2020;

/// Keywords and the dialects that define them, in the order of evaluation: cheap ones first, those
/// that depend on others last.
pub(super) const KEYWORDS: &[(&[&str], RangeInclusive<Draft>, ReadKeyword)] = &[
    (&["type"], ALL_DRAFTS, types),
    (&["const"], Six..=Y2020, constant),
    (&["enum"], ALL_DRAFTS, choices),
    (&["minimum"], ALL_DRAFTS, bound),
    (&["maximum"], ALL_DRAFTS, bound),
    (&["exclusiveMinimum"], Six..=Y2020, bound),
    (&["exclusiveMaximum"], Six..=Y2020, bound),
    (&["multipleOf"], ALL_DRAFTS, multiple_of),
    (&["minLength"], ALL_DRAFTS, count),
    (&["maxLength"], ALL_DRAFTS, count),
    (&["pattern"], ALL_DRAFTS, pattern),
    (&["format"], ALL_DRAFTS, format_of),
    // In later dialects these keywords are annotations.
    (&["contentEncoding", "contentMediaType"], Seven..=Seven, content),
    (&["minItems"], ALL_DRAFTS, count),
    (&["maxItems"], ALL_DRAFTS, count),
    (&["minProperties"], ALL_DRAFTS, count),
    (&["maxProperties"], ALL_DRAFTS, count),
    (&["required"], ALL_DRAFTS, required),
    (&["dependentRequired"], Y2019..=Y2020, dependent_required),
    (&["propertyNames"], Six..=Y2020, property_names),
    (&["properties", "patternProperties", "additionalProperties"], ALL_DRAFTS, properties),
    (&["items"], Four..=Y2019, items_or_list),
    (&["prefixItems", "items"], Y2020..=Y2020, items),
    (&["contains"], Six..=Y2020, contains),
    (&["uniqueItems"], ALL_DRAFTS, unique_items),
    (&["$ref"], ALL_DRAFTS, reference),
    (&["$recursiveRef"], Y2019..=Y2019, dynamic_reference),
    (&["$dynamicRef"], Y2020..=Y2020, dynamic_reference),
    (&["dependencies"], ALL_DRAFTS, dependencies),
    (&["dependentSchemas"], Y2019..=Y2020, dependent_schemas),
    (&["allOf"], ALL_DRAFTS, list_of_schemas),
    (&["anyOf"], ALL_DRAFTS, list_of_schemas),
    (&["oneOf"], ALL_DRAFTS, list_of_schemas),
    (&["not"], ALL_DRAFTS, not),
    (&["if"], Seven..=Y2020, condition),
    (&["unevaluatedItems"], Y2019..=Y2020, unevaluated),
    (&["unevaluatedProperties"], Y2019..=Y2020, unevaluated),
];

fn wrong<T>(keyword: &str, what: &str, value: &Value) -> Result<T, String> {
    Err(format!("`{keyword}` must be {what}, not {}", as_json(value)))
}

fn value<'d>(reader: &SchemaReader<'_, 'd>, keyword: &str) -> &'d Value {
    reader.get(keyword).unwrap_or(&Value::Null)
}

fn text<'d>(reader: &SchemaReader<'_, 'd>, keyword: &str) -> Result<&'d str, String> {
    match value(reader, keyword) {
        Value::String(text) => Ok(text),
        other => wrong(keyword, "a string", other),
    }
}

fn strings(keyword: &str, list: &Value) -> Result<NameList, String> {
    let texts = list.as_array().map(|list| list.iter().map(|it| it.as_str().map(Box::from)));
    match texts.and_then(Iterator::collect::<Option<_>>) {
        Some(all) => Ok(all),
        None => wrong(keyword, "a list of strings", list),
    }
}

fn named<'d>(
    reader: &SchemaReader<'_, 'd>,
    keyword: &str,
) -> Result<impl Iterator<Item = (&'d str, &'d Value)> + use<'d>, String> {
    let map = match reader.get(keyword) {
        None => None,
        Some(Value::Object(map)) => Some(map),
        Some(other) => return wrong(keyword, "an object", other),
    };
    Ok(map.into_iter().flatten().map(|(name, it)| (name.as_str(), it)))
}

fn schemas(reader: &mut SchemaReader<'_, '_>, keyword: &str) -> Result<Box<[SchemaId]>, String> {
    let Some(list) = reader.get(keyword) else { return Ok([].into()) };
    let Value::Array(all) = list else { return wrong(keyword, "a list of schemas", list) };
    let node = |(at, schema)| reader.node(schema, &format!("{keyword}/{at}"));
    all.iter().enumerate().map(node).collect()
}

fn schema(reader: &mut SchemaReader<'_, '_>, keyword: &str) -> Result<Option<SchemaId>, String> {
    reader.get(keyword).map(|schema| reader.node(schema, keyword)).transpose()
}

fn types(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let value = value(reader, keyword);
    let named = |it: &Value| it.as_str().and_then(TypeSet::named);
    let types = match value {
        Value::Array(all) => {
            all.iter().map(named).try_fold(TypeSet::NONE, |sum, it| it.map(|it| sum.and(it)))
        }
        one => named(one),
    };
    let Some(types) = types else { return wrong(keyword, "the name of a type of JSON", value) };
    reader.types = types;
    Ok(())
}

fn constant(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    reader.rules.push(Rule::Const(value(reader, keyword).clone()));
    Ok(())
}

fn choices(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    match value(reader, keyword) {
        Value::Array(all) => reader.rules.push(Rule::Enum(all.as_slice().into())),
        other => return wrong(keyword, "a list of values", other),
    }
    Ok(())
}

const BOUND_KEYWORDS: [(&str, BoundKeyword); 4] = [
    ("minimum", BoundKeyword::Minimum),
    ("maximum", BoundKeyword::Maximum),
    ("exclusiveMinimum", BoundKeyword::ExclusiveMinimum),
    ("exclusiveMaximum", BoundKeyword::ExclusiveMaximum),
];

fn bound(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let is_exclusive = |of: &str| {
        reader.draft == Four && reader.get(of).is_some_and(|it| *it == Value::Bool(true))
    };
    // Draft 4 has a number and a boolean keyword for each bound.
    let name = match keyword {
        "minimum" if is_exclusive("exclusiveMinimum") => "exclusiveMinimum",
        "maximum" if is_exclusive("exclusiveMaximum") => "exclusiveMaximum",
        plain => plain,
    };
    let limit = number(reader, keyword)?;
    let bound = BOUND_KEYWORDS.iter().find(|(known, _)| *known == name);
    reader.rules.extend(bound.map(|(_, bound)| Rule::Bound(*bound, limit)));
    Ok(())
}

fn number(reader: &SchemaReader<'_, '_>, keyword: &str) -> Result<Number, String> {
    match value(reader, keyword) {
        Value::Number(number) => Ok(number.clone()),
        other => wrong(keyword, "a number", other),
    }
}

fn multiple_of(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let step = number(reader, keyword)?;
    if step.as_f64().is_none_or(|it| it <= 0.0) {
        return wrong(keyword, "greater than 0", value(reader, keyword));
    }
    reader.rules.push(Rule::MultipleOf(step));
    Ok(())
}

const COUNT_KEYWORDS: [(&str, CountKeyword); 6] = [
    ("minLength", CountKeyword::MinLength),
    ("maxLength", CountKeyword::MaxLength),
    ("minItems", CountKeyword::MinItems),
    ("maxItems", CountKeyword::MaxItems),
    ("minProperties", CountKeyword::MinProperties),
    ("maxProperties", CountKeyword::MaxProperties),
];

fn count(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let limit = how_many(reader, keyword)?;
    let count = COUNT_KEYWORDS.iter().find(|(known, _)| *known == keyword);
    reader.rules.extend(count.map(|(_, count)| Rule::Count(*count, limit)));
    Ok(())
}

fn how_many(reader: &SchemaReader<'_, '_>, keyword: &str) -> Result<usize, String> {
    let value = value(reader, keyword);
    let float = || value.as_f64().filter(|it| *it >= 0.0 && it.fract() == 0.0);
    match value.as_u64().or_else(|| float().map(|it| it as u64)) {
        Some(count) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        None => wrong(keyword, "a whole number of at least 0", value),
    }
}

fn pattern(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let pattern = reader.pattern(text(reader, keyword)?)?;
    reader.rules.push(Rule::Pattern(pattern));
    Ok(())
}

fn format_of(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let format = format::named(text(reader, keyword)?, reader.draft);
    reader.rules.extend(format.map(Rule::Format));
    Ok(())
}

fn content(reader: &mut SchemaReader<'_, '_>, _: &'static str) -> Result<(), String> {
    let named = |keyword| reader.get(keyword).map(|_| text(reader, keyword)).transpose();
    let content = Content::named(named("contentEncoding")?, named("contentMediaType")?);
    reader.rules.extend(content.map(Rule::Content));
    Ok(())
}

fn required(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let names = strings(keyword, value(reader, keyword))?;
    reader.rules.push(Rule::Required(RequiredNames { names, is_counted: false }));
    Ok(())
}

fn dependent_required(
    reader: &mut SchemaReader<'_, '_>,
    keyword: &'static str,
) -> Result<(), String> {
    let of = |(name, list)| strings(keyword, list).map(|all| (Box::from(name), all));
    let all = named(reader, keyword)?.map(of).collect::<Result<_, String>>()?;
    reader.rules.push(Rule::DependentRequired(all));
    Ok(())
}

fn dependent_schemas(
    reader: &mut SchemaReader<'_, '_>,
    keyword: &'static str,
) -> Result<(), String> {
    let all = named_schemas(reader, keyword)?;
    reader.rules.push(Rule::DependentSchemas(all));
    Ok(())
}

/// Draft 7's keyword that was later split into `dependentRequired` and `dependentSchemas`.
fn dependencies(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let (mut names, mut schemas) = (Vec::new(), Vec::new());
    for (name, it) in named(reader, keyword)? {
        if it.is_array() {
            names.push((Box::from(name), strings(keyword, it)?));
        } else {
            schemas.push((Box::from(name), reader.node(it, &format!("{keyword}/{name}"))?));
        }
    }
    reader.rules.push(Rule::DependentRequired(names.into()));
    reader.rules.push(Rule::DependentSchemas(schemas.into()));
    Ok(())
}

fn named_schemas(
    reader: &mut SchemaReader<'_, '_>,
    keyword: &str,
) -> Result<NamedList<SchemaId>, String> {
    let mut all = Vec::new();
    for (name, schema) in named(reader, keyword)? {
        all.push((Box::from(name), reader.node(schema, &format!("{keyword}/{name}"))?));
    }
    Ok(all.into())
}

fn property_names(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let rule = schema(reader, keyword)?.map(Rule::PropertyNames);
    reader.rules.extend(rule);
    Ok(())
}

fn properties(reader: &mut SchemaReader<'_, '_>, _: &'static str) -> Result<(), String> {
    let named = named_schemas(reader, "properties")?.into_vec();
    let mut patterns = Vec::new();
    for (source, id) in named_schemas(reader, "patternProperties")? {
        patterns.push((reader.pattern(&source)?, id));
    }
    let rest = schema(reader, "additionalProperties")?;
    let required = reader.rules.iter_mut().find_map(|rule| match rule {
        Rule::Required(required) => Some(required),
        _ => None,
    });
    let names = required.as_ref().map_or(&[][..], |required| &required.names);
    let named = NamedProperties::new(named, names);
    if let Some(required) = required {
        required.is_counted = named.required > 0;
    }
    let rule = Properties { named, patterns: patterns.into(), rest };
    reader.rules.push(Rule::Properties(rule.into()));
    Ok(())
}

fn items(reader: &mut SchemaReader<'_, '_>, _: &'static str) -> Result<(), String> {
    if reader.get("items").is_some_and(Value::is_array) {
        return wrong("items", "a schema; a list of them is `prefixItems`", value(reader, "items"));
    }
    let prefix = schemas(reader, "prefixItems")?;
    let rest = schema(reader, "items")?;
    reader.rules.push(Rule::Items { prefix, rest });
    Ok(())
}

fn items_or_list(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let rule = if value(reader, keyword).is_array() {
        let prefix = schemas(reader, keyword)?;
        Rule::Items { prefix, rest: schema(reader, "additionalItems")? }
    } else {
        Rule::Items { prefix: [].into(), rest: schema(reader, keyword)? }
    };
    reader.rules.push(rule);
    Ok(())
}

fn contains(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let Some(schema) = schema(reader, keyword)? else { return Ok(()) };
    let limit = |keyword: &str, default: usize| {
        let is_known = reader.draft >= Y2019 && reader.get(keyword).is_some();
        if is_known { how_many(reader, keyword) } else { Ok(default) }
    };
    let (least, most) = (limit("minContains", 1)?, limit("maxContains", usize::MAX)?);
    let marks = reader.draft.contains_evaluates();
    reader.rules.push(Rule::Contains(Contains { schema, least, most, marks }));
    Ok(())
}

fn unique_items(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    match value(reader, keyword) {
        Value::Bool(true) => reader.rules.push(Rule::UniqueItems),
        Value::Bool(false) => {}
        other => return wrong(keyword, "a boolean", other),
    }
    Ok(())
}

fn reference(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let target = reader.target(keyword, text(reader, keyword)?)?;
    reader.rules.push(Rule::Reference(target.id));
    Ok(())
}

fn dynamic_reference(
    reader: &mut SchemaReader<'_, '_>,
    keyword: &'static str,
) -> Result<(), String> {
    let to = text(reader, keyword)?;
    let ReferenceTarget { id, anchor } = reader.target(keyword, to)?;
    let name = super::uri::split(to).1;
    let rule = match anchor.filter(|anchor| **anchor == *name) {
        Some(anchor) => {
            reader.is_dynamic();
            Rule::DynamicReference(id, anchor)
        }
        None => Rule::Reference(id),
    };
    reader.rules.push(rule);
    Ok(())
}

fn list_of_schemas(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let all = schemas(reader, keyword)?;
    reader.rules.push(match keyword {
        "allOf" => Rule::AllOf(all),
        "anyOf" => Rule::AnyOf(all),
        _ => Rule::OneOf(all),
    });
    Ok(())
}

fn not(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let Some(id) = schema(reader, keyword)? else { return Ok(()) };
    let as_json = as_json(value(reader, keyword)).into();
    reader.rules.push(Rule::Not(id, as_json));
    Ok(())
}

fn condition(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let Some(condition) = schema(reader, keyword)? else { return Ok(()) };
    let then = schema(reader, "then")?.unwrap_or(ANY);
    let otherwise = schema(reader, "else")?.unwrap_or(ANY);
    reader.rules.push(Rule::If { condition, then, otherwise });
    Ok(())
}

fn unevaluated(reader: &mut SchemaReader<'_, '_>, keyword: &'static str) -> Result<(), String> {
    let Some(id) = schema(reader, keyword)? else { return Ok(()) };
    reader.rules.push(match keyword {
        "unevaluatedItems" => Rule::UnevaluatedItems(id),
        _ => Rule::UnevaluatedProperties(id),
    });
    Ok(())
}

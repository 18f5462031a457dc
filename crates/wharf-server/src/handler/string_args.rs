//! Deserializer of decoded strings into the types of a handler.

use std::{borrow::Cow, fmt, slice};

use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, Visitor,
        value::{SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};

/// Value of one parameter: a string, or a list of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StringArg {
    Single(String),
    List(Vec<String>),
}

/// Deserializes named strings as the fields of `T`; the error names the field.
pub(crate) fn from_strings<T: DeserializeOwned>(
    pairs: &[(Cow<'_, str>, StringArg)],
) -> Result<T, String> {
    T::deserialize(FieldsDeserializer { pairs: pairs.iter(), value: None }).map_err(|error| error.0)
}

#[derive(Debug)]
struct StringArgError(String);

impl fmt::Display for StringArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StringArgError {}

impl serde::de::Error for StringArgError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        StringArgError(message.to_string())
    }
}

type NamedArg<'a> = (Cow<'a, str>, StringArg);

struct FieldsDeserializer<'p, 'a> {
    pairs: slice::Iter<'p, NamedArg<'a>>,
    value: Option<&'p NamedArg<'a>>,
}

impl<'de> Deserializer<'de> for FieldsDeserializer<'_, '_> {
    type Error = StringArgError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
        visitor.visit_map(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, StringArgError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, StringArgError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for FieldsDeserializer<'_, '_> {
    type Error = StringArgError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, StringArgError> {
        self.value = self.pairs.next();
        let key = |(name, _): &NamedArg<'_>| seed.deserialize(StrDeserializer::new(name));
        self.value.map(key).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, StringArgError> {
        let (name, value) = self.value.take().ok_or_else(|| StringArgError("no value".into()))?;
        let read = match value {
            StringArg::Single(text) => seed.deserialize(SingleDeserializer(text)),
            StringArg::List(texts) => seed.deserialize(ListDeserializer(texts)),
        };
        read.map_err(|error| StringArgError(format!("`{name}`: {error}")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.pairs.len())
    }
}

#[derive(Clone, Copy)]
struct SingleDeserializer<'p>(&'p str);

impl<'de> IntoDeserializer<'de, StringArgError> for SingleDeserializer<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $number:ty;)*) => {$(
        #[allow(clippy::cast_precision_loss, clippy::cast_lossless, clippy::unnecessary_cast)]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
            let whole = self.0.strip_suffix(".0").unwrap_or(self.0);
            match whole.parse::<$number>() {
                // Rust parses `nan` and `inf` as numbers, and `1e999` as infinity.
                Ok(number) if (number as f64).is_finite() => visitor.$visit(number),
                _ => Err(StringArgError(format!("{:?} is not a {}", self.0, ExpectedNumber(stringify!($number))))),
            }
        }
    )*};
}

/// Displays a number type in words that do not require knowledge of Rust.
struct ExpectedNumber(&'static str);

impl fmt::Display for ExpectedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0.as_bytes()[0] {
            b'f' => "number",
            b'u' => "whole number from zero up, or is too large",
            _ => "whole number, or is too large",
        };
        f.write_str(words)
    }
}

impl<'de> Deserializer<'de> for SingleDeserializer<'_> {
    type Error = StringArgError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
        visitor.visit_str(self.0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
        match self.0 {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => Err(StringArgError(format!("{other:?} is neither true nor false"))),
        }
    }

    numbers! {
        deserialize_i8 visit_i8 i8; deserialize_i16 visit_i16 i16; deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64; deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8; deserialize_u16 visit_u16 u16; deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64; deserialize_u128 visit_u128 u128;
        deserialize_f32 visit_f32 f32; deserialize_f64 visit_f64 f64;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, StringArgError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
        visitor.visit_seq(SeqDeserializer::new([self].into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StringArgError> {
        StrDeserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier
        ignored_any
    }
}

struct ListDeserializer<'p>(&'p [String]);

impl<'p> ListDeserializer<'p> {
    fn items(&self) -> impl Iterator<Item = SingleDeserializer<'p>> + use<'p> {
        self.0.iter().map(|text| SingleDeserializer(text))
    }
}

impl<'de> Deserializer<'de> for ListDeserializer<'_> {
    type Error = StringArgError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
        visitor.visit_seq(SeqDeserializer::new(self.items()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StringArgError> {
        if self.0.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, StringArgError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    fn one(name: &'static str, text: &str) -> NamedArg<'static> {
        (Cow::Borrowed(name), StringArg::Single(text.into()))
    }

    fn many(name: &'static str, texts: &[&str]) -> NamedArg<'static> {
        (Cow::Borrowed(name), StringArg::List(texts.iter().map(|&text| text.into()).collect()))
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        Red,
        Blue,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Id(u64);

    #[derive(Debug, Deserialize, PartialEq)]
    struct AllTypes {
        int: i32,
        float: f64,
        yes: bool,
        text: String,
        letter: char,
        colour: Colour,
        id: Id,
        some: Option<u8>,
        none: Option<u8>,
        list: Vec<Id>,
        lone: Vec<String>,
        r#type: String,
    }

    #[test]
    fn every_kind_of_parameter() {
        let pairs = [
            one("int", "-3"),
            one("float", "2.5"),
            one("yes", "true"),
            one("text", "12"),
            one("letter", "é"),
            one("colour", "blue"),
            one("id", "7.0"),
            one("some", "9"),
            many("list", &["1", "2"]),
            one("lone", "x"),
            one("type", "t"),
            one("unknown", "ignored"),
        ];
        let all: AllTypes = from_strings(&pairs).unwrap();
        assert_eq!((all.int, all.float, all.yes, all.letter), (-3, 2.5, true, 'é'));
        assert_eq!((all.colour, all.id, all.some, all.none), (Colour::Blue, Id(7), Some(9), None));
        assert_eq!((all.list, all.lone), (vec![Id(1), Id(2)], vec!["x".to_owned()]));
        assert_eq!((&*all.text, &*all.r#type), ("12", "t"));
    }

    #[derive(Debug, Deserialize)]
    struct Few {
        #[allow(dead_code)]
        n: u8,
    }

    #[test]
    fn errors_name_the_field() {
        let error = |pairs: &[NamedArg<'_>]| from_strings::<Few>(pairs).unwrap_err();
        assert_eq!(error(&[]), "missing field `n`");
        assert!(error(&[one("n", "x")]).starts_with("`n`: \"x\" is not a whole number"));
        assert!(error(&[one("n", "256")]).starts_with("`n`"));
        assert!(error(&[many("n", &["1"])]).starts_with("`n`"));
    }

    #[test]
    fn a_number_is_finite() {
        #[derive(Debug, Deserialize)]
        struct Ratio {
            x: f64,
        }
        let read = |text: &str| from_strings::<Ratio>(&[one("x", text)]).map(|ratio| ratio.x);
        assert_eq!(read("-2.5e3"), Ok(-2500.0));
        for text in ["NaN", "inf", "-infinity", "1e999"] {
            assert_eq!(read(text), Err(format!("`x`: {text:?} is not a number")));
        }
    }

    #[test]
    fn a_handler_without_parameters() {
        from_strings::<()>(&[]).unwrap();
        #[derive(Deserialize)]
        struct Nothing {}
        from_strings::<Nothing>(&[]).unwrap();
    }

    #[test]
    fn an_empty_list_is_none_if_the_list_is_optional() {
        #[derive(Deserialize)]
        struct Lists {
            a: Option<Vec<String>>,
            b: Vec<String>,
        }
        let lists: Lists = from_strings(&[many("a", &[]), many("b", &[])]).unwrap();
        assert!(lists.a.is_none() && lists.b.is_empty());
    }
}

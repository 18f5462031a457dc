//! Check that a value has a JSON representation: JSON has no `NaN` and no infinity, for which `serde_json` writes `null`.

use std::fmt::Display;

use serde::{
    Serialize, Serializer,
    ser::{self, Error as _},
};
use serde_json::Error;

/// Fails if `value` contains a number that is `NaN` or infinite.
pub(crate) fn check_numbers<T: Serialize>(value: &T) -> Result<(), Error> {
    value.serialize(FiniteNumbers)
}

/// Serializer without output that fails at numbers that are not finite.
#[derive(Clone, Copy)]
struct FiniteNumbers;

fn check(number: f64) -> Result<(), Error> {
    match number.is_finite() {
        true => Ok(()),
        false => Err(Error::custom(format_args!("JSON has no number {number}"))),
    }
}

/// Methods that accept every value of a type.
macro_rules! accept {
    ($($method:ident($($type:ty),*);)*) => {
        $(fn $method(self, $(_: $type),*) -> Result<(), Error> {
            Ok(())
        })*
    };
}

/// Methods that begin a value with parts.
macro_rules! begin {
    ($($method:ident($($type:ty),*) -> $parts:ident;)*) => {
        $(type $parts = Self;
        fn $method(self, $(_: $type),*) -> Result<Self, Error> {
            Ok(self)
        })*
    };
}

impl Serializer for FiniteNumbers {
    type Ok = ();
    type Error = Error;

    accept! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    begin! {
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_map(Option<usize>) -> SerializeMap;
        serialize_struct(&'static str, usize) -> SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
    }

    fn serialize_f32(self, number: f32) -> Result<(), Error> {
        check(number.into())
    }

    fn serialize_f64(self, number: f64) -> Result<(), Error> {
        check(number)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result<(), Error> {
        Ok(())
    }
}

/// Implementations for the parts of a value, each with the method that serializes a part.
macro_rules! parts {
    ($($part:ident: $method:ident($($name:ty)?);)*) => {
        $(impl ser::$part for FiniteNumbers {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? part: &T) -> Result<(), Error> {
                part.serialize(*self)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq: serialize_element();
    SerializeTuple: serialize_element();
    SerializeTupleStruct: serialize_field();
    SerializeTupleVariant: serialize_field();
    SerializeStruct: serialize_field(&'static str);
    SerializeStructVariant: serialize_field(&'static str);
}

impl ser::SerializeMap for FiniteNumbers {
    type Ok = ();
    type Error = Error;

    // `serde_json` rejects keys that are not finite.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(*self)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    enum Shape {
        Unit,
        Newtype(f64),
        Tuple(u8, f32),
        Struct { at: Option<f64> },
    }

    #[derive(Serialize)]
    struct Pair<T>(u8, T);

    #[test]
    fn numbers_that_are_not_finite_are_found_at_any_depth() {
        let nan = f64::NAN;
        let refused = [
            check_numbers(&nan),
            check_numbers(&f32::INFINITY),
            check_numbers(&Some(nan)),
            check_numbers(&[vec![1.0], vec![f64::NEG_INFINITY]]),
            check_numbers(&(1, nan)),
            check_numbers(&Pair(1, Box::new(nan))),
            check_numbers(&HashMap::from([("a", Some(nan))])),
            check_numbers(&Shape::Newtype(nan)),
            check_numbers(&Shape::Tuple(0, f32::NAN)),
            check_numbers(&Shape::Struct { at: Some(nan) }),
        ];
        for (case, refused) in refused.into_iter().enumerate() {
            let error = refused.expect_err(&case.to_string()).to_string();
            assert!(error.starts_with("JSON has no number "), "{error}");
        }
    }

    #[test]
    fn all_other_values_are_accepted() {
        let accepted = [
            check_numbers(&json!({"a": [1.5, -2, null, true, "NaN"], "b": {}})),
            check_numbers(&f64::MAX),
            check_numbers(&(None::<f64>, (), 'x', u128::MAX, i128::MIN)),
            check_numbers(&BTreeMap::from([(1, "one")])),
            check_numbers(&[Shape::Unit, Shape::Newtype(0.5), Shape::Struct { at: None }]),
            check_numbers(&std::net::Ipv4Addr::LOCALHOST),
        ];
        assert!(accepted.iter().all(Result::is_ok), "{accepted:?}");
    }
}

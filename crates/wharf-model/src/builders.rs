//! Helpers for protocol types: open enums, builder setters, lenient deserialization.

use serde::{Deserialize, Deserializer};

/// Defines an enum of known strings that preserves unknown ones, which later revisions may add.
macro_rules! open_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            /// Unknown value, preserved unchanged.
            Other(String),
        }

        impl $name {
            /// Returns the value in its wire format.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                // Not `&str`: text with escapes cannot be borrowed from the input.
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(from)?;
                Ok(Self::from(&*text))
            }
        }
    };
}
pub(crate) use open_enum;

/// Defines setters.
///
/// For options, all crates of Wharf use `setters!(Type { field: Type, … })`: methods named like the public fields,
/// which take values of that type. For builders of protocol types, it is `name(field: how Type);`, where `how` is
/// `set`, `some`, `boxed` or `push`, and each method takes anything that converts into the type.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($ty:ident { $($(#[$attr:meta])* $field:ident: $arg:ty),* $(,)? }) => {
        impl $ty {
            $($(#[$attr])*
            #[doc = concat!("Sets [`", stringify!($field), "`](", stringify!($ty), "#structfield.", stringify!($field), ").")]
            #[must_use]
            pub fn $field(mut self, value: $arg) -> Self {
                self.$field = value.into();
                self
            })*
        }
    };
    ($ty:ident { $($(#[$doc:meta])* $name:ident($field:ident: $how:ident $arg:ty);)* }) => {
        impl $ty {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(mut self, value: impl Into<$arg>) -> Self {
                $crate::setters!(@$how self.$field, value.into());
                self
            })*
        }
    };
    (@set $place:expr, $value:expr) => { $place = $value };
    (@some $place:expr, $value:expr) => { $place = Some($value) };
    (@boxed $place:expr, $value:expr) => { $place = Some(Box::new($value)) };
    (@push $place:expr, $value:expr) => { $place.push($value) };
}
pub(crate) use setters;

/// Defines `with_meta` for types with a `meta` field.
macro_rules! meta_setter {
    ($($ty:ident),*) => {
        $(impl $ty {
            /// Adds one entry to `_meta`.
            #[must_use]
            pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
                self.meta.get_or_insert_default().insert(key.into(), value.into());
                self
            }
        })*
    };
}
pub(crate) use meta_setter;

/// Reads `null` as the default: many peers write it where the specification omits a field.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

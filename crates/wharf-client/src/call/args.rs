//! The [`args!`](crate::args) macro.

/// Arguments of a call as a map. A key is an identifier, or a string literal if it is not an
/// identifier.
///
/// A value is anything that serializes. Panics if it cannot be written as JSON, as
/// [`serde_json::json!`] does.
///
/// ```
/// # mod wharf { pub use wharf_client::*; }
/// use wharf::args;
///
/// let city = String::from("Paris");
/// let arguments = args! { city: city, days: 3, "with-wind": true, r#type: None::<u8> };
/// assert_eq!(
///     serde_json::Value::from(arguments),
///     serde_json::json!({"city": "Paris", "days": 3, "with-wind": true, "type": null})
/// );
/// assert!(args! {}.is_empty());
/// ```
#[macro_export]
macro_rules! args {
    ($($key:tt : $value:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut arguments = $crate::__private::Map::<$crate::__private::String, $crate::__private::Value>::new();
        $(arguments.insert($crate::args!(@key $key).into(), $crate::__private::json!($value));)*
        arguments
    }};
    (@key $name:ident) => {{
        let name = stringify!($name);
        name.strip_prefix("r#").unwrap_or(name)
    }};
    (@key $name:literal) => { $name };
}

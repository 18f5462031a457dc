//! Arguments written in place.

/// Arguments of a call, written in place: names, or texts where a name is no identifier.
///
/// A value is anything that serializes; one that cannot be written as JSON panics, as in
/// [`serde_json::json!`].
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

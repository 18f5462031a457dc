//! Setters that the builders of tools, resources and prompts share.

/// Defines setters for a builder with an `info` that clients receive and a `timeout` that they do
/// not.
macro_rules! described {
    ($builder:ident, $noun:literal) => {
        impl $builder {
            /// Sets the display name.
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.info.title = Some(title.into());
                self
            }

            #[doc = concat!("Sets the description of the ", $noun, ", which models read.")]
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.info.description = Some(description.into());
                self
            }

            /// Adds an icon.
            pub fn icon(mut self, icon: wharf_model::Icon) -> Self {
                self.info.icons.push(icon);
                self
            }

            #[doc = concat!("Adds one entry to the ", $noun, "'s `_meta`.")]
            pub fn meta(
                mut self,
                key: impl Into<String>,
                value: impl Into<serde_json::Value>,
            ) -> Self {
                self.info = self.info.with_meta(key, value);
                self
            }

            #[doc = concat!("Requires this scope of callers of the ", $noun, "; called several times, all of")]
            /// them. Other callers do not see it in lists; calling it by name returns the scopes
            /// that are missing.
            pub fn scope(mut self, scope: impl Into<String>) -> Self {
                self.scopes.push(scope.into());
                self
            }

            #[doc = concat!("Adds an extension of the protocol to every server that has the ", $noun, " when it is built.")]
            /// Several parts may add the same one. An extension with the same identifier that was added with
            /// [`RouterBuilder::extension`](crate::RouterBuilder::extension) replaces it.
            pub fn extension(mut self, extension: fn() -> crate::ProtocolExtension) -> Self {
                self.extensions.push(extension);
                self
            }

            /// Sets the total timeout of a call. A call that takes longer ends with an error; a
            /// tool call with an error result.
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.timeout = Some(timeout);
                self
            }
        }
    };
}
pub(crate) use described;

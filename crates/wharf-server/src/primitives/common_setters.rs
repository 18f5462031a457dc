//! What the builders of tools, resources and prompts have in common.

/// Setters for a builder with an `info` that clients see and a `timeout` that they do not.
macro_rules! described {
    ($builder:ident, $noun:literal) => {
        impl $builder {
            /// Sets the name for people.
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.info.title = Some(title.into());
                self
            }

            #[doc = concat!("Says what the ", $noun, " is for; models read this.")]
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

            #[doc = concat!("Only callers who were granted this scope may use the ", $noun, "; called several times, all of")]
            /// them. Others do not see it in lists, and are told what they would need if they ask for it by name.
            pub fn scope(mut self, scope: impl Into<String>) -> Self {
                self.scopes.push(scope.into());
                self
            }

            /// How long a call may take in all. One that takes longer ends with an error; of a
            /// tool, with an error result.
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.timeout = Some(timeout);
                self
            }
        }
    };
}
pub(crate) use described;

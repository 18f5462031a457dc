//! Tools, resources, prompts and completions, and their descriptions.

pub(crate) mod common_setters;
pub(crate) mod completion;
pub(crate) mod custom_method;
pub(crate) mod extension;
pub(crate) mod prompt;
pub(crate) mod resource;
pub(crate) mod safe_join;
pub(crate) mod tool;
pub(crate) mod uri;
pub(crate) mod uri_template;

//! Types of the Model Context Protocol: tools, resources, prompts, content, capabilities.

pub(crate) mod cache_hints;
pub(crate) mod capability;
pub(crate) mod completion;
pub(crate) mod content;
pub(crate) mod custom_notification;
pub(crate) mod elicitation;
pub(crate) mod implementation;
pub(crate) mod log_level;
pub(crate) mod prompt;
pub(crate) mod resource;
pub(crate) mod roots;
pub(crate) mod sampling;
pub(crate) mod subscription;
pub(crate) mod task;
pub(crate) mod tool;

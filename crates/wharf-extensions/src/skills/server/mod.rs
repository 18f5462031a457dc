//! Skills of a server: its methods, its resources, and the directories they come from.

mod catalog;
mod dynamic;
mod embedded;
mod media_type;
mod methods;
mod register;
mod resources;
mod skill;
mod snapshot;
mod source;
mod watch;

pub use self::{
    embedded::{EmbeddedFile, EmbeddedSkills},
    skill::{Skill, Skills},
};

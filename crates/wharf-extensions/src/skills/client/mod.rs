//! Skills of a server, read by a client: entries, files that are checked against them, and refusals.
//!
//! No file is read before it is asked for, and only files of the entry that the client holds are read. A file whose digest
//! matches is the one that the server's entry describes; it is not therefore to be trusted.

mod error;
mod files;
mod key;
mod list;
mod listed;
mod loaded;
mod read;

pub use self::{
    error::{SkillError, SkillRefused},
    files::SkillChild,
    key::SkillKey,
    list::SkillList,
    listed::ListedSkill,
    loaded::LoadedSkill,
    read::SkillContent,
};

//! Results on stdout.

mod content;
mod lists;
mod output_format;
mod save;
mod skills;
mod task;

pub(crate) use crate::show::output_format::ResultOutput;
pub(crate) use content::{prompt_lines, read_lines, result_lines};
pub(crate) use lists::{Lists, is_destructive, wrapped};
pub(crate) use save::{blobs_of_read, blobs_of_tool, save};
pub(crate) use skills::{skill_lines, skill_table};
pub(crate) use task::{task_line, task_lines, task_table};

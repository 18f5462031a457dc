//! `wharf read`.

use crate::commands::Run;
use crate::{
    cli::Read,
    context::Context,
    error::CliError,
    show::{blobs_of_read, read_lines, save},
    target_argument,
};

impl Run for Read {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        let [uri] = words.as_slice() else {
            return Err(CliError::usage("No resource is given, or more than one")
                .hint("Give one URI; `wharf list TARGET resources` shows them.".to_owned()));
        };
        let client = context.connect(target).await?;
        let result = context.watch(client.read(uri)).await?;
        let out = context.out;
        match &self.output {
            Some(file) => save(&blobs_of_read(&result)?, file, out, &context.screen),
            None if out.is_json() => out.json(&result),
            None => out.lines(&read_lines(&result, out.paint())),
        }
    }
}

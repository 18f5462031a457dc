//! `wharf skills`.

mod verify;

use serde_json::json;
use wharf::{
    Client, ErrorKind,
    model::{ReadResult, ResourceContents},
    skills::{ListedSkill, SKILLS_EXTENSION, SkillContent, SkillError},
};

use crate::commands::Run;
use crate::{
    cli::{Skills, SkillsCommand},
    context::Context,
    error::CliError,
    show::{blobs_of_read, read_lines, save, skill_lines, skill_table},
    target_argument,
};

const URI_HINT: &str = "`wharf skills list TARGET` shows the URIs.";

impl Run for Skills {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        self.check_options()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (self.what, &words[..]) {
            (SkillsCommand::List, []) => list(context, connect(context, target).await?).await,
            (SkillsCommand::Get, [uri]) => get(context, connect(context, target).await?, uri).await,
            (SkillsCommand::Read, [uri]) => {
                self.read(context, connect(context, target).await?, uri, None).await
            }
            (SkillsCommand::Read, [uri, file]) => {
                self.read(context, connect(context, target).await?, uri, Some(file)).await
            }
            (SkillsCommand::Verify, [] | [_]) => {
                let client = connect(context, target).await?;
                verify::run(context, client, words.first().copied(), self.require_digests).await
            }
            (SkillsCommand::Get | SkillsCommand::Read, []) => {
                Err(CliError::usage("No skill is given").hint(URI_HINT.to_owned()))
            }
            (_, words) => {
                let word = words.last().copied().unwrap_or_default();
                Err(CliError::usage(format!("`{word}` is an unexpected argument")))
            }
        }
    }
}

impl Skills {
    /// Rejects options of other actions.
    fn check_options(&self) -> Result<(), CliError> {
        if self.output.is_some() && self.what != SkillsCommand::Read {
            return Err(CliError::usage("--output is for `wharf skills read`"));
        }
        if self.require_digests && self.what != SkillsCommand::Verify {
            return Err(CliError::usage("--require-digests is for `wharf skills verify`"));
        }
        Ok(())
    }

    /// Reads `SKILL.md`, or another file of the skill.
    async fn read(
        &self,
        context: &Context,
        client: &Client,
        uri: &str,
        file: Option<&str>,
    ) -> Result<(), CliError> {
        let skill = find(client, uri).await?.load().await?;
        let contents = match file {
            Some(file) => contents(skill.read(file).await?),
            None => ResourceContents::text(uri, skill.instructions()).mime_type("text/markdown"),
        };
        let (result, out) = (ReadResult::from(contents), context.out);
        match &self.output {
            Some(file) => save(&blobs_of_read(&result)?, file, out, &context.screen),
            None if out.is_json() => out.json(&result),
            None => out.lines(&read_lines(&result, out.paint())),
        }
    }
}

/// Connects to a server that declares the extension.
async fn connect(context: &Context, target: wharf::client::Target) -> Result<&Client, CliError> {
    let client = context.connect(target).await?;
    if client.capabilities().extensions.contains_key(SKILLS_EXTENSION) {
        return Ok(client);
    }
    let message = format!("The server has no skills: it does not declare `{SKILLS_EXTENSION}`");
    Err(CliError::of_kind(ErrorKind::CapabilityNotSupported, message))
}

async fn find(client: &Client, uri: &str) -> Result<ListedSkill, CliError> {
    client.skill(uri).await.map_err(|error| match error {
        SkillError::Call(error) if error.kind() == ErrorKind::InvalidParams => {
            CliError::from(error).hint(URI_HINT.to_owned())
        }
        error => error.into(),
    })
}

async fn list(context: &Context, client: &Client) -> Result<(), CliError> {
    let (skills, out) = (client.skills().all().await?, context.out);
    if out.is_json() {
        let entries: Vec<_> = skills.iter().filter_map(|it| it.entry().ok()).collect();
        let refused = skills.iter().filter_map(|it| Some((it, it.entry().err()?)));
        let refused = refused.map(
            |(it, why)| json!({"uri": it.uri(), "kind": why.kind(), "problem": why.to_string()}),
        );
        let refused: Vec<_> = refused.collect();
        return out.json(&json!({"skills": entries, "refused": refused}));
    }
    out.lines(&skill_table(&skills, out.columns(), out.paint()))
}

async fn get(context: &Context, client: &Client, uri: &str) -> Result<(), CliError> {
    let skill = find(client, uri).await?;
    let (entry, out) = (skill.entry()?, context.out);
    match out.is_json() {
        true => out.json(&json!({"skill": entry})),
        false => out.lines(&skill_lines(entry, out.columns(), out.paint())),
    }
}

/// Returns a file like the result of `resources/read`.
fn contents(file: SkillContent) -> ResourceContents {
    let contents = match file.text() {
        Some(text) => ResourceContents::text(&*file.uri, text),
        None => ResourceContents::blob(&*file.uri, &file.bytes),
    };
    match file.mime_type {
        Some(mime_type) => contents.mime_type(mime_type),
        None => contents,
    }
}

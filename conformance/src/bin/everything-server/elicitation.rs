//! Tools that ask the client something while they run.
//!
//! Legacy scenarios call the first four, modern ones the other two. What modern clients do to
//! answer over several calls is in `rounds.rs`.

use serde_json::to_string;
use wharf::prelude::*;

pub(crate) fn tools(server: Server) -> Server {
    server
        .tool::<test_sampling>()
        .tool::<test_elicitation>()
        .tool::<test_elicitation_sep1034_defaults>()
        .tool::<test_elicitation_sep1330_enums>()
        .tool::<test_missing_capability>()
        .tool::<test_streaming_elicitation>()
}

/// Lets the client's model answer a prompt.
#[tool]
async fn test_sampling(
    /// What the model is asked.
    prompt: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let answer = ctx.sample("prompt", SamplingRequest::new(100).user(prompt)).await?;
    Ok(format!("LLM response: {}", answer.text()))
}

/// Asks the user who they are.
#[tool]
async fn test_elicitation(
    /// What the user is told.
    message: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let user: User = ctx.ask("user", message).await?;
    Ok(format!("User response: action=accept, content={}", to_string(&user)?))
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct User {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

/// Asks with a form that is filled in already.
#[tool]
async fn test_elicitation_sep1034_defaults(ctx: Ctx) -> Result<String, ToolError> {
    let profile: Profile = ctx.ask("profile", "Is this right?").await?;
    Ok(format!("Elicitation completed: action=accept, content={}", to_string(&profile)?))
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Profile {
    /// User name
    name: String,
    /// User age
    age: i64,
    /// User score
    score: f64,
    /// User status
    status: Status,
    /// Verification status
    verified: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Active,
    Inactive,
    Pending,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            name: "John Doe".to_owned(),
            age: 30,
            score: 95.5,
            status: Status::Active,
            verified: true,
        }
    }
}

/// Asks with every kind of choice that a form can have.
#[tool]
async fn test_elicitation_sep1330_enums(ctx: Ctx) -> Result<String, ToolError> {
    let choices: Choices = ctx.ask("choices", "Which would you like?").await?;
    Ok(format!("Elicitation completed: action=accept, content={}", to_string(&choices)?))
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Choices {
    untitled_single: Plain,
    titled_single: Titled,
    // Titles the way the protocol first had them.
    #[schemars(extend("enumNames" = ["Option One", "Option Two", "Option Three"]))]
    legacy_enum: Short,
    untitled_multi: Vec<Plain>,
    titled_multi: Vec<Several>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Plain {
    Option1,
    Option2,
    Option3,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Short {
    Opt1,
    Opt2,
    Opt3,
}

// A variant's documentation is its title.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Titled {
    /// First Option
    Value1,
    /// Second Option
    Value2,
    /// Third Option
    Value3,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Several {
    /// First Choice
    Value1,
    /// Second Choice
    Value2,
    /// Third Choice
    Value3,
}

/// Cannot do without the client's model.
#[tool]
async fn test_missing_capability(ctx: Ctx) -> Result<String, ToolError> {
    let question = SamplingRequest::new(100).user("What can you do?");
    Ok(ctx.sample("question", question).await?.text())
}

/// Asks the user something and waits for the answer where the client can be asked.
#[tool]
async fn test_streaming_elicitation(ctx: Ctx) -> Result<String, ToolError> {
    let Note { note } = ctx.ask("note", "What should be noted?").await?;
    Ok(format!("Noted: {note}"))
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    note: String,
}

//! Tools that send client requests while they run.
//!
//! Legacy scenarios call the first four, modern scenarios the other two. Tools whose modern clients answer with
//! a retry are in `input_required.rs`.

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

/// Samples a prompt with the client's model.
#[tool]
async fn test_sampling(
    /// The prompt for the model.
    prompt: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let answer = ctx.sample("prompt", SamplingRequest::new(100).user(prompt)).await?;
    Ok(format!("LLM response: {}", answer.text()))
}

/// Elicits the user's name and email address.
#[tool]
async fn test_elicitation(
    /// The message of the form.
    message: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let user: UserForm = ctx.ask("user", message).await?;
    Ok(format!("User response: action=accept, content={}", to_string(&user)?))
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct UserForm {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

/// Elicits a form with default values.
#[tool]
async fn test_elicitation_sep1034_defaults(ctx: Ctx) -> Result<String, ToolError> {
    let profile: ProfileForm = ctx.ask("profile", "Is this right?").await?;
    Ok(format!("Elicitation completed: action=accept, content={}", to_string(&profile)?))
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct ProfileForm {
    /// User name
    name: String,
    /// User age
    age: i64,
    /// User score
    score: f64,
    /// User status
    status: UserStatus,
    /// Verification status
    verified: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum UserStatus {
    Active,
    Inactive,
    Pending,
}

impl Default for ProfileForm {
    fn default() -> Self {
        ProfileForm {
            name: "John Doe".to_owned(),
            age: 30,
            score: 95.5,
            status: UserStatus::Active,
            verified: true,
        }
    }
}

/// Elicits a form with every type of choice.
#[tool]
async fn test_elicitation_sep1330_enums(ctx: Ctx) -> Result<String, ToolError> {
    let choices: ChoiceForm = ctx.ask("choices", "Which would you like?").await?;
    Ok(format!("Elicitation completed: action=accept, content={}", to_string(&choices)?))
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChoiceForm {
    untitled_single: UntitledOption,
    titled_single: TitledOption,
    // `enumNames`, the titles of older revisions.
    #[schemars(extend("enumNames" = ["Option One", "Option Two", "Option Three"]))]
    legacy_enum: LegacyOption,
    untitled_multi: Vec<UntitledOption>,
    titled_multi: Vec<TitledChoice>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum UntitledOption {
    Option1,
    Option2,
    Option3,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LegacyOption {
    Opt1,
    Opt2,
    Opt3,
}

// A variant's documentation is its title.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TitledOption {
    /// First Option
    Value1,
    /// Second Option
    Value2,
    /// Third Option
    Value3,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TitledChoice {
    /// First Choice
    Value1,
    /// Second Choice
    Value2,
    /// Third Choice
    Value3,
}

/// Requires the sampling capability.
#[tool]
async fn test_missing_capability(ctx: Ctx) -> Result<String, ToolError> {
    let question = SamplingRequest::new(100).user("What can you do?");
    Ok(ctx.sample("question", question).await?.text())
}

/// Elicits a note during the call, if the client supports it.
#[tool]
async fn test_streaming_elicitation(ctx: Ctx) -> Result<String, ToolError> {
    let NoteForm { note } = ctx.ask("note", "What should be noted?").await?;
    Ok(format!("Noted: {note}"))
}

#[derive(Deserialize, JsonSchema)]
struct NoteForm {
    note: String,
}

use wharf::prelude::*;

#[tool]
async fn no_uri(uri: Uri) -> String {
    uri.0
}

#[prompt]
async fn not_json(raw: RawArgs) -> String {
    raw.0.get().to_owned()
}

#[prompt]
async fn not_completing(typing: CompletionRequest) -> String {
    typing.value
}

fn main() {}

//! Skills of a server, with Wharf's client in each era.

mod access;
mod changes;
mod directory;
mod methods;
mod sources;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};
use wharf::{Client, Endpoint, Era, Server, client::ClientBuilder, skills::Skills};

/// Directory of a test, removed on drop.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wharf-skills-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        TestDirectory(path)
    }

    /// A directory with one skill, `refunds`.
    fn with_refunds() -> Self {
        let directory = TestDirectory::new();
        directory.write("refunds/SKILL.md", skill("refunds"));
        directory.write("refunds/examples/email.md", "Dear customer\n");
        directory
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn skills(&self) -> Skills {
        Skills::dir(self.path())
    }

    fn endpoint(&self) -> Endpoint {
        server().skills(self.skills()).build().unwrap()
    }

    /// Problems of building a server with the skills, one per line.
    fn problems(&self) -> Vec<String> {
        let error = server().skills(self.skills()).build().unwrap_err();
        let root = format!("{}/", self.0.display());
        error.problems().iter().map(|it| it.to_string().replace(&root, "")).collect()
    }

    /// Texts of the warnings.
    fn warnings(&self) -> Vec<String> {
        let root = format!("{}/", self.0.display());
        let problems = self.skills().lint().into_iter().filter(|it| !it.is_error());
        problems.map(|it| it.to_string().replace(&root, "")).collect()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn server() -> Server {
    Server::new("harbour", "1.0.0")
}

/// A `SKILL.md`.
fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\n# {name}\n")
}

/// Clients in process, and with bytes in each era.
fn builders() -> [ClientBuilder; 3] {
    [Client::builder(), Client::builder().era(Era::Modern), Client::builder().era(Era::Legacy)]
}

async fn connect(endpoint: Endpoint) -> Client {
    Client::builder().era(Era::Modern).connect(endpoint).await.unwrap()
}

async fn request(client: &Client, method: &str, params: Value) -> Value {
    let result = client.request(method, params).await.unwrap();
    serde_json::from_str(result.get()).unwrap()
}

/// Result of reading a resource.
async fn read(client: &Client, uri: &str) -> Value {
    json!(client.read(uri).await.unwrap().contents[0])
}

async fn uris(client: &Client) -> Vec<String> {
    let list = request(client, "skills/list", json!({})).await;
    list["skills"].as_array().unwrap().iter().map(|it| it["uri"].as_str().unwrap().into()).collect()
}

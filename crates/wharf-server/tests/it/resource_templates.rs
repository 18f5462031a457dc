//! Resource templates: parameters by name and type, percent-decoded before they are parsed.

use std::task::Poll;

use crate::support::{poll, start_without_runtime};
use schemars::JsonSchema;
use serde::Deserialize;
use wharf_model::{Body, ErrorKind, Event, Method, Outcome, Reply, RequestBuilder};
use wharf_server::{Args, Resource, Router};

fn read(router: &Router, uri: &str) -> Result<String, ErrorKind> {
    let request = RequestBuilder::new(Method::ReadResource).target(uri).build();
    match poll(&mut start_without_runtime(router, request)) {
        Poll::Ready(Event::Done(Outcome::Complete(Reply::Read(read)))) => {
            match read.contents.into_iter().next().unwrap().body {
                Body::Text(text) => Ok(text),
                body => panic!("{body:?}"),
            }
        }
        Poll::Ready(Event::Done(Outcome::Failed(error))) => Err(error.kind),
        other => panic!("{other:?}"),
    }
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "lowercase")]
enum Order {
    Newest,
    Oldest,
}

#[derive(Deserialize, JsonSchema, Debug)]
struct Posts {
    user: u32,
    path: Vec<String>,
    order: Option<Order>,
    limit: Option<u8>,
}

fn posts() -> Router {
    let show = async |Args(posts): Args<Posts>| {
        format!("{} {:?} {:?} {:?}", posts.user, posts.path, posts.order, posts.limit)
    };
    let template = Resource::new("blog://users/{user}/posts{/path*}{?order,limit}", show);
    Router::builder().add(template.name("posts")).build().unwrap()
}

#[test]
fn parameters_come_by_name_and_type() {
    let router = posts();
    for (uri, expected) in [
        ("blog://users/7/posts", "7 [] None None"),
        ("blog://users/7/posts/a/b%20c", r#"7 ["a", "b c"] None None"#),
        ("blog://users/7/posts?limit=5&order=oldest", "7 [] Some(Oldest) Some(5)"),
        ("blog://users/7/posts/x?order=newest", r#"7 ["x"] Some(Newest) None"#),
    ] {
        assert_eq!(read(&router, uri).as_deref(), Ok(expected), "{uri}");
    }
}

#[test]
fn parameters_of_the_wrong_type_are_rejected() {
    let router = posts();
    for uri in
        ["blog://users/7/posts/..%2Fx", "blog://users/7/posts?other=1", "blog://users//posts"]
    {
        assert_eq!(read(&router, uri), Err(ErrorKind::ResourceNotFound), "{uri}");
    }
    for uri in [
        "blog://users/me/posts",
        "blog://users/7/posts?order=best",
        "blog://users/7/posts?limit=256",
    ] {
        assert_eq!(read(&router, uri), Err(ErrorKind::InvalidParams), "{uri}");
    }
}

#[test]
fn an_invalid_template_is_a_build_error() {
    #[derive(Deserialize, JsonSchema)]
    struct Id {
        id: String,
    }
    for (template, reason) in
        [("x://{id:3}", "prefix"), ("x://{id", "no `}`"), ("x://{id}{id}", "put something")]
    {
        let resource = Resource::new(template, async |Args(Id { id }): Args<Id>| id);
        let error = Router::builder().add(resource.name("r")).build().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

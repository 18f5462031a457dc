//! Names that the expansion also uses may mean something else where the function stands.
#![deny(warnings)]

mod types {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    pub(crate) struct Arguments {
        pub(crate) value: i64,
    }

    /// A state of the union, not of the server.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    pub(crate) enum State {
        Ohio,
    }
}

#[allow(dead_code)]
mod hostile {
    use super::types::{Arguments, State};

    mod core {}
    mod schemars {}
    mod serde {}
    mod std {}
    mod wharf {}

    struct Args;
    struct Box;
    struct Into;
    struct Result;
    struct Send;
    struct Tool;
    struct Vec;

    #[::wharf::tool]
    pub(crate) async fn shadowed(
        arguments: Arguments,
        state: State,
        shadowed: i64,
        #[default("x")] value_0: ::std::string::String,
    ) -> i64 {
        let State::Ohio = state;
        arguments.value + shadowed + value_0.len() as i64
    }
}

pub(crate) fn main() {
    use hostile::shadowed;
    assert!(wharf::server::Router::builder().tool::<shadowed>().build().is_ok());
}

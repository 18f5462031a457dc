//! The crate as a dependency with another name.
#![deny(warnings)]

mod dock {
    pub(crate) mod deep {
        pub(crate) use wharf::*;
    }
}

mod wharf_is_not_here {
    use super::dock::deep as harbour;

    #[harbour::tool(cheap, crate = harbour)]
    pub(crate) fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    #[harbour::tool(cheap, app = "ui://sum", visibility = ["model"], crate = harbour)]
    pub(crate) fn show(a: i64) -> i64 {
        a
    }

    #[harbour::resource("demo://{name}", icon = "https://example.com/x.png", audience = "assistant", crate = super::dock::deep)]
    pub(crate) async fn note(name: String) -> String {
        name
    }
}

pub(crate) fn main() {
    use wharf_is_not_here::{add, note, show};
    assert_eq!(add(1, 2) + show(1), 4);
    drop(<show as wharf::server::ToolFn>::tool());
    drop(note(String::new()));
    assert!(wharf::server::Router::builder().tool::<add>().resource::<note>().build().is_ok());
}

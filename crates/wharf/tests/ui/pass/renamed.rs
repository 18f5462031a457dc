//! The crate under another name.
#![deny(warnings)]

mod dock {
    pub mod deep {
        pub use wharf::*;
    }
}

mod wharf_is_not_here {
    use crate::dock::deep as harbour;

    #[harbour::tool(cheap, crate = harbour)]
    pub fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    #[harbour::resource("demo://{name}", icon = "https://example.com/x.png", audience = "assistant", crate = crate::dock::deep)]
    pub async fn note(name: String) -> String {
        name
    }
}

fn main() {
    use wharf_is_not_here::{add, note};
    assert_eq!(add(1, 2), 3);
    drop(note(String::new()));
    assert!(wharf::Router::builder().tool::<add>().resource::<note>().build().is_ok());
}

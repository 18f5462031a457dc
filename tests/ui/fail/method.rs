use wharf::prelude::*;

struct Harbour;

impl Harbour {
    #[tool]
    async fn berth(&self, ship: String) -> String {
        ship
    }

    #[prompt]
    fn greet(self: Box<Self>) -> String {
        String::new()
    }
}

fn main() {}

use wharf::{
    middleware::Next,
    model::{Outcome, Request},
    prelude::*,
};

async fn function(request: Request, next: Next) -> Outcome {
    next.run(request).await
}

struct Layer;

fn main() {
    let _ = Server::new("demo", "1.0.0").layer(function);
    let _ = Server::new("demo", "1.0.0").layer(Layer);
}

//! Methods that the protocol does not define.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    handler::{
        AsyncEndpoint, Endpoint, Handler,
        extract::{Declaration, Extract},
        into_method_result::{IntoMethodResult, MethodConverter},
    },
    schema::ArgumentSchema,
};

/// Method that the protocol does not define, such as `acme/report`: an async function of extractors.
///
/// [`Args<T>`](crate::Args) reads the parameters of the request, and [`Json<T>`](crate::Json) is its
/// result. [`RouterBuilder::method`](crate::RouterBuilder::method) is short for a method without
/// options.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use wharf::{Args, Json, server::{CustomMethod, Router}};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Period { year: u16 }
///
/// #[derive(Serialize)]
/// struct Report { total: u64 }
///
/// async fn report(Args(Period { year }): Args<Period>) -> Json<Report> {
///     Json(Report { total: u64::from(year) })
/// }
///
/// let method = CustomMethod::new("acme/report", report).scope("reports");
/// let router = Router::builder().add(method).build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[must_use]
pub struct CustomMethod {
    pub(crate) name: String,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) declaration: Declaration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) scopes: Vec<String>,
    /// True for a notification of clients, which has no reply.
    pub(crate) is_notification: bool,
}

impl CustomMethod {
    /// Creates a method from its name, which contains `/`, and an async function.
    pub fn new<A, F>(name: impl Into<String>, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoMethodResult,
        A: Extract + 'static,
    {
        let mut declaration = Declaration::default();
        A::declare(&mut declaration);
        let endpoint = AsyncEndpoint::<F, A, MethodConverter>::endpoint(handler);
        CustomMethod {
            name: name.into(),
            endpoint,
            declaration,
            timeout: None,
            scopes: Vec::new(),
            is_notification: false,
        }
    }

    /// Returns the name of the method.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requires this scope of callers; called several times, all of them. Calling the method without
    /// them returns the scopes that are missing.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// Sets the total timeout of a call. A call that takes longer ends with an error.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn receives_notification(self) -> Self {
        CustomMethod { is_notification: true, ..self }
    }

    /// Returns the schema of its parameters.
    pub(crate) fn parameters(&self) -> ArgumentSchema {
        // A later version of a client may send more than a handler without parameters reads.
        self.declaration.arguments.first().cloned().unwrap_or_else(ArgumentSchema::anything)
    }
}

impl fmt::Debug for CustomMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomMethod").field("name", &self.name).finish_non_exhaustive()
    }
}

//! Table of the methods of the canonical protocol.
//!
//! How to add a method of the protocol, such as a list `skills/list` (each match is exhaustive, so what is forgotten does not compile):
//!
//! | file | what is added |
//! | --- | --- |
//! | `wharf-model/src/call/method.rs` | its row in `methods!` |
//! | `wharf-model/src/call/outcome.rs` | the variant of `Reply`, with its cache hint and its JSON |
//! | `wharf-wire/src/versions/revision.rs` | the revisions that have it |
//! | `wharf-wire/src/replies.rs` | writing and reading the result; for a list, its key and its translation |
//! | `wharf-server/src/router/dispatch.rs` | its dispatch |
//!
//! New types of the protocol, a handler and a typed call of the client are files of their own beside these. A method that is not part of the protocol needs
//! none of them (`docs/extensions.md`).

use crate::ServerCapabilities;

/// Direction of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Client to server: a call.
    Call,
    /// Server to client: a client request.
    ClientRequest,
}

/// Capability that a server declares if it offers a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// None: every server offers it, or an extension declares it.
    Nothing,
    /// `tools`.
    Tools,
    /// `resources`.
    Resources,
    /// `prompts`.
    Prompts,
    /// `completions`.
    Completions,
}

/// Time that a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It ends within the deadlines of a call.
    Short,
    /// It waits for something else to end, without a deadline.
    Waits,
    /// It is a stream of notifications, without a deadline.
    Stream,
}

/// Properties of a method that hold in every revision.
#[derive(Debug)]
#[non_exhaustive]
pub struct MethodInfo {
    /// The method.
    pub method: Method,
    /// Its name on the wire. The name of a custom method is in its request.
    pub name: &'static str,
    /// Direction of the method.
    pub direction: Direction,
    /// Parameter with the target of the call, repeated in an HTTP header.
    pub mirrored: Option<&'static str>,
    /// True if complete results carry cache hints.
    pub cacheable: bool,
    /// True if the handler may send client requests.
    pub may_suspend: bool,
    /// Capability that the server declares.
    pub needs: Needs,
    /// Time that a call takes.
    pub lifetime: Lifetime,
    /// True if a handler of the application runs: such calls count towards the limit of concurrent calls.
    pub runs_user_code: bool,
}

/// Defines [`Method`] and [`METHODS`], so that each variant has its row.
macro_rules! methods {
    ($($(#[$doc:meta])* $Method:ident: $name:literal, $who:ident, $mirrored:expr, $cacheable:literal,
        $suspends:literal, $needs:ident, $lifetime:ident, $user_code:literal;)*) => {
        /// Method of the canonical protocol: a call, or a server-to-client request.
        ///
        /// A new method of the protocol is a new variant, in a new minor version of this crate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $($(#[$doc])* $Method,)*
        }

        /// All methods, in the order of [`Method`].
        pub static METHODS: [MethodInfo; [$(Method::$Method),*].len()] = [
            $(MethodInfo {
                method: Method::$Method,
                name: $name,
                direction: Direction::$who,
                mirrored: $mirrored,
                cacheable: $cacheable,
                may_suspend: $suspends,
                needs: Needs::$needs,
                lifetime: Lifetime::$lifetime,
                runs_user_code: $user_code,
            },)*
        ];
    };
}

methods! {
    // Columns: name, direction, mirrored, cacheable, may suspend, needs, lifetime, runs user code.

    /// `server/discover`: identity and capabilities of the server.
    Discover: "server/discover", Call, None, true, false, Nothing, Short, false;
    /// `tools/list`.
    ListTools: "tools/list", Call, None, true, false, Tools, Short, false;
    /// `tools/call`.
    CallTool: "tools/call", Call, Some("name"), false, true, Tools, Short, true;
    /// `resources/list`.
    ListResources: "resources/list", Call, None, true, false, Resources, Short, false;
    /// `resources/templates/list`.
    ListTemplates: "resources/templates/list", Call, None, true, false, Resources, Short, false;
    /// `resources/read`.
    ReadResource: "resources/read", Call, Some("uri"), true, true, Resources, Short, true;
    /// `prompts/list`.
    ListPrompts: "prompts/list", Call, None, true, false, Prompts, Short, false;
    /// `prompts/get`.
    GetPrompt: "prompts/get", Call, Some("name"), false, true, Prompts, Short, true;
    /// `completion/complete`.
    Complete: "completion/complete", Call, None, false, false, Completions, Short, true;
    /// `subscriptions/listen`: a stream of change notifications.
    Listen: "subscriptions/listen", Call, None, false, false, Nothing, Stream, false;
    /// `tasks/get`: state of a task.
    GetTask: "tasks/get", Call, Some("taskId"), false, false, Nothing, Short, false;
    /// `tasks/update`: input responses for a task.
    UpdateTask: "tasks/update", Call, Some("taskId"), false, false, Nothing, Short, false;
    /// `tasks/cancel`.
    CancelTask: "tasks/cancel", Call, Some("taskId"), false, false, Nothing, Short, false;
    /// `tasks/result`: waits for the end of a task and returns its result.
    TaskResult: "tasks/result", Call, Some("taskId"), false, false, Nothing, Waits, false;
    /// `tasks/list`.
    ListTasks: "tasks/list", Call, None, false, false, Nothing, Short, false;
    /// Any method that the protocol does not define, such as `acme/report`:
    /// [`Request::method_name`](crate::Request::method_name) has its name.
    Custom: "custom method", Call, None, false, true, Nothing, Short, true;
    /// `elicitation/create`, from server to client.
    Elicit: "elicitation/create", ClientRequest, None, false, false, Nothing, Short, false;
    /// `sampling/createMessage`, from server to client.
    Sample: "sampling/createMessage", ClientRequest, None, false, false, Nothing, Short, false;
    /// `roots/list`, from server to client.
    ListRoots: "roots/list", ClientRequest, None, false, false, Nothing, Short, false;
}

/// Requests of the protocol that are no calls: they concern a connection or a session.
const CONTROL_REQUESTS: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

impl Method {
    /// Returns the row of the method in [`METHODS`].
    #[must_use]
    pub fn info(self) -> &'static MethodInfo {
        &METHODS[self as usize]
    }

    /// Returns the name of the method on the wire. The name of a custom method is in its request.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// assert_eq!(wharf::model::Method::CallTool.name(), "tools/call");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns whether `name` can be the name of a custom method or of an extension: it has a namespace, and
    /// nothing that HTTP headers would have to encode.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::Method;
    ///
    /// assert!(Method::is_qualified("acme/report"));
    /// assert!(!Method::is_qualified("report") && !Method::is_qualified("acme/my report"));
    /// ```
    #[must_use]
    pub fn is_qualified(name: &str) -> bool {
        let (namespace, rest) = name.split_once('/').unwrap_or_default();
        let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
        is_plain && name.len() <= 256 && !namespace.is_empty() && !rest.is_empty()
    }

    /// Returns the method of the protocol with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Method> {
        let row = METHODS.iter().find(|row| row.name == name)?;
        (row.method != Method::Custom).then_some(row.method)
    }

    /// Returns whether the protocol defines a message of this name, in any revision and direction. A custom method
    /// has another name.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::Method;
    ///
    /// assert!(Method::is_defined("tools/call") && Method::is_defined("resources/subscribe"));
    /// assert!(!Method::is_defined("acme/report"));
    /// ```
    #[must_use]
    pub fn is_defined(name: &str) -> bool {
        Method::from_name(name).is_some()
            || CONTROL_REQUESTS.contains(&name)
            || name.starts_with("notifications/")
    }
}

impl ServerCapabilities {
    /// Returns whether the capability that `method` needs is declared.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::{Method, ServerCapabilities};
    ///
    /// let none = ServerCapabilities::default();
    /// assert!(none.offer(Method::Discover) && !none.offer(Method::CallTool));
    /// ```
    #[must_use]
    pub fn offer(&self, method: Method) -> bool {
        match method.info().needs {
            Needs::Nothing => true,
            Needs::Tools => self.tools.is_some(),
            Needs::Resources => self.resources.is_some(),
            Needs::Prompts => self.prompts.is_some(),
            Needs::Completions => self.completions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enum() {
        for (index, row) in METHODS.iter().enumerate() {
            assert_eq!(row.method as usize, index, "{}", row.name);
            let of_protocol = (row.method != Method::Custom).then_some(row.method);
            assert_eq!(Method::from_name(row.name), of_protocol);
        }
    }
}

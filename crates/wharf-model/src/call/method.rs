//! Table of the methods of the canonical protocol.

/// Method of the canonical protocol: a call, or a server-to-client request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// `server/discover`: identity and capabilities of the server.
    Discover,
    /// `tools/list`.
    ListTools,
    /// `tools/call`.
    CallTool,
    /// `resources/list`.
    ListResources,
    /// `resources/templates/list`.
    ListTemplates,
    /// `resources/read`.
    ReadResource,
    /// `prompts/list`.
    ListPrompts,
    /// `prompts/get`.
    GetPrompt,
    /// `completion/complete`.
    Complete,
    /// `subscriptions/listen`: a stream of change notifications.
    Listen,
    /// `tasks/get`: state of a task.
    GetTask,
    /// `tasks/update`: input responses for a task.
    UpdateTask,
    /// `tasks/cancel`.
    CancelTask,
    /// `tasks/result`: waits for the end of a task and returns its result.
    TaskResult,
    /// `tasks/list`.
    ListTasks,
    /// `elicitation/create`, from server to client.
    Elicit,
    /// `sampling/createMessage`, from server to client.
    Sample,
    /// `roots/list`, from server to client.
    ListRoots,
}

/// Direction of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Client to server: a call.
    Call,
    /// Server to client: a client request.
    ClientRequest,
}

/// Properties of a method that hold in every revision.
#[derive(Debug)]
#[non_exhaustive]
pub struct MethodInfo {
    /// The method.
    pub method: Method,
    /// Its name on the wire.
    pub name: &'static str,
    /// Direction of the method.
    pub direction: Direction,
    /// Parameter with the target of the call, repeated in an HTTP header.
    pub mirrored: Option<&'static str>,
    /// True if complete results carry cache hints.
    pub cacheable: bool,
    /// True if the handler may send client requests.
    pub may_suspend: bool,
}

const fn row(
    method: Method,
    name: &'static str,
    direction: Direction,
    mirrored: Option<&'static str>,
    cacheable: bool,
    may_suspend: bool,
) -> MethodInfo {
    MethodInfo { method, name, direction, mirrored, cacheable, may_suspend }
}

/// All methods, in the order of [`Method`].
pub static METHODS: [MethodInfo; 18] = {
    use Direction::{Call, ClientRequest};
    use Method::*;
    [
        //  method         name                       who   mirrored      cacheable  may suspend
        row(Discover, "server/discover", Call, None, true, false),
        row(ListTools, "tools/list", Call, None, true, false),
        row(CallTool, "tools/call", Call, Some("name"), false, true),
        row(ListResources, "resources/list", Call, None, true, false),
        row(ListTemplates, "resources/templates/list", Call, None, true, false),
        row(ReadResource, "resources/read", Call, Some("uri"), true, true),
        row(ListPrompts, "prompts/list", Call, None, true, false),
        row(GetPrompt, "prompts/get", Call, Some("name"), false, true),
        row(Complete, "completion/complete", Call, None, false, false),
        row(Listen, "subscriptions/listen", Call, None, false, false),
        row(GetTask, "tasks/get", Call, Some("taskId"), false, false),
        row(UpdateTask, "tasks/update", Call, Some("taskId"), false, false),
        row(CancelTask, "tasks/cancel", Call, Some("taskId"), false, false),
        row(TaskResult, "tasks/result", Call, Some("taskId"), false, false),
        row(ListTasks, "tasks/list", Call, None, false, false),
        row(Elicit, "elicitation/create", ClientRequest, None, false, false),
        row(Sample, "sampling/createMessage", ClientRequest, None, false, false),
        row(ListRoots, "roots/list", ClientRequest, None, false, false),
    ]
};

impl Method {
    /// Returns the row of the method in [`METHODS`].
    #[must_use]
    pub fn info(self) -> &'static MethodInfo {
        &METHODS[self as usize]
    }

    /// Returns the name of the method on the wire.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// assert_eq!(wharf::model::Method::CallTool.name(), "tools/call");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the method with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Method> {
        METHODS.iter().find(|row| row.name == name).map(|row| row.method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enum() {
        for (index, row) in METHODS.iter().enumerate() {
            assert_eq!(row.method as usize, index, "{}", row.name);
            assert_eq!(Method::from_name(row.name), Some(row.method));
        }
    }
}

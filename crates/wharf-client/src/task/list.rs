//! Lists the client's tasks (`tasks/list`).

use std::collections::HashSet;

use wharf_model::{Error, ErrorKind, FailureOrigin, Method, Outcome, Reply, Task};

use crate::{
    ClientHandle,
    call::{request::CallSpec, result::unexpected},
    client_handle::unsupported,
    task::request_mode,
};

/// All tasks of the client, over all pages.
pub(crate) async fn all(caller: &ClientHandle) -> Result<Vec<Task>, Error> {
    let lists = |can: &wharf_model::Meta| can.contains_key("list");
    if !caller.capabilities().tasks.as_deref().is_some_and(lists) {
        let problem = "The server does not list tasks: store the ids that `call_task` returns";
        return Err(unsupported(problem));
    }
    let options = caller.options();
    let (mut all, mut cursors, mut cursor) = (Vec::new(), HashSet::new(), None);
    for _ in 0..options.pages {
        let spec = CallSpec { cursor: cursor.take(), ..CallSpec::new(Method::ListTasks) };
        let (tasks, next) = match request_mode::send(caller, spec, options.idle).await {
            Outcome::Complete(Reply::TaskList { tasks, next }) => (tasks, next),
            Outcome::Failed(error) => return Err(*error),
            _ => return Err(unexpected()),
        };
        all.extend(tasks);
        match next {
            None => return Ok(all),
            Some(next) if all.len() <= options.items && cursors.insert(next.clone()) => {
                cursor = Some(next);
            }
            Some(_) => break,
        }
    }
    let message = "The server's list of tasks exceeds the limits, so reading it was \
                   stopped; raise `CallOptions::{pages, items}` to read more";
    let error = Error::new(ErrorKind::ContentTooLarge).with_message(message);
    Err(error.from_client(FailureOrigin::Protocol))
}

//! Search for a tool in `tools/list` of the server.

use std::sync::Arc;

use wharf_model::{Error, ToolInfo};

use crate::{ClientHandle, PagedList};

/// Lists tools, without the cache, until `name` is found. The result is not cached if the list
/// changes meanwhile.
pub(crate) async fn find_tool(
    caller: &ClientHandle,
    name: &str,
) -> Result<Option<Arc<ToolInfo>>, Error> {
    let mut tools = PagedList::<ToolInfo>::new(caller).no_cache();
    while let Some(tool) = tools.next_item().await.transpose()? {
        if tool.name == name {
            return Ok(Some(tool));
        }
    }
    Ok(None)
}

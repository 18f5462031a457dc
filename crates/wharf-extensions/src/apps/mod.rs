//! Apps: HTML pages that a host shows for tools of a server (`io.modelcontextprotocol/ui`).

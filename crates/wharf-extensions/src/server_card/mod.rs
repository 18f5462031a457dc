//! Server cards: descriptions of servers for discovery (`io.modelcontextprotocol/server-card`).

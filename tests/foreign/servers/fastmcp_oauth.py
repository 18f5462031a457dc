"""A server of PyPI `fastmcp` that is its own authorization server: fastmcp_oauth.py

It registers clients, agrees for everybody at once, and authenticates clients with PyPI `mcp`'s token endpoint. Its tools
are `add`, `whoami`, and `expire`, which ends all access tokens."""

import asyncio
import socket
import sys

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_access_token

SCOPE = "files:read"


def build(origin):
    provider = InMemoryOAuthProvider(
        base_url=origin,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]
        ),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=[SCOPE],
    )
    mcp = FastMCP("foreign-fastmcp-oauth", auth=provider)

    @mcp.tool
    def add(a: int, b: int) -> str:
        return str(a + b)

    @mcp.tool
    def whoami() -> str:
        token = get_access_token()
        method = provider.clients[token.client_id].token_endpoint_auth_method
        return f"{method}: {' '.join(token.scopes)}"

    @mcp.tool
    def expire() -> str:
        count = len(provider.access_tokens)
        provider.access_tokens.clear()
        return str(count)

    return mcp


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = build(origin).http_app(path="/mcp")
    print(f"{origin}/mcp", file=sys.stderr, flush=True)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="info", lifespan="on")).serve(sockets=[listener]))


if __name__ == "__main__":
    main()

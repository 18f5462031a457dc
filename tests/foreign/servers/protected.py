"""Protected server of PyPI `mcp`, both eras: protected.py ISSUER

Its tools are `whoami`, `read_file` and `write_file`; every one of them needs files:read, and no other scope."""

import asyncio
import socket
import sys

import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

ISSUER = sys.argv[1]


class Verifier:
    """Verifies a token with the keys of its issuer."""

    def __init__(self, resource):
        self.resource = resource
        self.keys = jwt.PyJWKClient(f"{ISSUER}/jwks")

    async def verify_token(self, token):
        try:
            key = await asyncio.to_thread(self.keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(token, key, algorithms=["ES256"], audience=self.resource, issuer=ISSUER)
        except jwt.PyJWTError:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"],
            resource=self.resource,
            subject=claims["sub"],
        )


def build(resource):
    settings = AuthSettings(
        issuer_url=ISSUER, resource_server_url=resource, required_scopes=["files:read"], validate_token_resource=True
    )
    mcp = MCPServer("foreign-protected", auth=settings, token_verifier=Verifier(resource), log_level="WARNING")

    @mcp.tool(structured_output=False)
    def whoami() -> str:
        token = get_access_token()
        return f"{token.subject}: {' '.join(token.scopes)}"

    @mcp.tool(structured_output=False)
    def read_file(name: str) -> str:
        return f"{name}, as {get_access_token().subject} read it"

    @mcp.tool(structured_output=False)
    def write_file(name: str) -> str:
        return f"{name}, as {get_access_token().subject} wrote it"

    return mcp


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    resource = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    app = build(resource).streamable_http_app()
    print(resource, file=sys.stderr, flush=True)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on")).serve(sockets=[listener]))


if __name__ == "__main__":
    main()

"""PyPI `mcp` at a protected server, with its own OAuth code: authorized.py --legacy|--modern URL

The tools are those that `authorized.mjs` tells of."""

import json
import os
import sys
import urllib.request
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from harness import attempt, same, target

CALLBACK = "http://127.0.0.1:7/callback"  # no listener: the test reads the redirect


class Person:
    """Token storage of the SDK, and the consenting user."""

    def __init__(self):
        self.tokens = None
        self.client = None
        self.visits = []
        self.landed = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client

    async def go(self, url):
        self.visits.append(query(url))
        self.landed = query(await anyio.to_thread.run_sync(lambda: tell("/visit", {"url": url})["location"]))

    async def come_back(self):
        return AuthorizationCodeResult(**{name: self.landed.get(name) for name in ("code", "state", "iss")})


def query(url):
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def tell(path, what):
    """Sends a request to the control endpoint of the authorization server."""
    with urllib.request.urlopen(os.environ["AUTH_CONTROL"] + path, json.dumps(what).encode()) as answer:
        return json.load(answer)


async def main():
    to = target()
    person = Person()
    metadata = OAuthClientMetadata(
        client_name="foreign",
        redirect_uris=[CALLBACK],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(to.command, metadata, person, person.go, person.come_back)
    passed = True
    async with httpx2.AsyncClient(auth=auth, timeout=30) as http:
        mode = "auto" if to.era == "modern" else "legacy"
        async with Client(streamable_http_client(to.command, http_client=http), mode=mode) as client:

            async def text(tool, **arguments):
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                return result.content[0].text

            async def first():
                same(len(person.visits), 1)
                same(person.visits[0]["resource"], to.command)
                same(person.visits[0]["code_challenge_method"], "S256")
                same(client.protocol_version, "2026-07-28" if to.era == "modern" else "2025-11-25")

            async def known():
                said = await text("whoami")
                assert said.startswith("ada: "), said

            async def read():
                same(await text("read_file", name="log"), "log, as ada read it")

            async def listed():
                same(sorted(tool.name for tool in (await client.list_tools()).tools), ["read_file", "whoami"])

            async def more():
                same(person.tokens.scope, "files:read")
                same(await text("write_file", name="log"), "log, as ada wrote it")
                same(len(person.visits), 2)
                same(sorted(person.tokens.scope.split()), ["files:read", "files:write"])

            async def refreshed():
                spent = person.tokens.refresh_token
                auth.context.token_expiry_time = 1.0
                await known()
                same(len(person.visits), 2)
                assert person.tokens.refresh_token != spent, "the refresh token was not rotated"

            async def rotated():
                tell("/keys", {"keep": True})
                auth.context.token_expiry_time = 1.0
                # The next token is signed with a key that the server has not fetched yet.
                await known()
                same(len(person.visits), 2)

            checks = {
                "a stranger is sent away, and comes back with a token": first,
                "the handler knows the caller": known,
                "one scope is enough for one tool": read,
                "what the caller may not do is not listed": listed,
                "more is asked for when more is needed": more,
                "an old token is exchanged for a new one, and nobody is asked": refreshed,
                "a new key locks nobody out": rotated,
            }
            for name, check in checks.items():
                passed &= await attempt(name, check())
    return passed


if __name__ == "__main__":
    sys.exit(0 if anyio.run(main) else 1)

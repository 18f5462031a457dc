"""The server of the benchmarks, on FastMCP.

server.py stdio TOOLS | http PORT TOOLS stateful|stateless|2026

BENCH_STORE is the URL of a Redis: then there is a tool that runs as a task, too.
"""

import asyncio
import logging
import os
import sys
from datetime import timedelta

import uvicorn
from fastmcp import Context, FastMCP


def prime_factors(n: int) -> int:
    count, divisor = 0, 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            n //= divisor
            count += 1
        divisor += 1 if divisor == 2 else 2
    return count + (n > 1)


def build(tools: int) -> FastMCP:
    server = FastMCP("bench")

    @server.tool
    async def echo(text: str) -> str:
        """Returns its text."""
        return text

    @server.tool
    async def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @server.tool
    async def progress(context: Context) -> str:
        """Sends a hundred notifications."""
        for done in range(1, 101):
            await context.report_progress(done, 100)
        return "done"

    @server.tool
    async def noop(n: int) -> int:
        """Returns the number."""
        return n

    @server.tool
    async def compute(n: int) -> int:
        """Counts prime factors."""
        return prime_factors(n)

    @server.tool
    async def io(n: int) -> int:
        """Counts prime factors between two waits."""
        await asyncio.sleep(0.001)
        result = prime_factors(n)
        await asyncio.sleep(0.001)
        return result

    @server.resource("mem://static", mime_type="text/plain")
    def static() -> str:
        return "static"

    @server.prompt
    def hello() -> str:
        """A greeting."""
        return "hello"

    for i in range(tools):
        server.tool(numbered(i))
    if store := os.environ.get("BENCH_STORE"):
        add_tasks(server, store)
    return server


def add_tasks(server: FastMCP, store: str) -> None:
    from fastmcp.utilities.tasks import TaskConfig
    from fastmcp_tasks import TasksExtension

    # Higher than the defaults of ten concurrent tasks and a hundred connections, which many clients use up.
    url = f"{store}?max_connections=1000"
    server.add_extension(TasksExtension(url=url, concurrency=256))
    poll_interval = timedelta(milliseconds=int(os.environ["BENCH_POLL_MS"]))

    @server.tool(task=TaskConfig(mode="required", poll_interval=poll_interval))
    async def job(n: int) -> int:
        """Returns the number, as a task."""
        return n


def numbered(i: int):
    async def tool(text: str) -> str:
        return text

    tool.__name__ = f"tool_{i}"
    tool.__doc__ = f"Generated tool number {i}"
    return tool


def main() -> None:
    logging.disable(logging.WARNING)
    match sys.argv[1:]:
        case ["stdio", tools]:
            build(int(tools)).run(transport="stdio", show_banner=False)
        case ["http", port, tools, mode]:
            alone = mode != "stateful"
            app = build(int(tools)).http_app(path="/mcp", stateless_http=alone, json_response=alone)
            uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", access_log=False)


main()

"""Shared code of the Python drivers: target, checks, and a proxy that cuts connections."""

import asyncio
import logging
import sys
import time
import warnings
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio

# The SDK warns about every call of the legacy era.
warnings.simplefilter("ignore")

CHECK_SECONDS = 10
QUIET_SECONDS = 0.3
CLOSE_SECONDS = 2  # after that long the SDK sends SIGTERM


@dataclass
class Target:
    """Arguments of a driver: the era, and the server to start or the address to connect to."""

    era: str
    command: str
    args: list[str]

    @property
    def over(self):
        if not self.command.startswith("http:"):
            return "stdio"
        return "sse" if urlsplit(self.command).path == "/sse" else "http"


def target():
    eras = {"--legacy": "legacy", "--modern": "modern"}
    if len(sys.argv) < 3 or sys.argv[1] not in eras:
        sys.exit(f"usage: {sys.argv[0]} --legacy|--modern URL, or instead of the URL: SERVER [ARGUMENT ...]")
    return Target(eras[sys.argv[1]], sys.argv[2], sys.argv[3:])


class Checks:
    """Checks of a driver, in order. Some apply to one era or one transport only."""

    def __init__(self):
        self.all = []

    def __call__(self, name, era=None, over=None):
        def register(body):
            self.all.append((name, era, over, body))
            return body

        return register

    async def run(self, driver):
        """Connects and runs all checks with `driver`: {target, errors, client, connect()}."""
        logging.getLogger().addHandler(Complaints(driver.errors))
        passed = True
        async with driver.connect() as driver.client:
            print("ok connect", flush=True)
            for name, era, over, body in self.all:
                if era in (None, driver.target.era) and over in (None, driver.target.over):
                    passed &= await attempt(name, body(driver))
            start = time.monotonic()
        return passed & await attempt("close", closed(driver, time.monotonic() - start))


async def closed(driver, seconds):
    assert seconds < CLOSE_SECONDS, "the server did not end when its input ended"
    same(driver.errors, [])


def main(checks, driver):
    try:
        sys.exit(0 if anyio.run(checks.run, driver) else 1)
    except Exception as error:
        sys.exit(f"FAIL connection: {error!r}")


async def attempt(name, check):
    try:
        with anyio.fail_after(CHECK_SECONDS):
            await check
    except TimeoutError:
        print(f"FAIL {name}: no answer in {CHECK_SECONDS} s", flush=True)
        return False
    except Exception as error:
        print(f"FAIL {name}: {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
        return False
    print(f"ok {name}", flush=True)
    return True


def same(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


class Complaints(logging.Handler):
    """Log handler that turns the SDK's warnings about invalid notifications into errors."""

    def __init__(self, errors):
        super().__init__(logging.WARNING)
        self.errors = errors

    def emit(self, record):
        self.errors.append(record.getMessage())


class Proxy:
    """TCP proxy that cuts its connections when the server sends each of `marks` in turn."""

    def __init__(self, url, marks):
        self.server = urlsplit(url)
        self.marks = marks
        self.url = None
        self.cuts = 0
        self.writers = set()
        self.connected = asyncio.Event()

    def cut(self):
        """Cuts all connections now."""
        self.cuts += 1
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    async def cut_and_wait(self):
        """Cuts all connections and waits for the next one."""
        self.connected.clear()
        self.cut()
        await self.connected.wait()

    async def serve(self, client_reader, client):
        self.connected.set()
        server_reader, server = await asyncio.open_connection(self.server.hostname, self.server.port)
        self.writers |= {client, server}
        await asyncio.gather(self.pump(client_reader, server), self.pump(server_reader, client, self.marks))

    async def pump(self, reader, writer, marks=()):
        try:
            while data := await reader.read(1 << 16):
                mark = marks[self.cuts].encode() if self.cuts < len(marks) else None
                cut = mark is not None and mark in data
                writer.write(data.partition(mark)[0] if cut else data)
                await writer.drain()
                if cut:
                    self.cut()
        except OSError:
            pass
        writer.close()


@asynccontextmanager
async def proxy_to(url, marks=()):
    proxy = Proxy(url, marks)
    async with await asyncio.start_server(proxy.serve, proxy.server.hostname) as server:
        port = server.sockets[0].getsockname()[1]
        proxy.url = proxy.server._replace(netloc=f"{proxy.server.hostname}:{port}").geturl()
        yield proxy
        proxy.cut()

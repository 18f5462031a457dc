"""Shared code of both Python servers: their data, and their start."""

import asyncio
import socket
import sys
import warnings

import uvicorn
from mcp.server.streamable_http import EventMessage, EventStore
from pydantic import BaseModel

# The SDK warns that features of the legacy era are deprecated.
warnings.simplefilter("ignore")

CLOCK = "demo://clock"
COMPLETIONS = {
    "language": ["python", "pascal", "perl", "rust"],
    "name": ["shopping", "standup", "story"],
}


class Weather(BaseModel):
    city: str
    celsius: float
    sky: str


class Confirm(BaseModel):
    confirmed: bool
    note: str = "none"


class State:
    touches = 0
    cancelled = 0


def candidates(argument):
    return [word for word in COMPLETIONS.get(argument.name, []) if word.startswith(argument.value)]


def review_text(code, language=None):
    return f"Review this {language + ' ' if language else ''}code:\n{code}"


async def sleep(seconds, report_progress):
    """Counts cancelled calls."""
    try:
        # Progress shows the client that the call runs and can be cancelled.
        await report_progress(0, 1)
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        State.cancelled += 1
        raise
    return "slept"


async def count_down(steps, report_progress, log):
    for step in range(1, steps + 1):
        await report_progress(step, steps)
        await log(steps - step)
        await asyncio.sleep(0.005)
    return "lift-off"


class Events(EventStore):
    """Event store, from which a client resumes a broken stream."""

    def __init__(self):
        self.all = []

    async def store_event(self, stream_id, message):
        self.all.append((stream_id, message))
        return str(len(self.all) - 1)

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id)
        stream = self.all[last][0]
        for place, (stream_id, message) in list(enumerate(self.all))[last + 1 :]:
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(place)))
        return stream


def main(stdio, http_app, sse_app=None):
    """Serves over stdio, or with --http or --sse at a free port, which it prints on stderr."""
    app = {"--http": http_app, "--sse": sse_app}.get(sys.argv[-1])
    if app is None:
        stdio()
        return
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    config = uvicorn.Config(app(), log_level="warning", lifespan="on")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))

"""Server of PyPI `fastmcp` with most features of the demo server: fastmcp_server.py [--http]"""

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.event_store import EventStore
from fastmcp.tools import ToolResult

import demo
from demo import CLOCK, Confirm, State, Weather

mcp = FastMCP("foreign-fastmcp", instructions="Add numbers.", version="1.0.0")
Text = ToolResult | types.InputRequiredResult


def text(said):
    return ToolResult(content=[types.TextContent(type="text", text=said)])


def is_modern(ctx):
    return ctx.request_context.protocol_version >= "2026"


@mcp.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> ToolResult:
    return text(str(a + b))


@mcp.tool
def echo(text: str) -> str:
    return text


@mcp.tool
def weather(city: str) -> Weather:
    return Weather(city=city, celsius=21.5, sky="clear")


@mcp.tool
def fail(reason: str) -> str:
    raise ToolError(reason)


@mcp.tool
async def countdown(steps: int, ctx: Context) -> str:
    async def log(left):
        await ctx.info("left", logger_name="countdown", extra={"left": left})

    return await demo.count_down(steps, ctx.report_progress, log)


@mcp.tool
async def sleep(seconds: float, ctx: Context) -> str:
    return await demo.sleep(seconds, ctx.report_progress)


@mcp.tool
def cancelled() -> ToolResult:
    return text(str(State.cancelled))


async def ask(ctx, request, legacy):
    """Returns the input response, or the result with which the tool requests it."""
    if not is_modern(ctx):
        return await legacy(), None
    if ctx.input_responses:
        return ctx.input_responses["it"], None
    return None, types.InputRequiredResult(input_requests={"it": request})


@mcp.tool
async def deploy(build: str, ctx: Context) -> Text:
    message, schema = f"Deploy {build}?", Confirm.model_json_schema()
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    answer, first = await ask(
        ctx,
        types.ElicitRequest(params=params),
        lambda: ctx.session.elicit(message, schema, related_request_id=ctx.request_id),
    )
    if first:
        return first
    if answer.action != "accept":
        raise ToolError({"decline": "declined", "cancel": "cancelled"}[answer.action])
    data = Confirm.model_validate(answer.content)
    return text(f"deployed {build}, note: {data.note}" if data.confirmed else "kept")


@mcp.tool
async def sign_in(ctx: Context) -> Text:
    page = types.ElicitRequestURLParams(
        message="Sign in to continue.", url="https://example.com/sign-in", elicitation_id="sign-in-1"
    )
    answer, first = await ask(
        ctx,
        types.ElicitRequest(params=page),
        lambda: ctx.session.elicit_url(
            page.message, page.url, page.elicitation_id, related_request_id=ctx.request_id
        ),
    )
    if first:
        return first
    if answer.action != "accept":
        raise ToolError(answer.action)
    return text("signed in")


@mcp.tool
async def poem(topic: str, ctx: Context) -> Text:
    wish = types.TextContent(type="text", text=f"Write one line about {topic}.")
    messages = [types.SamplingMessage(role="user", content=wish)]
    answer, first = await ask(
        ctx,
        types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=messages, max_tokens=100)),
        lambda: ctx.session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id),
    )
    return first or text(answer.content.text)


@mcp.tool
async def workspace(ctx: Context) -> Text:
    answer, first = await ask(ctx, types.ListRootsRequest(), ctx.session.list_roots)
    return first or text("\n".join(str(root.uri) for root in answer.roots))


@mcp.tool
async def set_bonus(on: bool, ctx: Context) -> str:
    there = "bonus" in [tool.name for tool in await mcp.list_tools()]
    if on and not there:
        mcp.tool(lambda: "a bonus", name="bonus")
    elif there and not on:
        mcp.local_provider.remove_tool("bonus")
    if not is_modern(ctx):
        await ctx.session.send_tool_list_changed()
    return "on" if on else "off"


@mcp.tool
def touch() -> str:
    State.touches += 1
    return "touched"


@mcp.resource("demo://readme", mime_type="text/plain")
def readme() -> str:
    return "Read me."


@mcp.resource(CLOCK, mime_type="text/plain")
def clock() -> str:
    return str(State.touches)


@mcp.resource("demo://notes/{name}", mime_type="text/plain")
def notes(name: str) -> str:
    return f"Note {name}"


@mcp.prompt
def greet(name: str) -> str:
    return f"Say hello to {name}."


@mcp.prompt
def review(code: str, language: str | None = None) -> str:
    return demo.review_text(code, language)


@mcp.completion
def complete(_ref, argument, _context):
    return demo.candidates(argument)


def stdio():
    mcp.run(show_banner=False, log_level="WARNING")


def http_app():
    return mcp.http_app(event_store=EventStore(), retry_interval=50)


if __name__ == "__main__":
    demo.main(stdio, http_app)

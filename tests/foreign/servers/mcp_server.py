"""Server of PyPI `mcp` with most features of the demo server: mcp_server.py [--http|--sse]"""

from typing import Annotated

import mcp_types as types
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample

import demo
from demo import CLOCK, Confirm, State, Weather

mcp = MCPServer("foreign-python", instructions="Add numbers.", version="1.0.0", log_level="WARNING")
READ_ONLY = types.ToolAnnotations(read_only_hint=True)
SUBSCRIBED = set()


@mcp.tool(annotations=READ_ONLY, structured_output=False)
def add(a: int, b: int) -> str:
    return str(a + b)


@mcp.tool(structured_output=False)
def echo(text: str) -> str:
    return text


@mcp.tool()
def weather(city: str) -> Weather:
    return Weather(city=city, celsius=21.5, sky="clear")


@mcp.tool()
def fail(reason: str) -> str:
    raise ToolError(reason)


@mcp.tool(structured_output=False)
async def countdown(steps: int, ctx: Context) -> str:
    async def log(left):
        await ctx.info({"left": left}, logger_name="countdown")

    return await demo.count_down(steps, ctx.report_progress, log)


@mcp.tool(structured_output=False)
async def sleep(seconds: float, ctx: Context) -> str:
    return await demo.sleep(seconds, ctx.report_progress)


@mcp.tool(structured_output=False)
def cancelled() -> str:
    return str(State.cancelled)


def ask_to_deploy(build: str):
    return Elicit(f"Deploy {build}?", Confirm)


@mcp.tool(structured_output=False)
def deploy(build: str, answer: Annotated[ElicitationResult[Confirm], Resolve(ask_to_deploy)]) -> str:
    if not isinstance(answer, AcceptedElicitation):
        raise ToolError({"decline": "declined", "cancel": "cancelled"}[answer.action])
    return f"deployed {build}, note: {answer.data.note}" if answer.data.confirmed else "kept"


def ask_for_a_line(topic: str):
    text = types.TextContent(type="text", text=f"Write one line about {topic}.")
    return Sample([types.SamplingMessage(role="user", content=text)], max_tokens=100)


@mcp.tool(structured_output=False)
def poem(topic: str, line: Annotated[types.CreateMessageResult, Resolve(ask_for_a_line)]) -> str:
    return line.content.text


def ask_for_roots():
    return ListRoots()


@mcp.tool(structured_output=False)
def workspace(answer: Annotated[types.ListRootsResult, Resolve(ask_for_roots)]) -> str:
    return "\n".join(str(root.uri) for root in answer.roots)


@mcp.tool(structured_output=False)
async def sign_in(ctx: Context) -> types.CallToolResult | types.InputRequiredResult:
    page = types.ElicitRequestURLParams(
        message="Sign in to continue.", url="https://example.com/sign-in", elicitation_id="sign-in-1"
    )
    if ctx.protocol_version < "2026":
        answer = await ctx.elicit_url(page.message, page.url, page.elicitation_id)
    elif ctx.input_responses:
        answer = ctx.input_responses["page"]
    else:
        return types.InputRequiredResult(input_requests={"page": types.ElicitRequest(params=page)})
    if answer.action != "accept":
        raise ToolError(answer.action)
    return types.CallToolResult(content=[types.TextContent(type="text", text="signed in")])


@mcp.tool(structured_output=False)
async def set_bonus(on: bool, ctx: Context) -> str:
    tools = [tool.name for tool in await mcp.list_tools()]
    if on and "bonus" not in tools:
        mcp.add_tool(lambda: "a bonus", name="bonus", structured_output=False)
    elif not on and "bonus" in tools:
        mcp.remove_tool("bonus")
    await ctx.notify_tools_changed()
    if ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return "on" if on else "off"


@mcp.tool(structured_output=False)
async def touch(ctx: Context) -> str:
    State.touches += 1
    await ctx.notify_resource_updated(CLOCK)
    if ctx.protocol_version < "2026" and CLOCK in SUBSCRIBED:
        await ctx.session.send_resource_updated(CLOCK)
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


@mcp.prompt()
def greet(name: str) -> str:
    return f"Say hello to {name}."


@mcp.prompt()
def review(code: str, language: str | None = None) -> str:
    return demo.review_text(code, language)


@mcp.completion()
async def complete(_ref, argument, _context):
    return types.Completion(values=demo.candidates(argument))


async def subscribe(_ctx, params):
    SUBSCRIBED.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(_ctx, params):
    SUBSCRIBED.discard(str(params.uri))
    return types.EmptyResult()


async def set_level(_ctx, _params):
    return types.EmptyResult()


# Only the low-level server has these features of the legacy era.
lower = mcp._lowlevel_server
lower.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
lower.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
lower.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)


def http_app():
    return mcp.streamable_http_app(event_store=demo.Events(), retry_interval=50)


if __name__ == "__main__":
    demo.main(mcp.run, http_app, mcp.sse_app)

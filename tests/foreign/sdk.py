"""Checks the demo server with PyPI `mcp`: sdk.py --legacy|--modern URL, or SERVER [ARGUMENT ...]"""

import base64
import json
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

from harness import QUIET_SECONDS, Checks, main, proxy_to, same, target

PNG = b"\x89PNG"

check = Checks()


class Driver:
    """Connected client, the received server requests and notifications, and the answers to requests."""

    def __init__(self, target):
        self.target = target
        self.era = target.era
        self.client = None
        self.elicitation = types.ElicitResult(action="cancel")
        self.asked = []
        self.notices = []
        self.errors = []

    def server(self):
        match self.target.over:
            case "stdio":
                return StdioServerParameters(command=self.target.command, args=self.target.args)
            case "sse":
                return sse_client(self.target.command)
            case "http":
                return self.target.command

    def connect(self, url=None):
        return Client(
            url or self.server(),
            mode="auto" if self.era == "modern" else "legacy",
            client_info=types.Implementation(name=f"foreign-python-{self.era}", version="1.0.0"),
            elicitation_callback=self.on_elicitation,
            sampling_callback=self.on_sampling,
            list_roots_callback=self.on_roots,
            message_handler=self.on_message,
        )

    async def on_elicitation(self, _context, params):
        self.asked.append(params)
        return self.elicitation

    async def on_sampling(self, _context, params):
        self.asked.append(params)
        line = types.TextContent(type="text", text="The sea, the sea.")
        return types.CreateMessageResult(role="assistant", model="foreign", content=line)

    async def on_roots(self, _context):
        roots = [types.Root(uri="file:///work/one", name="one"), types.Root(uri="file:///work/two")]
        return types.ListRootsResult(roots=roots)

    async def on_message(self, message):
        if isinstance(message, Exception):
            self.errors.append(repr(message))
        else:
            self.notices.append(message)

    async def text(self, name, arguments=None, **options):
        result = await self.client.call_tool(name, arguments or {}, **options)
        assert not result.is_error, f"isError: {result.content}"
        return result.content[0].text

    async def tool_error(self, name, arguments):
        result = await self.client.call_tool(name, arguments)
        same(result.is_error, True)
        return result.content[0].text

    async def read(self, uri):
        contents = (await self.client.read_resource(uri)).contents
        same([str(item.uri) for item in contents], [uri])
        return contents[0]

    async def log_level(self, level):
        """Enables log messages; its result goes into the call's `_meta`."""
        if self.era == "modern":
            return {types.LOG_LEVEL_META_KEY: level}
        await self.client.set_logging_level(level)
        return None

    def heard(self, kind):
        return [notice.params for notice in self.notices if isinstance(notice, kind)]

    async def hear(self, kind, count):
        """Waits for notifications, which separate tasks deliver and which may follow the result."""
        while len(self.heard(kind)) < count:
            await anyio.sleep(0.005)
        return self.heard(kind)

    @asynccontextmanager
    async def watch(self, uri):
        if self.era == "modern":
            async with self.client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:
                same(subscription.honored.tools_list_changed, True)
                same(subscription.honored.resource_subscriptions, [uri])
                yield subscription
        else:
            await self.client.subscribe_resource(uri)
            yield None
            await self.client.unsubscribe_resource(uri)


async def failure(awaitable):
    try:
        await awaitable
    except MCPError as error:
        return error
    raise AssertionError("it succeeded")


@check("revision")
async def _(d):
    same(d.client.protocol_version, "2026-07-28" if d.era == "modern" else "2025-11-25")


@check("server name")
async def _(d):
    assert d.client.server_info, "the server did not give its name"
    same(d.client.server_info.name, "wharf-demo")


@check("instructions")
async def _(d):
    assert d.client.instructions, "there are none"


@check("capabilities")
async def _(d):
    has = d.client.server_capabilities
    same(has.tools and has.tools.list_changed, True)
    same(has.resources and has.resources.subscribe, True)
    same(has.resources.list_changed, True)
    same(has.prompts and has.prompts.list_changed, True)
    assert has.completions is not None, "completions"
    assert has.logging is not None, "logging"


@check("list tools")
async def _(d):
    tools = {tool.name: tool for tool in (await d.client.list_tools()).tools}
    expected = "add countdown deploy echo fail forecast gallery pay_share poem set_bonus sign_in sleep split_bill touch"
    expected += " voyage weather workspace"
    same(sorted(tools), expected.split())
    assert tools["add"].description, "add has no description"
    same(tools["add"].input_schema["properties"]["a"]["type"], "integer")
    same(sorted(tools["add"].input_schema["required"]), ["a", "b"])
    same(tools["weather"].output_schema["type"], "object")


@check("call add")
async def _(d):
    same(await d.text("add", {"a": 2, "b": 3}), "5")


@check("call echo")
async def _(d):
    odd = 'naïve ☃ 𝄞 "quoted" \\ \n line\u2028separator'
    same(await d.text("echo", {"text": odd}), odd)


@check("a long message")
async def _(d):
    long = "x" * 1_000_000
    same(len(await d.text("echo", {"text": long})), len(long))


@check("structured output")
async def _(d):
    result = await d.client.call_tool("weather", {"city": "Oslo"})
    weather = result.structured_content
    same(weather["city"], "Oslo")
    assert isinstance(weather["celsius"], int | float), weather
    assert isinstance(weather["sky"], str), weather
    same(json.loads(result.content[0].text), weather)


@check("content types")
async def _(d):
    content = {item.type: item for item in (await d.client.call_tool("gallery", {})).content}
    same(sorted(content), ["audio", "image", "resource", "resource_link", "text"])
    assert content["text"].text
    same(content["image"].mime_type, "image/png")
    assert base64.b64decode(content["image"].data).startswith(PNG), "not a PNG"
    same(content["audio"].mime_type, "audio/wav")
    assert base64.b64decode(content["audio"].data).startswith(b"RIFF"), "not a WAV"
    same(str(content["resource_link"].uri), "demo://readme")
    same(str(content["resource"].resource.uri), "demo://readme")
    assert content["resource"].resource.text


@check("a tool error")
async def _(d):
    same(await d.tool_error("fail", {"reason": "out of fuel"}), "out of fuel")


@check("an unknown tool")
async def _(d):
    error = await failure(d.client.call_tool("nothing", {}))
    same(error.code, -32602)
    assert "nothing" in error.message, error.message


@check("a slow call blocks no other")
async def _(d):
    order = []

    async def call(name, arguments):
        await d.text(name, arguments)
        order.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(call, "sleep", {"seconds": 0.3})
        await anyio.sleep(0.05)
        group.start_soon(call, "add", {"a": 1, "b": 1})
    same(order, ["add", "sleep"])


@check("list resources")
async def _(d):
    resources = (await d.client.list_resources()).resources
    expected = {"demo://readme": "text/markdown", "demo://logo": "image/png", "demo://clock": "text/plain"}
    expected["ui://wharf-demo/bill"] = "text/html;profile=mcp-app"
    same({str(resource.uri): resource.mime_type for resource in resources}, expected)


@check("list templates")
async def _(d):
    templates = (await d.client.list_resource_templates()).resource_templates
    same(sorted(item.uri_template for item in templates), ["demo://files/{+path}", "demo://notes/{name}"])


@check("read a text")
async def _(d):
    readme = await d.read("demo://readme")
    same(readme.mime_type, "text/markdown")
    assert readme.text


@check("read a blob")
async def _(d):
    logo = await d.read("demo://logo")
    same(logo.mime_type, "image/png")
    assert base64.b64decode(logo.blob).startswith(PNG), "not a PNG"


@check("read a template")
async def _(d):
    same((await d.read("demo://notes/standup")).text, "Note standup")
    same((await d.read("demo://files/a/b.txt")).text, "File a/b.txt")


@check("an unknown resource")
async def _(d):
    error = await failure(d.read("demo://nothing"))
    same(error.code, -32602 if d.era == "modern" else -32002)
    same(error.data["uri"], "demo://nothing")


@check("list prompts")
async def _(d):
    prompts = (await d.client.list_prompts()).prompts
    required = {prompt.name: [(a.name, bool(a.required)) for a in prompt.arguments] for prompt in prompts}
    same(required, {"greet": [("name", True)], "review": [("code", True), ("language", False)]})


@check("get a prompt")
async def _(d):
    async def get(name, arguments):
        messages = (await d.client.get_prompt(name, arguments)).messages
        same([message.role for message in messages], ["user"])
        return messages[0].content.text

    same(await get("greet", {"name": "Ada"}), "Say hello to Ada.")
    same(await get("review", {"code": "f()", "language": "rust"}), "Review this rust code:\nf()")
    same(await get("review", {"code": "f()"}), "Review this code:\nf()")


@check("a prompt without its argument")
async def _(d):
    same((await failure(d.client.get_prompt("greet", {}))).code, -32602)


@check("complete a template")
async def _(d):
    ref = types.ResourceTemplateReference(type="ref/resource", uri="demo://notes/{name}")
    values = (await d.client.complete(ref, {"name": "name", "value": "st"})).completion.values
    same(sorted(values), ["standup", "story"])


@check("complete a prompt")
async def _(d):
    ref = types.PromptReference(type="ref/prompt", name="review")
    values = (await d.client.complete(ref, {"name": "language", "value": "p"})).completion.values
    same(sorted(values), ["pascal", "perl", "python"])


@check("progress")
async def _(d):
    steps = []

    async def on_progress(progress, total, _message):
        steps.append((progress, total))

    same(await d.text("countdown", {"from": 3}, progress_callback=on_progress), "lift-off")
    while len(steps) < 3:
        await anyio.sleep(0.005)
    same(sorted(steps), [(1, 3), (2, 3), (3, 3)])


@check("logs")
async def _(d):
    before = len(d.heard(types.LoggingMessageNotification))
    await d.text("countdown", {"from": 3}, meta=await d.log_level("info"))
    logs = (await d.hear(types.LoggingMessageNotification, before + 3))[before:]
    same({(log.level, log.logger) for log in logs}, {("info", "countdown")})
    left = sorted(log.data["left"] for log in logs)
    same(left, list(range(left[0], left[0] + 3)))


@check("logs below the level stay away")
async def _(d):
    before = len(d.heard(types.LoggingMessageNotification))
    await d.text("countdown", {"from": 2}, meta=await d.log_level("error"))
    await anyio.sleep(QUIET_SECONDS)
    same(len(d.heard(types.LoggingMessageNotification)), before)


@check("no logs unless asked for", era="modern")
async def _(d):
    before = len(d.heard(types.LoggingMessageNotification))
    await d.text("countdown", {"from": 2})
    await anyio.sleep(QUIET_SECONDS)
    same(len(d.heard(types.LoggingMessageNotification)), before)


@check("elicitation accepted")
async def _(d):
    d.elicitation = types.ElicitResult(action="accept", content={"confirmed": True})
    same(await d.text("deploy", {"build": "v7"}), "deployed v7")
    same(d.asked[-1].message, "Deploy v7?")
    same(d.asked[-1].requested_schema["properties"]["confirmed"]["type"], "boolean")
    same(d.asked[-1].requested_schema["required"], ["confirmed"])


@check("elicitation accepted with no")
async def _(d):
    d.elicitation = types.ElicitResult(action="accept", content={"confirmed": False})
    same(await d.text("deploy", {"build": "v7"}), "kept")


@check("elicitation declined")
async def _(d):
    d.elicitation = types.ElicitResult(action="decline")
    said = await d.tool_error("deploy", {"build": "v7"})
    assert "declined" in said, said


@check("elicitation cancelled")
async def _(d):
    d.elicitation = types.ElicitResult(action="cancel")
    said = await d.tool_error("deploy", {"build": "v7"})
    assert "cancelled" in said, said


@check("elicitation by URL")
async def _(d):
    d.elicitation = types.ElicitResult(action="accept")
    same(await d.text("sign_in"), "signed in")
    ask = d.asked[-1]
    same((ask.mode, ask.message, ask.url), ("url", "Sign in to continue.", "https://example.com/sign-in"))


@check("sampling")
async def _(d):
    same(await d.text("poem", {"topic": "harbours"}), "The sea, the sea.")
    same(d.asked[-1].max_tokens, 100)
    same([message.role for message in d.asked[-1].messages], ["user"])
    content = d.asked[-1].messages[0].content
    content = content[0] if isinstance(content, list) else content
    same(content.text, "Write one line about harbours.")


@check("roots")
async def _(d):
    same((await d.text("workspace")).split(), ["file:///work/one", "file:///work/two"])


@check("cancel a call")
async def _(d):
    with anyio.move_on_after(0.1) as scope:
        await d.text("sleep", {"seconds": 1})
    assert scope.cancelled_caught, "the call ended before it was cancelled"
    same(await d.text("add", {"a": 20, "b": 22}), "42")


@check("changes")
async def _(d):
    changed, updated = types.ToolListChangedNotification, types.ResourceUpdatedNotification

    async with d.watch("demo://clock") as subscription:

        async def change(kind, tool, arguments):
            before = len(d.heard(kind))
            await d.text(tool, arguments)
            if subscription:
                await anext(subscription)
            return (await d.hear(kind, before + 1))[-1]

        async def bonus():
            return "bonus" in [tool.name for tool in (await d.client.list_tools()).tools]

        await change(changed, "set_bonus", {"on": True})
        same(await bonus(), True)
        await change(changed, "set_bonus", {"on": False})
        same(await bonus(), False)
        same(str((await change(updated, "touch", {})).uri), "demo://clock")
    await anyio.sleep(QUIET_SECONDS)  # the SDK ends the subscription from another task
    await d.text("touch")
    await anyio.sleep(QUIET_SECONDS)
    same(len(d.heard(updated)), 1)


@check("ping", era="legacy")
async def _(d):
    await d.client.send_ping()


@check("resume a call that was cut", era="legacy", over="http")
async def _(d):
    last, steps = 60, []
    # Only one cut: after a second one, the SDK would resume from the event of the first.
    async with proxy_to(d.target.command, ['"progress":3,']) as proxy, d.connect(proxy.url) as client:

        async def on_progress(progress, _total, _message):
            steps.append(progress)

        await client.set_logging_level("info")
        before = len(d.heard(types.LoggingMessageNotification))
        result = await client.call_tool("countdown", {"from": last}, progress_callback=on_progress)
        same(result.content[0].text, "lift-off")
        same(proxy.cuts, 1)
        logs = (await d.hear(types.LoggingMessageNotification, before + last))[before:]
        while len(steps) < last:
            await anyio.sleep(0.005)
    same(sorted(steps), list(range(1, last + 1)))
    same(sorted(log.data["left"] for log in logs), list(range(last)))


@check("answer a question after a cut", era="legacy", over="http")
async def _(d):
    async with proxy_to(d.target.command) as proxy:

        async def cut_then_accept(_context, _params):
            await proxy.cut_and_wait()
            return types.ElicitResult(action="accept", content={"confirmed": True})

        connection = d.connect(proxy.url)
        connection.elicitation_callback = cut_then_accept
        async with connection as client:
            same((await client.call_tool("deploy", {"build": "v8"})).content[0].text, "deployed v8")


@check("no protocol errors")
async def _(d):
    same(d.errors, [])


if __name__ == "__main__":
    main(check, Driver(target()))

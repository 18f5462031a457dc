"""Checks the demo server with PyPI `fastmcp`: fastmcp_client.py --legacy|--modern URL, or SERVER [ARGUMENT ...]"""

from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError
from mcp.client.subscriptions import listen

from harness import QUIET_SECONDS, Checks, main, proxy_to, same, target

check = Checks()


class Driver:
    """Connected client, the received server requests and notifications, and the answers to requests."""

    def __init__(self, target):
        self.target = target
        self.client = None
        self.answer = {"confirmed": True}
        self.asked = []
        self.logs = []
        self.notices = []
        self.errors = []

    def connect(self, url=None):
        stdio = self.target.over == "stdio"
        # This client selects the transport by the address.
        server = StdioTransport(self.target.command, self.target.args) if stdio else self.target.command
        return Client(
            url or server,
            mode="auto" if self.target.era == "modern" else "legacy",
            elicitation_handler=self.on_elicitation,
            sampling_handler=self.on_sampling,
            roots=["file:///work/one", "file:///work/two"],
            log_handler=self.on_log,
            message_handler=self.on_message,
        )

    async def on_elicitation(self, _message, response_type, params, _context):
        self.asked.append((response_type, params))
        return await self.answer() if callable(self.answer) else self.answer

    async def on_sampling(self, messages, _params, _context):
        self.asked.append(messages)
        return "The sea, the sea."

    async def on_log(self, log):
        self.logs.append(log)

    async def on_message(self, message):
        if isinstance(message, Exception):
            self.errors.append(repr(message))
        else:
            self.notices.append(message)

    async def text(self, name, arguments=None, **options):
        return (await self.client.call_tool(name, arguments or {}, **options)).content[0].text

    def heard(self, kind):
        return [notice.params for notice in self.notices if isinstance(notice, kind)]

    async def hear(self, kind, count):
        while len(self.heard(kind)) < count:
            await anyio.sleep(0.005)
        return self.heard(kind)

    @asynccontextmanager
    async def watch(self, uri):
        if self.target.era == "modern":
            async with listen(self.client.session, tools_list_changed=True, resource_subscriptions=[uri]):
                yield
        else:
            await self.client.session.subscribe_resource(uri)
            yield
            await self.client.session.unsubscribe_resource(uri)


async def failure(kind, awaitable):
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError("it succeeded")


@check("revision")
async def _(d):
    same(d.client.protocol_version, "2026-07-28" if d.target.era == "modern" else "2025-11-25")


@check("what the server says about itself")
async def _(d):
    same(d.client.server_info.name, "wharf-demo")
    assert d.client.instructions, "no instructions"
    same(d.client.server_capabilities.tools.list_changed, True)
    same(d.client.server_capabilities.resources.subscribe, True)


@check("list tools")
async def _(d):
    tools = [tool.name for tool in await d.client.list_tools()]
    expected = "add countdown deploy echo fail forecast gallery pay_share poem set_bonus sign_in sleep split_bill touch"
    expected += " voyage weather workspace"
    same(sorted(tools), expected.split())


@check("call")
async def _(d):
    same(await d.text("add", {"a": 2, "b": 3}), "5")
    odd = 'naïve ☃ 𝄞 "quoted" \\ \n line\u2028separator'
    same(await d.text("echo", {"text": odd}), odd)


@check("structured output")
async def _(d):
    weather = (await d.client.call_tool("weather", {"city": "Oslo"})).data
    same((weather.city, weather.celsius, weather.sky), ("Oslo", 21.5, "clear"))


@check("content types")
async def _(d):
    content = (await d.client.call_tool("gallery")).content
    same(sorted(item.type for item in content), ["audio", "image", "resource", "resource_link", "text"])


@check("errors")
async def _(d):
    same(str(await failure(ToolError, d.text("fail", {"reason": "out of fuel"}))), "out of fuel")
    same((await failure(MCPError, d.text("nothing"))).code, -32602)
    same((await failure(MCPError, d.client.read_resource("demo://nothing"))).data["uri"], "demo://nothing")


@check("resources")
async def _(d):
    resources = {str(resource.uri) for resource in await d.client.list_resources()}
    same(resources, {"demo://readme", "demo://logo", "demo://clock", "ui://wharf-demo/bill"})
    templates = {template.uri_template for template in await d.client.list_resource_templates()}
    same(templates, {"demo://files/{+path}", "demo://notes/{name}"})
    same([item.text for item in await d.client.read_resource("demo://notes/standup")], ["Note standup"])
    same([item.mime_type for item in await d.client.read_resource("demo://logo")], ["image/png"])


@check("prompts")
async def _(d):
    same({prompt.name for prompt in await d.client.list_prompts()}, {"greet", "review"})
    messages = (await d.client.get_prompt("greet", {"name": "Ada"})).messages
    same([message.content.text for message in messages], ["Say hello to Ada."])


@check("complete")
async def _(d):
    ref = types.PromptReference(type="ref/prompt", name="review")
    completion = await d.client.complete(ref, {"name": "language", "value": "p"})
    same(sorted(completion.values), ["pascal", "perl", "python"])


@check("progress")
async def _(d):
    steps = []

    async def on_progress(progress, total, _message):
        steps.append((progress, total))

    same(await d.text("countdown", {"from": 3}, progress_handler=on_progress), "lift-off")
    while len(steps) < 3:
        await anyio.sleep(0.005)
    same(sorted(steps), [(1, 3), (2, 3), (3, 3)])


@check("logs")
async def _(d):
    if d.target.era == "legacy":
        await d.client.set_logging_level("info")
    d.logs.clear()
    await d.text("countdown", {"from": 3})
    while len(d.logs) < 3:
        await anyio.sleep(0.005)
    same({(log.level, log.logger) for log in d.logs}, {("info", "countdown")})


@check("elicitation")
async def _(d):
    d.answer = {"confirmed": True}
    same(await d.text("deploy", {"build": "v7"}), "deployed v7")
    response_type, params = d.asked[-1]
    same(params.message, "Deploy v7?")
    same(list(response_type.__annotations__), ["confirmed"])
    d.answer = response_type(confirmed=False)
    same(await d.text("deploy", {"build": "v7"}), "kept")
    d.answer = ElicitResult(action="decline")
    said = str(await failure(ToolError, d.text("deploy", {"build": "v7"})))
    assert "declined" in said, said


@check("elicitation by URL")
async def _(d):
    d.answer = ElicitResult(action="accept")
    same(await d.text("sign_in"), "signed in")
    same(d.asked[-1][1].url, "https://example.com/sign-in")


@check("sampling")
async def _(d):
    same(await d.text("poem", {"topic": "harbours"}), "The sea, the sea.")
    same([message.role for message in d.asked[-1]], ["user"])


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
    async with d.watch("demo://clock"):
        before = len(d.heard(changed))
        await d.text("set_bonus", {"on": True})
        await d.hear(changed, before + 1)
        same(await d.text("bonus"), "a bonus")
        await d.text("set_bonus", {"on": False})
        await d.hear(changed, before + 2)
        await d.text("touch")
        same([str(params.uri) for params in await d.hear(updated, 1)], ["demo://clock"])
    await anyio.sleep(QUIET_SECONDS)  # the SDK ends the subscription from another task
    await d.text("touch")
    await anyio.sleep(QUIET_SECONDS)
    same(len(d.heard(updated)), 1)


@check("ping", era="legacy")
async def _(d):
    same(await d.client.ping(), True)


@check("resume a call that was cut", era="legacy", over="http")
async def _(d):
    last, steps = 60, []
    # Only one cut: after a second one, the SDK would resume from the event of the first.
    async with proxy_to(d.target.command, ['"progress":3,']) as proxy, d.connect(proxy.url) as client:

        async def on_progress(progress, _total, _message):
            steps.append(progress)

        await client.set_logging_level("info")
        d.logs.clear()
        result = await client.call_tool("countdown", {"from": last}, progress_handler=on_progress)
        same(result.content[0].text, "lift-off")
        same(proxy.cuts, 1)
        while min(len(steps), len(d.logs)) < last:
            await anyio.sleep(0.005)
    same(sorted(steps), list(range(1, last + 1)))
    same(sorted(log.data["left"] for log in d.logs), list(range(last)))


@check("answer a question after a cut", era="legacy", over="http")
async def _(d):
    async with proxy_to(d.target.command) as proxy, d.connect(proxy.url) as client:

        async def cut_then_accept():
            await proxy.cut_and_wait()
            return {"confirmed": True}

        d.answer = cut_then_accept
        same((await client.call_tool("deploy", {"build": "v8"})).content[0].text, "deployed v8")


@check("no protocol errors")
async def _(d):
    same(d.errors, [])


if __name__ == "__main__":
    main(check, Driver(target()))

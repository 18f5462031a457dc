"""Checks calls of several rounds with PyPI `mcp`: rounds.py --modern URL, or SERVER [ARGUMENT ...]"""

import mcp_types as types

from harness import Checks, main, same, target
from sdk import Driver, failure

check = Checks()

BUILD = {"build": "v9"}
ACCEPTED = {"confirm": types.ElicitResult(action="accept", content={"confirmed": True})}
REFUSED = {"confirm": types.ElicitResult(action="accept", content={"confirmed": False})}


def retry(d, arguments, responses, state):
    """Retries `deploy` with input responses."""
    return d.client.session.call_tool(
        "deploy", arguments, input_responses=responses, request_state=state, allow_input_required=True
    )


async def first_round(d, arguments):
    asked = await d.client.session.call_tool("deploy", arguments, allow_input_required=True)
    assert isinstance(asked, types.InputRequiredResult), asked
    same(list(asked.input_requests), ["confirm"])
    assert asked.request_state, "there is no requestState"
    return asked.request_state


def changed(state, at):
    return state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]


@check("the client answers by itself")
async def _(d):
    d.elicitation = ACCEPTED["confirm"]
    same(await d.text("deploy", BUILD), "deployed v9")


@check("rounds by hand")
async def _(d):
    for responses, text in [(ACCEPTED, "deployed v9"), (REFUSED, "kept")]:
        result = await retry(d, BUILD, responses, await first_round(d, BUILD))
        same(result.content[0].text, text)


@check("a bad requestState is refused as this SDK's server refuses it")
async def _(d):
    state = await first_round(d, BUILD)
    other = await first_round(d, {"build": "v10"})
    bad = [changed(state, at) for at in (0, len(state) // 2, len(state) - 2)]
    for bad_state in [*bad, state[:-4], "", "nonsense", other]:
        error = await failure(retry(d, BUILD, ACCEPTED, bad_state))
        same(error.code, types.INVALID_PARAMS)
        same(error.message, "Invalid or expired requestState")
        same(error.data, {"reason": "invalid_request_state"})
    # The valid state still ends the call.
    result = await retry(d, BUILD, ACCEPTED, state)
    same(result.content[0].text, "deployed v9")


if __name__ == "__main__":
    main(check, Driver(target()))

"""Every example of an asynchronous class returns the documented result, with top-level ``await``."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client_groups import ASYNC_GROUPS
from test_docstrings import PLAN_WRITES, examples_of, predefined

from mirror_sdk import (
    AsyncDeviceRequest,
    AsyncEvents,
    AsyncMirrorClient,
    AsyncSimulator,
    AsyncWatch,
    Simulator,
)
from mirror_sdk._protocol.accepted_request import AcceptedRequest
from mirror_sdk.plan import AsyncPlan
from mirror_sdk.plan.report import PlanReport
from mirror_sdk.recording import AsyncRecorder
from mirror_server.web.serve import _server_of, listen

CLASSES = [AsyncSimulator, AsyncDeviceRequest, AsyncEvents, AsyncMirrorClient, AsyncPlan, AsyncRecorder, AsyncWatch]
CLASSES += [*ASYNC_GROUPS.values()]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
EXAMPLES = examples_of([*CLASSES, AcceptedRequest, PlanReport])


@pytest.mark.keeps_history
@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("error")
def test_the_example_returns_the_documented_result(
    mirror: Any, simulator: Simulator, tmp_path: Path, name: str
) -> None:
    asyncio.run(show(EXAMPLES[name], simulator, mirror, tmp_path))


async def show(test: doctest.DocTest, simulator: Simulator, mirror: Any, folder: Path) -> None:
    """Run the examples one after the other, with the names that they use."""
    async with (
        contextlib.AsyncExitStack() as stack,
        AsyncMirrorClient("http://mirror.localhost", mirror.new_key(), transport=mirror.async_transport) as client,
        AsyncMirrorClient("http://mirror.localhost", mirror.new_key(), transport=mirror.async_transport) as operator,
    ):
        # A key receives events from its first request on.
        await client.devices.list()
        names = {"client": client, "simulator": AsyncSimulator(operator), **predefined(simulator, folder)}
        names |= {"asyncio": asyncio, "AsyncMirrorClient": AsyncMirrorClient}
        if test.name == "AsyncNotifications.use_websocket":
            address = await stack.enter_async_context(listening(mirror))
            names["client"] = await stack.enter_async_context(AsyncMirrorClient(address, mirror.new_key()))
        if test.name.startswith("PlanReport."):
            await client.read_value("light-01", "/3311/0/5851")
            names["plan"] = await client.plan(PLAN_WRITES)
        if test.name.startswith("AcceptedRequest."):
            names["request"] = request = await client.requests.begin_read("station-01", "/3303/0/5700")
            await request.result()
        for example in test.examples:
            code = compile(example.source, test.name, "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                made = eval(code, names)
                if inspect.iscoroutine(made):
                    await made
            found = printed.getvalue()
            assert doctest.OutputChecker().check_output(example.want, found, FLAGS), f"{example.source}gave {found}"


@contextlib.asynccontextmanager
async def listening(mirror: Any) -> AsyncIterator[str]:
    """Serve the mirror on this loop at an address, including websockets.

    A separate process would have to start within a time that a busy machine may exceed.
    """
    server = _server_of(mirror.services)
    with listen("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_public_method_has_an_example_that_awaits(kind: type) -> None:
    bare = []
    for name, member in vars(kind).items():
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, classmethod)):
            continue
        example = "".join(one.source for one in doctest.DocTestParser().get_examples(member.__doc__ or ""))
        if not re.search(r"\bawait |\basync (for|with) ", example):
            bare.append(name)
    assert bare == []
    assert kind is not AsyncEvents or "async for" in (kind.__doc__ or "")

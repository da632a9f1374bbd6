"""The two clients are twins: the same names, parameters, defaults and annotations."""

import inspect

import pytest

from mirror_sdk import (
    AsyncDeviceRequest,
    AsyncMirrorClient,
    AsyncSimulator,
    AsyncWatch,
    DeviceRequest,
    MirrorClient,
    Simulator,
    Watch,
)
from mirror_sdk.cassette import AsyncCassette, Cassette
from mirror_sdk.plan import AsyncPlan, Plan
from mirror_sdk.recording import AsyncRecorder, Recorder

TWINS = {
    MirrorClient: AsyncMirrorClient,
    DeviceRequest: AsyncDeviceRequest,
    Watch: AsyncWatch,
    Recorder: AsyncRecorder,
    Plan: AsyncPlan,
    Cassette: AsyncCassette,
    Simulator: AsyncSimulator,
}
NAMES = {"close": "aclose", "__enter__": "__aenter__", "__exit__": "__aexit__"}
# What the asynchronous one has instead.
TYPES = {kind.__name__: twin.__name__ for kind, twin in TWINS.items()} | {"Events": "AsyncEvents"}
TYPES["httpx.BaseTransport | None"] = "httpx.AsyncBaseTransport | None"
AT_ONCE = {"Cassette.insert", "Cassette.open", "MirrorClient.cassette", "MirrorClient.events", "Plan.save", "Plan.stop"}
AT_ONCE |= {f"MirrorClient.{name}" for name in ("from_cassette", "from_env", "status")} | {"Recorder.audit"}
"""What the asynchronous client does without waiting."""


def public(kind):
    return {
        name: member
        for name, member in inspect.getmembers(kind)
        if (not name.startswith("_") or name in {"__init__", "__enter__", "__aenter__"})
        and (callable(member) or isinstance(member, property))
    }


@pytest.mark.parametrize("sync", TWINS, ids=lambda kind: kind.__name__)
def test_each_method_takes_and_gives_the_same(sync):
    members, twins = public(sync), public(TWINS[sync])
    assert {NAMES.get(name, name) for name in members} == set(twins)
    for name, ours in members.items():
        if name == "__init__" and sync is not MirrorClient:
            continue  # made by a client, never by a user
        theirs = twins[NAMES.get(name, name)]
        own = name in vars(sync) and not isinstance(ours, property) and name != "__init__"
        if own and f"{sync.__name__}.{name}" not in AT_ONCE:
            assert inspect.iscoroutinefunction(theirs), name
        assert theirs.__doc__ or name.startswith("__"), name
        wanted, found = (inspect.signature(getattr(one, "fget", one)) for one in (ours, theirs))
        assert list(found.parameters) == list(wanted.parameters), name
        for parameter in wanted.parameters.values():
            twin = found.parameters[parameter.name]
            assert (twin.kind, twin.default) == (parameter.kind, parameter.default), name
            assert twin.annotation == TYPES.get(parameter.annotation, parameter.annotation), name
        assert found.return_annotation == TYPES.get(wanted.return_annotation, wanted.return_annotation), name

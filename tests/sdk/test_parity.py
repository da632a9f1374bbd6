"""The two clients are twins: the same names, parameters, defaults and annotations."""

import inspect

import pytest

from mirror_sdk import (
    AsyncBench,
    AsyncDeviceRequest,
    AsyncMirrorClient,
    AsyncWatch,
    Bench,
    DeviceRequest,
    MirrorClient,
    Watch,
)
from mirror_sdk.cassette import AsyncCassette, Cassette
from mirror_sdk.plan import AsyncPlan, Plan
from mirror_sdk.recording import AsyncRecorder, Recorder

TWINS = [
    (MirrorClient, AsyncMirrorClient),
    (DeviceRequest, AsyncDeviceRequest),
    (Watch, AsyncWatch),
    (Recorder, AsyncRecorder),
    (Plan, AsyncPlan),
    (Cassette, AsyncCassette),
    (Bench, AsyncBench),
]
NAMES = {"close": "aclose", "__enter__": "__aenter__", "__exit__": "__aexit__"}
# What the asynchronous one has instead.
TYPES = {
    "Cassette": "AsyncCassette",
    "Events": "AsyncEvents",
    "DeviceRequest": "AsyncDeviceRequest",
    "Watch": "AsyncWatch",
    "Recorder": "AsyncRecorder",
    "Plan": "AsyncPlan",
    "httpx.BaseTransport | None": "httpx.AsyncBaseTransport | None",
}
AT_ONCE = {
    "Cassette.insert",
    "Cassette.open",
    "MirrorClient.cassette",
    "MirrorClient.events",
    "MirrorClient.from_cassette",
    "MirrorClient.from_env",
    "MirrorClient.status",
    "Plan.save",
    "Plan.stop",
    "Recorder.audit",
}
"""What the asynchronous client does without waiting."""


def public(kind):
    return {
        name: member
        for name, member in inspect.getmembers(kind)
        if (not name.startswith("_") or name in {"__init__", "__enter__", "__aenter__"})
        and (callable(member) or isinstance(member, property))
    }


@pytest.mark.parametrize(("sync", "twin"), TWINS, ids=lambda kind: kind.__name__)
def test_they_have_the_same_names(sync, twin):
    assert {NAMES.get(name, name) for name in public(sync)} == set(public(twin))


@pytest.mark.parametrize(
    ("sync", "twin", "name"),
    [(sync, twin, name) for sync, twin in TWINS for name in public(sync)],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_each_method_takes_and_gives_the_same(sync, twin, name):
    ours, theirs = public(sync)[name], public(twin)[NAMES.get(name, name)]
    if isinstance(ours, property):
        ours, theirs = ours.fget, theirs.fget
    if name == "__init__" and sync is not MirrorClient:
        return  # made by a client, never by a user
    wanted, found = inspect.signature(ours), inspect.signature(theirs)
    assert list(found.parameters) == list(wanted.parameters)
    for parameter in wanted.parameters.values():
        twin_parameter = found.parameters[parameter.name]
        assert (twin_parameter.kind, twin_parameter.default) == (parameter.kind, parameter.default)
        assert twin_parameter.annotation == TYPES.get(parameter.annotation, parameter.annotation)
    assert found.return_annotation == TYPES.get(wanted.return_annotation, wanted.return_annotation)
    own = name in vars(sync) and not isinstance(public(sync)[name], property)
    if own and f"{sync.__name__}.{name}" not in AT_ONCE and name != "__init__":
        assert inspect.iscoroutinefunction(theirs)
    assert theirs.__doc__ or name.startswith("__")

"""The two clients and their groups are twins: the same names, parameters, defaults and annotations."""

import inspect
import re
from pathlib import Path

import pytest
from client_groups import ASYNC_GROUPS, GROUPS

import mirror_sdk
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
from mirror_sdk.conditions.alarms import Alarms
from mirror_sdk.conditions.async_alarms import AsyncAlarms
from mirror_sdk.plan import AsyncPlan, Plan
from mirror_sdk.recording import AsyncRecorder, Recorder

TWINS = {
    MirrorClient: AsyncMirrorClient,
    DeviceRequest: AsyncDeviceRequest,
    Watch: AsyncWatch,
    Alarms: AsyncAlarms,
    Recorder: AsyncRecorder,
    Plan: AsyncPlan,
    Cassette: AsyncCassette,
    Simulator: AsyncSimulator,
    **{kind: ASYNC_GROUPS.get(name) for name, kind in GROUPS.items()},
}
NAMES = {"close": "aclose", "__enter__": "__aenter__", "__exit__": "__aexit__"}
# Members of the asynchronous client that replace these.
TYPES = {kind.__name__: twin.__name__ for kind, twin in TWINS.items()} | {"Events": "AsyncEvents"}
TYPES["httpx.BaseTransport | None"] = "httpx.AsyncBaseTransport | None"
AT_ONCE = {
    *("Cassette.insert", "Cassette.open", "Cassettes.use", "MirrorClient.events", "MirrorClient.from_cassette"),
    *(
        "MirrorClient.from_env",
        "MirrorClient.watch_conditions",
        "Notifications.status",
        "Plan.save",
        "Plan.stop",
        "Recorder.audit",
    ),
}
"""Members of the asynchronous client that do not wait."""


def public(kind):
    return {
        name: member
        for name, member in inspect.getmembers(kind)
        if (not name.startswith("_") or name in {"__init__", "__enter__", "__aenter__"})
        and (callable(member) or isinstance(member, property))
    }


def function_of(member):
    return getattr(member, "fget", None) or getattr(member, "func", member)


@pytest.mark.parametrize("sync", TWINS, ids=lambda kind: kind.__name__)
def test_each_method_has_the_same_arguments_and_result(sync):
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
        expected, found = (inspect.signature(function_of(one)) for one in (ours, theirs))
        assert list(found.parameters) == list(expected.parameters), name
        for parameter in expected.parameters.values():
            twin = found.parameters[parameter.name]
            assert (twin.kind, twin.default) == (parameter.kind, parameter.default), name
            assert twin.annotation == TYPES.get(parameter.annotation, parameter.annotation), name
        assert found.return_annotation == TYPES.get(expected.return_annotation, expected.return_annotation), name


ON_THE_CLIENT = {
    *("read_value", "write_value", "execute", "get_device", "subscribe", "unsubscribe", "events", "watch", "record"),
    "watch_conditions",
    *("plan", "state_frame", "history", "as_of", "changes", "sql", "from_env", "from_cassette", "base_url", "close"),
    *("cassettes", "devices", "fleet", "notifications", "plans", "requests", "service", "subscriptions"),
}


@pytest.mark.parametrize("kind", [MirrorClient, AsyncMirrorClient])
def test_completion_on_a_client_shows_its_methods_and_its_groups(kind):
    completions = {name for name in dir(kind("http://127.0.0.1:1", "a-key")) if not name.startswith("__")}
    assert not [name for name in completions if name.startswith("_")]
    assert {"close" if name == "aclose" else name for name in completions} == ON_THE_CLIENT


def test_no_other_class_of_the_package_has_the_name_of_a_group():
    names = [kind.__name__ for kind in (*GROUPS.values(), *ASYNC_GROUPS.values())]
    assert len(set(names)) == len(names)
    sources = Path(mirror_sdk.__file__).parent.rglob("*.py")
    defined = [name for file in sources for name in re.findall(r"^class (\w+)", file.read_text(), re.MULTILINE)]
    assert [name for name in names if defined.count(name) != 1] == []

"""Every example in a docstring and in the manual returns the documented result, on a mirror with two devices."""

import doctest
import importlib
import warnings
from datetime import timedelta

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from changed_responses import DIMMER, RESOURCES
from client_groups import GROUPS as CLIENT_GROUPS
from topic_examples import topic_examples

from mirror_sdk import (
    Condition,
    DeviceList,
    DeviceObject,
    DeviceRequest,
    MirrorClient,
    PreconditionFailed,
    Resource,
    Simulator,
    Value,
    WebhookReceiver,
    examples,
)
from mirror_sdk._fork import lazy_property
from mirror_sdk._protocol.accepted_request import AcceptedRequest
from mirror_sdk.cli import help_command
from mirror_sdk.frames import MirrorAccessor
from mirror_sdk.frames.analysis.history_methods import HistoryMethods
from mirror_sdk.plan import Plan
from mirror_sdk.plan.report import PlanReport
from mirror_sdk.recording import Recording
from mirror_sdk.snapshot.dataset import SnapshotDataset
from mirror_sdk.sql.queryable import Queryable
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable, WritePanel
from mirror_sdk.widgets.widget import MirrorWidget

pytestmark = pytest.mark.keeps_history
WIDGETS = [EventWatcher, Explorer, FleetTable, WritePanel]
CLASSES = [
    *(Simulator, DeviceList, DeviceObject, DeviceRequest, MirrorAccessor, MirrorClient, Plan, PlanReport, Recording),
    *(AcceptedRequest, Condition, HistoryMethods, Queryable, Resource, SnapshotDataset, Value, *WIDGETS, MirrorWidget),
    *CLIENT_GROUPS.values(),
]
MODULES = [
    "mirror_sdk",
    *(
        f"mirror_sdk.{name}"
        for name in ("examples", "frames", "frames.accessor", "history", "object_definitions", "plan")
    ),
    *(f"mirror_sdk.privacy{name}" for name in ("", ".pseudonymize_tables")),
    *(f"mirror_sdk.{name}" for name in ("progress", "recording", "snapshot", "values", "values.text_input", "widgets")),
]
WITHOUT = {
    "DeviceObject.from_wire",
    "MirrorWidget.open",
    *(f"AcceptedRequest.{name}" for name in ("default_timeout_seconds", "wait_timeout", "read_failure", "read_value")),
}
"""Members that users do not call."""
PLAN_WRITES = [("light-01", "/3311/0/5851", 40), ("light-01", "/3311/0/5850", "on")]
"""The entries of the plan whose :class:`PlanReport` the examples use."""
STATION = RESOURCES[:1]
LIGHT = [{"path": "/3/0/4", "value": "", "executable": True}, RESOURCES[2], DIMMER]
GENERATED = {Simulator, DeviceRequest, MirrorClient, Plan, *CLIENT_GROUPS.values()}
"""Classes that are generated from asynchronous ones, whose examples test_async_docstrings.py runs."""


def examples_of(kinds):
    """Return the tests of the docstrings by their names."""
    found = [doctest.DocTestFinder().find(kind, kind.__name__) for kind in kinds]
    return {test.name.removeprefix("mirror_sdk."): test for tests in found for test in tests if test.examples}


EXAMPLES = examples_of([*(kind for kind in CLASSES if kind not in GENERATED), *map(importlib.import_module, MODULES)])
TOPICS = {topic: test for topic in help_command.TOPICS if topic != "dask" and (test := topic_examples(topic)).examples}
"""Topics of the manual with examples. ``test_process_dask.py`` runs those of ``dask``, which need a server on a port.
"""


def predefined(simulator, folder):
    """Return the names that examples of synchronous and asynchronous classes use."""
    light = simulator.add_device("light-01", LIGHT, endpoint_type="Light")
    station = simulator.add_device("station-01", STATION, endpoint_type="Station")
    kinds = {kind.__name__: kind for kind in (timedelta, PreconditionFailed, WebhookReceiver)}
    return {"light": light, "station": station, "folder": folder, "pd": pd, **kinds}


@pytest.fixture
def names(plain, simulator, tmp_path, opened):
    """Yield the predefined names of the examples."""
    # A key receives events from its first request on.
    plain.devices.list()
    kinds = {kind.__name__: kind for kind in (MirrorClient, Recording, *WIDGETS)}
    yield {"client": plain, "simulator": simulator, **predefined(simulator, tmp_path), "examples": examples, **kinds}
    plt.close("all")


@pytest.mark.parametrize("name", [*EXAMPLES, *TOPICS])
def test_the_example_returns_the_documented_result(name, names, mirror, monkeypatch, request):
    if name == "client":
        # The applications in these examples read the address of the mirror, on a port, from the environment.
        monkeypatch.setenv("API_HOST", request.getfixturevalue("address"))
        monkeypatch.setenv("API_KEY", mirror.new_key())
    if name.startswith("PlanReport."):
        names["client"].read_value("light-01", "/3311/0/5851")
        names["plan"] = names["client"].plan(PLAN_WRITES)
    if name.startswith("AcceptedRequest."):
        names["request"] = names["client"].requests.begin_read("station-01", "/3303/0/5700")
        names["request"].result()
    test = (EXAMPLES | TOPICS)[name]
    test.globs = names
    failures = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(test, out=failures.append, clear_globs=False)
    assert runner.failures == 0, "".join(failures)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_public_method_has_an_example(kind):
    bare = [
        name
        for name, member in vars(kind).items()
        if (callable(member) or isinstance(member, property | classmethod)) and not name.startswith("_")
        if not isinstance(member, lazy_property)  # a group, whose methods have examples
        if f"{kind.__name__}.{name}" not in WITHOUT
        if ">>>" not in (member.__doc__ or "")
    ]
    assert bare == []

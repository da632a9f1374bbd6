"""Every example in a docstring gives what it shows, on a mirror with two devices."""

import doctest
import importlib
import warnings
from datetime import timedelta

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from mirror_sdk import (
    Bench,
    DeviceList,
    DeviceObject,
    DeviceRequest,
    MirrorClient,
    PreconditionFailed,
    Resource,
    Value,
    WebhookReceiver,
    examples,
)
from mirror_sdk._service.placed_request import PlacedRequest
from mirror_sdk.frames import MirrorAccessor
from mirror_sdk.frames.questions.methods import Questions
from mirror_sdk.plan import Plan
from mirror_sdk.plan.report import PlanReport
from mirror_sdk.recording import Recording
from mirror_sdk.snapshot.dataset import SnapshotDataset
from mirror_sdk.widgets import EventWatcher, Explorer, FleetMap, WritePanel
from mirror_sdk.widgets.base import MirrorWidget

WIDGETS = [EventWatcher, Explorer, FleetMap, WritePanel]
CLASSES = [
    *(Bench, DeviceList, DeviceObject, DeviceRequest, MirrorAccessor, MirrorClient, Plan, PlanReport, Recording),
    *(PlacedRequest, Questions, Resource, SnapshotDataset, Value, *WIDGETS, MirrorWidget),
]
MODULES = [
    "mirror_sdk",
    "mirror_sdk.examples",
    "mirror_sdk.frames",
    "mirror_sdk.frames.accessor",
    "mirror_sdk.history",
    "mirror_sdk.object_table",
    "mirror_sdk.plan",
    "mirror_sdk.privacy",
    "mirror_sdk.privacy.pseudonymising",
    "mirror_sdk.progress",
    "mirror_sdk.recording",
    "mirror_sdk.snapshot",
    "mirror_sdk.values",
    "mirror_sdk.values.typed",
    "mirror_sdk.widgets",
]
WITHOUT = {
    "DeviceObject.from_wire",
    *(
        f"{kind.__name__}.{name}"
        for kind in [*WIDGETS, MirrorWidget]
        for name in ("keep_copy", "render", "static_html", "take", "tick")
    ),
    *(f"MirrorWidget.{name}" for name in ("begin", "changed", "handler", "is_changed", "settle")),
    *(f"PlacedRequest.{name}" for name in ("default_timeout_seconds", "late", "read_failure", "read_value")),
}
"""What users do not call."""
WANTED = [("light-01", "/3311/0/5851", 40), ("light-01", "/3311/0/5850", "on")]
"""What the plan is of that a :class:`PlanReport` has in its examples."""
STATION = [{"path": "/3303/0/5700", "value": "21.5", "observable": True}]
LIGHT = [
    {"path": "/3/0/4", "value": "", "executable": True},
    {"path": "/3311/0/5850", "value": "0", "observable": True, "writable": True},
    {"path": "/3311/0/5851", "value": "10", "observable": True, "writable": True},
]
GENERATED = {Bench, DeviceRequest, MirrorClient, Plan}
"""Made from asynchronous classes, whose examples test_async_docstrings.py runs."""
EXAMPLES = {
    test.name.removeprefix("mirror_sdk."): test
    for kind in CLASSES
    if kind not in GENERATED
    for test in doctest.DocTestFinder(exclude_empty=True).find(
        kind, kind.__name__, importlib.import_module(kind.__module__)
    )
    if test.examples
} | {
    test.name: test
    for name in MODULES
    for test in doctest.DocTestFinder().find(importlib.import_module(name), name)
    if test.examples
}


@pytest.fixture
def kept_seconds():
    """A week, as that of a demo."""
    return 7 * 86400.0


def given(bench, folder):
    """What the examples of synchronous and asynchronous classes take for granted."""
    return {
        "light": bench.add_device("light-01", LIGHT, endpoint_type="Light"),
        "station": bench.add_device("station-01", STATION, endpoint_type="Station"),
        "folder": folder,
        "pd": pd,
        "timedelta": timedelta,
        "PreconditionFailed": PreconditionFailed,
        "WebhookReceiver": WebhookReceiver,
    }


@pytest.fixture
def names(mirror, tmp_path, opened):
    """What the examples take for granted."""
    with (
        MirrorClient("http://mirror.localhost", mirror.new_key(), transport=mirror.transport) as client,
        MirrorClient("http://mirror.localhost", mirror.new_key(), transport=mirror.transport) as operator,
    ):
        bench = Bench(operator)
        # A key sees what happens from its first request on.
        client.list_devices()
        yield {
            "client": client,
            "bench": bench,
            **given(bench, tmp_path),
            "examples": examples,
            "MirrorClient": MirrorClient,
            "Recording": Recording,
            **{kind.__name__: kind for kind in WIDGETS},
        }
    plt.close("all")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_gives_what_it_shows(name, names, mirror, monkeypatch, request):
    if name == "mirror_sdk":
        # Its applications find the mirror, on a port, in the environment.
        monkeypatch.setenv("API_HOST", request.getfixturevalue("address"))
        monkeypatch.setenv("API_KEY", mirror.new_key())
    if name.startswith("PlanReport."):
        names["client"].read_value("light-01", "/3311/0/5851")
        names["plan"] = names["client"].plan(WANTED)
    if name.startswith("PlacedRequest."):
        names["request"] = names["client"].begin_read("station-01", "/3303/0/5700")
        names["request"].result()
    test = EXAMPLES[name]
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
        if f"{kind.__name__}.{name}" not in WITHOUT
        if ">>>" not in (member.__doc__ or "")
    ]
    assert bare == []
